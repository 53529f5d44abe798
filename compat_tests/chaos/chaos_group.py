"""A group on its brokers, which carries out the steps of a plan and keeps the ledger.

One thread writes records to every partition all the time. Each step of a round has its own thread, because
steps take time and overlap.
"""

from __future__ import annotations

import collections
import contextlib
import json
import math
import operator
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from compat_tests.chaos import plan
from compat_tests.chaos.ledger import Commit, Generation, Happening, Ledger, Outage, Partition, signed
from compat_tests.chaos.members.application import REQUEST_TIMEOUT_MS
from compat_tests.chaos.reading import deliveries_of, failures_of, generation_of, ownerships_of
from compat_tests.chaos.records import COPIES_PARTITIONS, WRITE_EVERY_S, Writer, read_copies
from compat_tests.interop.mixed_group import JAVA, Kind, MixedGroup
from compat_tests.support.fault_proxy import Effect, Fault
from compat_tests.support.group_of_members import MemberProcess
from compat_tests.support.group_records import group_partition
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.jvm import compile_java
from compat_tests.support.kafka_cluster import KafkaCluster
from compat_tests.support.processes import state_of

_MEMBERS = "compat_tests.chaos.members"

KINDS: Mapping[str, Kind] = {
    "aiokafka": Kind("ours on aiokafka", f"{_MEMBERS}.aiokafka_member", ours=True),
    "kafka-python": Kind("ours on kafka-python", f"{_MEMBERS}.kafka_python_member", ours=True),
    "java": JAVA,
    "librdkafka": Kind("librdkafka", f"{_MEMBERS}.librdkafka_member"),
}

COPYING_KINDS: Mapping[str, Kind] = {
    "aiokafka-copying": Kind("ours on aiokafka", f"{_MEMBERS}.aiokafka_copying_member", ours=True),
    "kafka-python-copying": Kind(
        "ours on kafka-python", f"{_MEMBERS}.kafka_python_copying_member", ours=True
    ),
}
"""Members that copy consumed records, and commit offsets, in transactions."""

_FREEZE_TIMEOUT_S = 2.0
_STOP_TIMEOUT_S = 45.0
_WARM_S = 1.0
"""How long some of our members warm a partition."""
_QUIET_S = 2.0
_ON_THE_WAY = 50
"""The records of a partition that may be undelivered while the writer runs, about five seconds' worth."""


class NotSettledError(AssertionError):
    """The group did not settle in time with every record delivered; the message tells what is missing."""


