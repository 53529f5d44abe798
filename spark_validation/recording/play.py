"""Runs the groups of `groups.py` as processes, all at the same time, until the recording ends."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.support.group_of_members import JAVA_MEMBER
from compat_tests.support.jvm import compile_java, java_command
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.member_reports import MemberSpec
from compat_tests.support.processes import Child, Processes
from spark_validation.recording.groups import TOPICS, Group, Growth, Role, replicas
from spark_validation.recording.history import CatalogueLog

__all__ = ["Happening", "Stage", "play", "start_member"]

_ROOT = Path(__file__).resolve().parent.parent.parent
_LEAVE_TIMEOUT_S = 15.0
# Far below the defaults, so that ten minutes show what otherwise takes a day.
_SESSION_MS = 8000
_MAX_POLL_MS = 12000
_BEYOND_SESSION_S = _SESSION_MS / 1000 + 2
_BEYOND_POLL_S = _MAX_POLL_MS / 1000 + 4
_MOST_JOINED = 2
"""The number of members that may join a group on top of its initial ones."""


@dataclass(frozen=True, slots=True)
class Happening:
    """An action on a group, or an event of one of its members.

    Attributes:
        at_ms: milliseconds since the epoch, before the action.
        what: an Act that begins; or an event of a member: caused by an act (start, stop, killed, frozen,
            continued, stalled, subscribed) or not (died); or grow, of a topic.
        detail: the affected member (kind of client, process id, instance id) or topic.
    """

    at_ms: int
    group: str | None
    what: str
    detail: str


@dataclass(slots=True)
class Stage:
    """The state that all groups share."""

    kafka: Kafka
    processes: Processes
    logs: Path
    happenings: list[Happening] = field(default_factory=list)

    def note(self, group: str | None, what: str, detail: str = "") -> None:
        self.happenings.append(Happening(int(time.time() * 1000), group, what, detail))
        print(f"{group or 'topic'}: {what} {detail}", file=sys.stderr, flush=True)


@dataclass(slots=True, eq=False)
class _Member:
    role: Role
    spec: MemberSpec
    process: Child
    log: Path

    @property
    def name(self) -> str:
        instance = f" {self.spec.instance_id}" if self.spec.instance_id else ""
        return f"{self.role.client} {self.process.pid}{instance}"

    def order(self, **order: object) -> None:
        """Give the member an order (see `member_reports.Orders`); the next act detects a dead member."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()


class _Life:
    """One group from its first member to the end of the recording."""

    def __init__(self, group: Group, stage: Stage, seed: int) -> None:
        self._group = group
        self._stage = stage
        self._random = random.Random(f"{seed}/{group.name}")
        self._members: list[_Member] = []
        self._started = itertools.count()
        self._switched = False
        self._upgrades = 0

    async def live(self) -> None:
        """Repeat the acts until cancelled."""
        await self._pause(0, 20)
        for role in self._group.roles:
            for _ in range(role.count):
                self._start(role)
                await self._pause(0, 4)
        for act in itertools.cycle(self._group.acts):
            await self._pause(14, 26)
            self._replace_the_dead()
            self._stage.note(self._group.name, act.value)
            await getattr(self, f"_{act.value}")()

    async def _join(self) -> None:
        if len(self._members) < sum(role.count for role in self._group.roles) + _MOST_JOINED:
            self._start(self._random.choice(self._group.roles))

    async def _leave(self) -> None:
        if len(self._members) > 1:
            await self._stop(self._any())

    async def _kill(self) -> None:
        member = self._any()
        self._forget(member, "killed")
        self._stage.processes.stop(member.process, signal.SIGKILL)
        await asyncio.sleep(_BEYOND_SESSION_S)
        self._start_again(member)

    async def _freeze(self) -> None:
        member = self._any()
        self._stage.note(self._group.name, "frozen", member.name)
        member.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(_BEYOND_SESSION_S)
        self._stage.note(self._group.name, "continued", member.name)
        member.process.send_signal(signal.SIGCONT)

    async def _stall(self) -> None:
        member = self._any()
        self._stage.note(self._group.name, "stalled", member.name)
        member.order(busy=True)
        await asyncio.sleep(_BEYOND_POLL_S)
        member.order(busy=False)

    async def _roll(self) -> None:
        for member in list(self._members):
            await self._stop(member)
            await self._pause(0.5, 2)
            self._start_again(member)
            await self._pause(6, 9)

    async def _bounce(self) -> None:
        await self._restart_all(0.0)

    async def _drain(self) -> None:
        await self._restart_all(self._random.uniform(4, 7))

    async def _restart_all(self, pause_s: float) -> None:
        members = list(self._members)
        await asyncio.gather(*map(self._stop, members))
        await asyncio.sleep(pause_s)
        for member in members:
            self._start_again(member)

    async def _switch(self) -> None:
        self._switched = not self._switched
        for member in self._members:
            if member.role.other_topics:
                self._stage.note(self._group.name, "subscribed", member.name)
                member.order(topics=self._topics(member.role))
                await self._pause(0, 2)

    async def _upgrade(self) -> None:
        self._upgrades += 1
        await self._roll()

    def _any(self) -> _Member:
        return self._random.choice(self._members)

    async def _pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self._random.uniform(least_s, most_s))

    def _topics(self, role: Role) -> tuple[str, ...]:
        return role.other_topics if self._switched and role.other_topics else role.topics

    def _strategies(self, role: Role) -> tuple[str, ...]:
        over_time = (role.strategies, *role.upgrades)
        return over_time[min(self._upgrades, len(over_time) - 1)]

    def _start_again(self, member: _Member) -> None:
        self._start(member.role, member.spec.instance_id, member.spec.rack)

    def _start(self, role: Role, instance_id: str | None = None, rack: str | None = None) -> None:
        """Start a member; without the names of a replaced member, it gets the next free ones."""
        number = next(self._started)
        if rack is None and role.racks:
            rack = role.racks[number % len(role.racks)]
        if instance_id is None and role.static:
            taken = {member.spec.instance_id for member in self._members}
            names = (f"{self._group.name}-{n}" for n in itertools.count())
            instance_id = next(name for name in names if name not in taken)
        prefix = "stock:" if role.client.endswith("-stock") else ""
        spec = MemberSpec(
            # It is the same for all members of a kind: only the broker's random part tells their ids apart.
            name=f"{role.client}-{self._group.name}",
            bootstrap=self._stage.kafka.bootstrap,
            group=self._group.name,
            topics=self._topics(role),
            assignors=[f"{prefix}{strategy}" for strategy in self._strategies(role)],
            rack=rack,
            instance_id=instance_id,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_MAX_POLL_MS,
            max_poll_interval_ms=_MAX_POLL_MS,
            heartbeat_interval_ms=1500,
            metadata_max_age_ms=1500,  # after which a leader notices added partitions
            metadata_first=True,  # the history has the assignments of our assignors from the first one on
        )
        log = self._stage.logs / f"{self._group.name}-{number}-{role.client}.log"
        process = start_member(self._stage.processes, role.client, spec, log)
        member = _Member(role, spec, process, log)
        self._members.append(member)
        self._stage.note(self._group.name, "start", member.name)

    async def _stop(self, member: _Member) -> None:
        """Let a member leave properly, and wait until its process ends."""
        self._forget(member, "stop")
        member.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _LEAVE_TIMEOUT_S
        while member.process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        self._stage.processes.stop(member.process, signal.SIGKILL)

    def _forget(self, member: _Member, what: str) -> None:
        self._members.remove(member)
        self._stage.note(self._group.name, what, member.name)

    def _replace_the_dead(self) -> None:
        for member in list(self._members):
            code = member.process.poll()
            if code is not None:
                self._forget(member, "died")
                self._stage.processes.stop(member.process)
                last_words = member.log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
                said = "\n  ".join(last_words)
                print(f"{self._group.name}: {member.name} ended with code {code}:\n  {said}", file=sys.stderr)
                self._start_again(member)


