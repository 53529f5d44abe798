"""Runs the groups of `groups.py` as processes, all at the same time, until the recording ends."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from compat_tests.support.group_of_members import JAVA_MEMBER
from compat_tests.support.jvm import java_command
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.member_reports import MemberSpec
from compat_tests.support.processes import Processes
from spark_validation.recording.catalogue import CatalogueLog
from spark_validation.recording.groups import TOPICS, Act, Group, Growth, Role, replicas
from spark_validation.recording.member import (
    HEARTBEAT_MS,
    MAX_POLL_MS,
    METADATA_AGE_MS,
    SESSION_MS,
    MemberConfig,
)

__all__ = ["Happening", "Stage", "play"]

_ROOT = Path(__file__).resolve().parent.parent.parent
_LEAVE_TIMEOUT_S = 15.0
_BEYOND_SESSION_S = SESSION_MS / 1000 + 2
_BEYOND_POLL_S = MAX_POLL_MS / 1000 + 4
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
    java_classes: Path
    logs: Path
    happenings: list[Happening] = field(default_factory=list)
    members: int = 0

    def note(self, group: str | None, what: str, detail: str = "") -> None:
        self.happenings.append(Happening(int(time.time() * 1000), group, what, detail))


@dataclass(slots=True, eq=False)
class _Member:
    role: Role
    instance_id: str | None
    rack: str | None
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def name(self) -> str:
        instance = f" {self.instance_id}" if self.instance_id else ""
        return f"{self.role.client} {self.process.pid}{instance}"

    def order(self, line: str) -> None:
        """Write one line to the member's standard input; the next act detects a dead member."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass

    def ask_to_leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()


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
        perform = self._performers()
        for act in itertools.cycle(self._group.acts):
            await self._pause(14, 26)
            self._replace_the_dead()
            self._stage.note(self._group.name, act.value)
            await perform[act]()

    def _performers(self) -> dict[Act, Callable[[], Coroutine[None, None, None]]]:
        return {
            Act.JOIN: self._join,
            Act.LEAVE: self._leave,
            Act.KILL: self._kill,
            Act.FREEZE: self._freeze,
            Act.STALL: self._stall,
            Act.ROLL: self._roll,
            Act.BOUNCE: self._bounce,
            Act.DRAIN: self._drain,
            Act.SWITCH: self._switch,
            Act.UPGRADE: self._upgrade,
        }

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
        self._start(member.role, member.instance_id, member.rack)

    async def _freeze(self) -> None:
        member = self._any()
        self._stage.note(self._group.name, "frozen", member.name)
        member.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(_BEYOND_SESSION_S)
        self._stage.note(self._group.name, "continued", member.name)
        member.process.send_signal(signal.SIGCONT)

    async def _stall(self) -> None:
        able = [member for member in self._members if member.role.client != "java"]
        if not able:
            return
        member = self._random.choice(able)
        self._stage.note(self._group.name, "stalled", member.name)
        member.order(f"stall {_BEYOND_POLL_S:g}")
        await asyncio.sleep(_BEYOND_POLL_S)

    async def _roll(self) -> None:
        for member in list(self._members):
            await self._stop(member)
            await self._pause(0.5, 2)
            self._start(member.role, member.instance_id, member.rack)
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
            self._start(member.role, member.instance_id, member.rack)

    async def _switch(self) -> None:
        self._switched = not self._switched
        for member in self._members:
            if member.role.other_topics:
                self._stage.note(self._group.name, "subscribed", member.name)
                member.order(f"subscribe {','.join(self._topics(member.role))}")
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

    def _start(self, role: Role, instance_id: str | None = None, rack: str | None = None) -> None:
        """Start a member; without the names of a replaced member, it gets the next free ones."""
        number = next(self._started)
        if rack is None and role.racks:
            rack = role.racks[number % len(role.racks)]
        if instance_id is None and role.static:
            taken = {member.instance_id for member in self._members}
            names = (f"{self._group.name}-{n}" for n in itertools.count())
            instance_id = next(name for name in names if name not in taken)
        config = MemberConfig(
            client=role.client,
            bootstrap=self._stage.kafka.bootstrap,
            group=self._group.name,
            # It is the same for all members of a kind: only the broker's random part tells their ids apart.
            client_id=f"{role.client}-{self._group.name}",
            topics=self._topics(role),
            strategies=self._strategies(role),
            instance_id=instance_id,
            rack=rack,
            protocol=role.protocol,
        )
        log = self._stage.logs / f"{self._group.name}-{number}-{role.client}.log"
        command = _java_member(config, self._stage.java_classes) if role.client == "java" else _member(config)
        process = self._stage.processes.start(command, log, cwd=_ROOT, stdin=subprocess.PIPE)
        member = _Member(role, instance_id, rack, process, log)
        self._members.append(member)
        self._stage.members += 1
        self._stage.note(self._group.name, "start", member.name)

    async def _stop(self, member: _Member) -> None:
        """Let a member leave properly, and wait until its process ends."""
        self._forget(member, "stop")
        member.ask_to_leave()
        deadline = time.monotonic() + _LEAVE_TIMEOUT_S
        while member.process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        self._stage.processes.stop(member.process, signal.SIGKILL)

    def _forget(self, member: _Member, what: str) -> None:
        self._members.remove(member)
        self._stage.members -= 1
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
                self._start(member.role, member.instance_id, member.rack)


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
    tasks.append(asyncio.create_task(_report_progress(stage, seconds)))
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
    await asyncio.Event().wait()


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


async def _report_progress(stage: Stage, seconds: float) -> None:
    start = time.monotonic()
    while True:
        acts = sum(happening.what in set(Act) for happening in stage.happenings)
        passed = f"{time.monotonic() - start:.0f} of {seconds:.0f} s"
        print(f"{passed}: {stage.members} members, {acts} acts", file=sys.stderr, flush=True)
        await asyncio.sleep(30)


def _member(config: MemberConfig) -> list[str]:
    return [sys.executable, "-m", "spark_validation.recording.member", config.to_json()]


def _java_member(config: MemberConfig, classes: Path) -> list[str]:
    spec = MemberSpec(
        config.client_id,
        config.bootstrap,
        config.group,
        config.topics,
        config.strategies if config.protocol == "classic" else (),
        rack=config.rack,
        instance_id=config.instance_id,
        session_timeout_ms=SESSION_MS,
        max_poll_interval_ms=MAX_POLL_MS,
        metadata_max_age_ms=METADATA_AGE_MS,
    )
    properties: dict[str, object] = {"group.protocol": config.protocol}
    if config.protocol == "classic":
        properties["heartbeat.interval.ms"] = HEARTBEAT_MS
    arguments = json.dumps(dataclasses.asdict(spec) | {"config": properties})
    return java_command(JAVA_MEMBER, arguments, heap="64m", classes=classes)