class ChaosGroup(MixedGroup):
    """A group of all kinds of members under `cooperative-sticky`."""

    kafka: KafkaCluster

    def __init__(self, kafka: KafkaCluster, *, copying: bool = False) -> None:
        """`copying`: the members are of `COPYING_KINDS`."""
        super().__init__(kafka, "cooperative-sticky", plan.PARTITIONS, replication_factor=3)
        self._copies_to = f"copies-{self.run}" if copying else None
        self._happenings: list[Happening] = []
        self._outages: list[Outage] = []
        self._brokers = threading.Lock()
        self._ended_at: dict[str, float] = {}
        self._past: list[tuple[str, MemberProcess, float]] = []
        self._asked_to_end: set[str] = set()
        # A transaction costs the brokers more than a commit.
        self._writer = Writer(kafka.bootstrap, self.topics, every_s=WRITE_EVERY_S * (3 if copying else 1))
        self._generations: list[Generation] = []
        self._commits: list[Commit] = []
        self._lagging: dict[Partition, int] = {}
        self.settle_times_s: list[float] = []

    def __enter__(self) -> ChaosGroup:
        compile_java()  # Compile before the first event, because it may take seconds.
        if self._copies_to is not None:
            self.kafka.create_topic(self._copies_to, COPIES_PARTITIONS, replication_factor=3)
        super().__enter__()
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.stop()
        # Passing the error would print the logs of all members; the ledger tells more.
        super().__exit__(None, None, None)

    # ---- steps

    def carry_out(self, steps: Sequence[plan.Step]) -> None:
        """Run one round of events, until the last one has ended."""
        begin = time.monotonic()
        with ThreadPoolExecutor(max(1, len(steps))) as pool:
            running = []
            for step in steps:
                time.sleep(max(0.0, begin + step.at_s - time.monotonic()))
                running.append(pool.submit(self._do, step.action))
            for one in running:
                one.result()

    def _do(self, action: plan.Action) -> None:
        name = getattr(action, "member", "")
        if name and not isinstance(action, plan.Join):
            # On a busy machine, a process may start later than planned.
            self.wait_for(f"the process of {name}", lambda: name in self.members)
        self._note(str(action), name)
        match action:
            case plan.Join(name, kind, topics, static):
                self._kinds[name] = {**KINDS, **COPYING_KINDS}[kind]
                self.start(
                    name,
                    ["cooperative-sticky"],
                    program=self._kinds[name].program,
                    **self._door_of(name),
                    topics=topics,
                    instance_id=name if static else None,
                    session_timeout_ms=int(plan.SESSION_TIMEOUT_S * 1000),
                    rebalance_timeout_ms=int(plan.REBALANCE_TIMEOUT_S * 1000),
                    max_poll_interval_ms=int(plan.MAX_POLL_INTERVAL_S * 1000),
                    # Beside the application's own commits. Those of a transaction stand alone.
                    auto_commit=kind in ("aiokafka", "kafka-python") and name[-1] in "13579",
                    warm_s=_WARM_S if name[-1] in "23670" else None,
                )
            case plan.Leave(name):
                self._leave(name)
            case plan.Kill(name):
                self._kill(name)
            case plan.Restart(name, seconds, killed):
                (self._kill if killed else self._leave)(name)
                time.sleep(seconds)
                self._note(f"{name} is started again", name)
                self._start_again(name)
            case plan.Freeze(name, seconds) | plan.Suspend(name, seconds):
                self._freeze(name, suspended=isinstance(action, plan.Suspend))
                time.sleep(seconds)
                self._note(f"{name} goes on", name)
                self._thaw(name)
            case plan.Stall(name, seconds):
                self._tell_for(seconds, name, "polls again", busy=(True, False))
            case plan.SlowListener(name, seconds, pause_s):
                self._tell_for(seconds, name, "has a quick listener again", pause_s=(pause_s, 0.0))
            case plan.HangListener(name, seconds):
                self._tell(name, hang_until=time.monotonic() + seconds)
                time.sleep(seconds)
            case plan.RaiseInListener(name, seconds):
                self._tell_for(seconds, name, "has a listener that raises no more", raising=(True, False))
            case plan.NetworkFault(name, seconds, fault):
                self._have_fault(name, fault, seconds)
            case plan.Subscribe(name, topics):
                with contextlib.suppress(BrokenPipeError, ValueError):
                    self.subscribe(name, topics)
            case plan.OfBrokers():
                with self._brokers:
                    self._do_to_brokers(action)

    def _do_to_brokers(self, action: plan.OfBrokers) -> None:
        match action:
            case plan.AddPartitions(topic, total):
                self.add_partitions(topic, total)
                self._writer.grow(self.topic(topic), total)
            case plan.RestartBroker(broker, seconds):
                self._replace_broker(broker, self.kafka.stop, seconds)
            case plan.KillCoordinator(seconds):
                broker = self._coordinator()
                self._note(f"broker {broker} is killed")
                self._replace_broker(broker, self.kafka.kill, seconds)

    def _door_of(self, name: str) -> dict[str, Any]:
        """How a member connects. Our members connect through the proxy."""
        if not self._kinds[name].ours:
            return {}
        door = {"bootstrap": self.kafka.proxy.bootstrap}
        if self._copies_to is None:
            return door
        return {**door, "copies_to": self._copies_to, "isolation_level": "read_committed"}

    def _have_fault(self, name: str, fault: Fault, seconds: float) -> None:
        # After a swallowed request, the client waits for the request timeout, even if the fault is over.
        after_s = REQUEST_TIMEOUT_MS / 1000 if fault.effect is Effect.SWALLOW else 0.0
        with self._outage(name, after_s), self.kafka.proxy.fault(fault):
            time.sleep(seconds)
        self._note(f"the network is as it was for {name or 'all members'}", name)

    @contextlib.contextmanager
    def _outage(self, name: str, after_s: float = 0.0) -> Iterator[None]:
        since = time.monotonic()
        yield
        self._outages.append(Outage(since, time.monotonic() + after_s, name))

    def _note(self, what: str, member: str = "") -> None:
        self._happenings.append(Happening(time.monotonic(), what, member))

    def _tell(self, name: str, **order: Any) -> None:
        # The member may have been killed meanwhile, and its standard input closed.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self.tell(name, **order)

    def _tell_for(self, seconds: float, name: str, then: str, **orders: tuple[Any, Any]) -> None:
        """Give an order for some seconds: its values at first, and at the end."""
        self._tell(name, **{order: first for order, (first, _) in orders.items()})
        time.sleep(seconds)
        self._note(f"{name} {then}", name)
        self._tell(name, **{order: last for order, (_, last) in orders.items()})

    def _leave(self, name: str) -> None:
        self._asked_to_end.add(name)
        process = self.members[name].process
        code = self._processes.stop(process, timeout_s=_STOP_TIMEOUT_S)
        self._ended_at[name] = time.monotonic()
        if code == -signal.SIGKILL:
            raise NotSettledError(f"{name} was asked to stop, and did not within {_STOP_TIMEOUT_S:g} s")
        self._note(f"{name} has left", name)

    def _kill(self, name: str) -> None:
        self._asked_to_end.add(name)
        self._ended_at[name] = time.monotonic()
        self.kill(name)

    def _start_again(self, name: str) -> None:
        self._past.append((name, self.members[name], self._ended_at.pop(name)))
        self.start_again(name, program=self._kinds[name].program)
        self._asked_to_end.remove(name)

    def _freeze(self, name: str, *, suspended: bool) -> None:
        pid = self.members[name].process.pid
        if self._kinds[name].ours:
            deadline = time.monotonic() + _FREEZE_TIMEOUT_S
            self._tell(name, freeze_before=deadline, suspended=suspended)
            # It may have been killed meanwhile.
            while state_of(pid) not in ("", "T", "Z") and time.monotonic() < deadline:
                time.sleep(0.01)
        # A process that does not react is stopped from outside.
        with contextlib.suppress(ProcessLookupError):
            self.freeze(name)

    def _thaw(self, name: str) -> None:
        # Repeated, because the process may stop itself just after it was stopped from outside.
        for _ in range(2):
            with contextlib.suppress(ProcessLookupError):
                self.thaw(name)
            time.sleep(0.5)

    def _coordinator(self) -> int:
        leaders = self.kafka.leaders("__consumer_offsets")
        return leaders[group_partition(self.id, len(leaders))]

    def _replace_broker(self, broker: int, end: Callable[[int], object], seconds: float) -> None:
        with self._outage(""):
            end(broker)
            time.sleep(seconds)
            self.kafka.start(broker)
        self._note(f"broker {broker} is back")

    # ---- rest

    def come_to_rest_in_time(self) -> None:
        """Wait until the group has settled and every written record is delivered."""
        begin = time.monotonic()
        try:
            self.wait_for("the group to settle", self._is_settled, HANG_S)
        except TimeoutError as error:
            raise NotSettledError(f"{error}: {self._what_is_amiss()}") from None
        took = time.monotonic() - begin
        self.settle_times_s.append(took)
        self._note(f"the group has settled, after {took:.1f} s")

    def _is_settled(self) -> bool:
        self._start_fenced_again()
        names = self._those_that_should_run()
        try:
            settled = self._settled(names, later_than=-1)
            self._read_log()
        except (RuntimeError, TimeoutError) as error:
            self._note(f"the log of the group cannot be read: {error}")
            return False
        if settled is None or not self._is_quiet():
            return False
        return self._is_all_delivered()

    def _start_fenced_again(self) -> None:
        """Start static members of other clients again that ended because they were fenced.

        If a connection breaks before the first JoinGroup of a static member is answered, its client sends the
        JoinGroup again, and the coordinator may handle the first one after the second one. It takes the two
        for two processes. The client reports a fatal error, and a supervisor starts the process again.
        """
        for name in self._those_that_should_run():
            member = self.members[name]
            if member.running or self._kinds[name].ours or "fenced" not in member.last_lines().lower():
                continue
            self._note(f"{name} was fenced, and is started again", name)
            self._asked_to_end.add(name)
            self._ended_at[name] = _last_report_at(member)
            self._start_again(name)

    def _those_that_should_run(self) -> list[str]:
        return [name for name in self.members if name not in self._asked_to_end]

    def _is_quiet(self) -> bool:
        newest = self._recorded.generations()[-1].number
        time.sleep(_QUIET_S)
        return self._recorded.generations()[-1].number == newest

    def _is_all_delivered(self) -> bool:
        written = self._writer.confirmed()
        ends: dict[Partition, int] = collections.defaultdict(int)
        for name, process, _ in self._lives():
            for one in deliveries_of(name, process.reports("consumed")[-400:]):
                ends[one.partition] = max(ends[one.partition], one.last + 1)
        on_the_way = 0 if self._writer.stopping.is_set() else _ON_THE_WAY
        self._lagging = {
            tp: count - ends[tp] for tp, count in written.items() if ends[tp] + on_the_way < count
        }
        return not self._lagging

    def _what_is_amiss(self) -> str:
        lines = []
        names = self._those_that_should_run()
        for name in names:
            member = self.members[name]
            told = member.reports()
            if not member.running:
                lines.append(f"{name} has ended by itself with exit code {member.process.returncode}")
            last = next((r for r in reversed(told) if r["event"] in ("assigned", "revoked", "lost")), None)
            lines.append(f"{name} said last: {json.dumps(last)}")
            if last is None:
                lines.append(f"its log ends with:\n{member.last_lines()}")
        self._read_log()
        lines.extend(map(str, self._generations[-2:]))
        lines.append(f"not delivered: {self._lagging}")
        return "\n  ".join(["", *lines])

    # ---- the ledger

    def crashed(self) -> dict[str, str]:
        """Members that ended without an order, with their last output."""
        return {
            name: self.members[name].last_lines()
            for name in self._those_that_should_run()
            if not self.members[name].running
        }

    def _read_log(self) -> None:
        """Read the brokers' new records of the group, and translate their time to the ledger's clock."""
        wall_to_monotonic = time.monotonic() - time.time()
        for generation in self._recorded.records()[len(self._generations) :]:
            self._generations.append(generation_of(generation, generation.at_ms / 1000 + wall_to_monotonic))
        for one in self._recorded.commits()[len(self._commits) :]:
            at = one.at_ms / 1000 + wall_to_monotonic
            partition = (one.topic, one.partition)
            self._commits.append(Commit(at, one.position, partition, one.offset, *signed(one.metadata)))

    def stop_writing(self) -> None:
        self._writer.stop()

    def keep_logs(self, folder: Path) -> None:
        """Copy the members' output, reports and client logs, to a new folder."""
        shutil.copytree(self._folder, folder)

    def ledger(self) -> Ledger:
        """Everything that has happened so far."""
        written, copies = self._writer.confirmed(), None
        if self._copies_to is not None:
            copies = read_copies(self.kafka.bootstrap, self._copies_to, written)
        self._read_log()
        for name, member in self.members.items():
            if not member.running and name not in self._ended_at:
                self._ended_at[name] = _last_report_at(member)
        lives = [(name, process.reports(), ended_at) for name, process, ended_at in self._lives()]
        return Ledger(
            deliveries=sorted((one for life in lives for one in deliveries_of(*life[:2])), key=_at),
            ownerships=sorted(
                (one for life in lives for one in ownerships_of(*life)), key=lambda one: one.since
            ),
            commits=list(self._commits),
            failures=sorted((one for life in lives for one in failures_of(*life[:2])), key=_at),
            generations=list(self._generations),
            happenings=sorted(self._happenings, key=_at),
            outages=list(self._outages),
            written=written,
            copies=copies,
            static=frozenset(
                name
                for name, member in self.members.items()
                if self._kinds[name].ours and member.spec.instance_id is not None
            ),
            without_lease=frozenset(name for name in self.members if not self._kinds[name].ours),
        )

    def _lives(self) -> Iterator[tuple[str, MemberProcess, float]]:
        """Each process of each member, and its end: infinity while it runs.

        A static member has another process after each restart.
        """
        yield from self._past
        for name, member in self.members.items():
            yield name, member, self._ended_at.get(name, math.inf)


_at = operator.attrgetter("at")


def _last_report_at(member: MemberProcess) -> float:
    reports = member.reports()
    return float(reports[-1]["at"]) if reports else time.monotonic()