async def play(
    stage: Stage,
    groups: Iterable[Group],
    growths: Iterable[Growth],
    catalogue: CatalogueLog,
    seconds: float,
    seed: int,
) -> None:
    """Run the groups for `seconds`, and let the topics grow meanwhile.

    Raises:
        The exception of any group; the other groups end with it.
    """
    tasks = [asyncio.create_task(_Life(group, stage, seed).live()) for group in groups]
    tasks.append(asyncio.create_task(_grow(stage, growths, catalogue, seconds)))
    tasks.append(asyncio.create_task(_traffic(stage.kafka.bootstrap, seed)))
    try:
        done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _grow(stage: Stage, growths: Iterable[Growth], catalogue: CatalogueLog, seconds: float) -> None:
    start = time.monotonic()
    for growth in growths:
        await asyncio.sleep(start + growth.at * seconds - time.monotonic())
        copies = TOPICS[growth.topic][1]
        (now,) = await asyncio.to_thread(stage.kafka.describe_topics, [growth.topic])
        added = [replicas(p, copies) for p in range(now.partitions, growth.partitions)]
        stage.note(None, "grow", f"{growth.topic} to {growth.partitions}")
        await asyncio.to_thread(stage.kafka.add_partitions, growth.topic, growth.partitions, replicas=added)
        await asyncio.to_thread(catalogue.note, [growth.topic])


async def _traffic(bootstrap: str, seed: int) -> None:
    """Produce a few records, so that the members have something to commit."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "log_level": 3})
    chosen = random.Random(f"{seed}/traffic")
    names = sorted(TOPICS)
    for number in itertools.count():
        producer.produce(chosen.choice(names), key=str(number).encode(), value=b"recorded")
        producer.poll(0)
        await asyncio.sleep(0.05)


def start_member(processes: Processes, client: str, spec: MemberSpec, log: Path) -> Child:
    """Start the member program of a client (see `groups.Role`); without assignors, that of KIP-848."""
    if client == "java":
        command = java_command(JAVA_MEMBER, spec.to_json(), heap="64m", classes=compile_java())
        return processes.start(command, log, stdin=subprocess.PIPE)
    program = {
        "confluent": f"compat_tests.support.{'librdkafka' if spec.assignors else 'kip848'}_member",
        "aiokafka": "compat_tests.aiokafka.member",
        "kafka-python": "compat_tests.kafka_python.member",
    }[client.removesuffix("-stock").removesuffix("-ours")]
    return processes.start_preloaded(program, [spec.to_json()], log, cwd=_ROOT)
