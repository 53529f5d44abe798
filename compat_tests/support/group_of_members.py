"""A consumer group of several processes, as a test sees it.

    with GroupOfMembers(kafka, "compat_tests.aiokafka.member", {"orders": 6}) as group:
        group.start("a", ["sticky"])
        group.start("b", ["sticky"])
        settled = group.settle()

Each member is a process that runs a member program (see `member_reports`). `settle` waits until all expected
members report the same generation and every partition is assigned exactly once. A test compares that
assignment with the one that the core computes.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compat_tests.support.hang_limit import wait_for
from compat_tests.support.jvm import compile_java, java_command
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.member_reports import MemberSpec
from compat_tests.support.processes import Child, Processes
from kafka_assignors.group import Assignment, Group, Member, Topic, pairs
from kafka_assignors.leader import lead
from kafka_assignors.strategy import RebalanceProtocol, Strategy
from tests.exact_score import plain

JAVA_MEMBER = "ReportingMember"
"""The member program in `compat_tests/java/src`: a Java consumer."""

BEFORE_WARM_HANDOFF = "before warm handoff: "
"""Before the name of a member program: it runs with the packages as they were then.

`before_warm_handoff.zip` has them: an earlier state of the source, as there is no release on PyPI to install.
"""

_EARLIER_PACKAGES = Path(__file__).with_name("before_warm_handoff.zip")
_ROOT = Path(__file__).resolve().parents[2]
_CONSUMED = '{"event": "consumed"'


@dataclasses.dataclass(frozen=True, slots=True)
class Settled:
    """A generation in which every partition has an owner."""

    generation: int
    assignment: Assignment
    names: Mapping[str, str]
    """The member id of each process, by the name that the test gave it."""

    def of(self, name: str) -> Mapping[str, Sequence[int]]:
        return self.assignment.members[self.names[name]]

    def count(self, name: str) -> int:
        return self.assignment.load(self.names[name])


class MemberProcess:
    """A member process and its reports so far."""

    def __init__(self, spec: MemberSpec, process: Child, log: Path) -> None:
        self.spec = spec
        self.process = process
        self._log = log
        self._read_bytes = 0
        self._reports: list[dict[str, Any]] = []

    def reports(self, event: str | None = None) -> list[dict[str, Any]]:
        """All reports, or those of one kind, oldest first."""
        with open(self._log, "rb") as log:
            log.seek(self._read_bytes)
            for line in log:
                if not line.endswith(b"\n"):
                    break
                self._read_bytes += len(line)
                if line.startswith(b'{"event"'):
                    self._reports.append(json.loads(line))
        return [one for one in self._reports if event in (None, one["event"])]

    def text(self) -> str:
        """The whole output of the process."""
        return self._log.read_text(errors="replace")

    def last_lines(self) -> str:
        """The last lines of the output; of consecutive records consumed, only the last one."""
        lines: list[str] = []
        for line in self.text().splitlines():
            if lines and line.startswith(_CONSUMED) and lines[-1].startswith(_CONSUMED):
                lines.pop()
            lines.append(line)
        return "\n".join(lines[-60:])

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    @property
    def consuming(self) -> bool:
        """Whether the process runs, and has not reported that it ends: closing a client takes a while."""
        return self.running and not self.reports("failed") and not self.reports("stopped")


class GroupOfMembers:
    """A group, its topics, and its member processes. Leaving the block kills the processes."""

    def __init__(
        self, kafka: Kafka, program: str, topics: Mapping[str, int], *, replication_factor: int = 1
    ) -> None:
        self.kafka = kafka
        self._replication_factor = replication_factor
        self._program = program
        # Topic and group names are unique, because many tests share a broker, which may outlive them all.
        self.run = uuid.uuid4().hex[:8]
        self.id = f"group-{self.run}"
        self.topics = {f"{name}-{self.run}": partitions for name, partitions in topics.items()}
        self._processes = Processes()
        self._numbers = itertools.count()
        self.members: dict[str, MemberProcess] = {}
        """All members, including those that have ended, by name."""

    def __enter__(self) -> GroupOfMembers:
        self._processes.__enter__()
        self._folder = Path(tempfile.mkdtemp(prefix="members-"))
        self._processes.own_folder(self._folder)
        for topic, partitions in self.topics.items():
            self.kafka.create_topic(topic, partitions, replication_factor=self._replication_factor)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is not None:
            for name, member in self.members.items():
                print(f"---- {name}\n{member.last_lines()}", file=sys.stderr)
        self._processes.__exit__(kind, error, trace)

    def topic(self, name: str) -> str:
        """The full name of a topic."""
        return next(full for full in self.topics if full.startswith(f"{name}-"))

    def _partitions(self) -> set[tuple[str, int]]:
        return {(topic, number) for topic, count in self.topics.items() for number in range(count)}

    def create_topic(self, name: str, partitions: int) -> None:
        """Create another topic; members have to discover it themselves."""
        full = f"{name}-{self.run}"
        self.kafka.create_topic(full, partitions)
        self.topics[full] = partitions

    def delete_topic(self, name: str) -> None:
        full = self.topic(name)
        self.kafka.delete_topic(full)
        del self.topics[full]

    def add_partitions(self, name: str, total: int) -> None:
        """Grow a topic to `total` partitions."""
        self.kafka.add_partitions(self.topic(name), total)
        self.topics[self.topic(name)] = total

    # ---- members come and go

    def start(
        self,
        name: str,
        assignors: Sequence[str],
        *,
        program: str | None = None,
        topics: Sequence[str] | None = None,
        bootstrap: str | None = None,
        **options: Any,
    ) -> MemberProcess:
        """Start a member; `topics` are the names that the test gave them, all by default."""
        subscribed = list(self.topics) if topics is None else [self.topic(topic) for topic in topics]
        spec = MemberSpec(name, bootstrap or self.kafka.bootstrap, self.id, subscribed, assignors, **options)
        return self._run(spec, program)

    def start_again(self, name: str, *, program: str | None = None) -> MemberProcess:
        """Start a new process with the member's specification and its current subscription."""
        return self._run(self.members[name].spec, program)

    def _run(self, spec: MemberSpec, program: str | None) -> MemberProcess:
        log = self._folder / f"{next(self._numbers)}-{spec.name}.log"
        self.members[spec.name] = MemberProcess(spec, self._process(program or self._program, spec, log), log)
        return self.members[spec.name]

    def _process(self, program: str, spec: MemberSpec, log: Path) -> Child:
        """Start a member program."""
        if program == JAVA_MEMBER:
            command = java_command(program, spec.to_json(), heap="128m", classes=compile_java())
            return self._processes.start(command, log, stdin=subprocess.PIPE)
        if program.startswith(BEFORE_WARM_HANDOFF):
            path = os.pathsep.join([str(_EARLIER_PACKAGES), os.environ.get("PYTHONPATH", "")])
            command = [sys.executable, "-m", program.removeprefix(BEFORE_WARM_HANDOFF), spec.to_json()]
            return self._processes.start(
                command, log, cwd=_ROOT, stdin=subprocess.PIPE, environment={**os.environ, "PYTHONPATH": path}
            )
        return self._processes.start_preloaded(program, [spec.to_json()], log, cwd=_ROOT)

    def stop(self, *names: str) -> None:
        """Stop members with SIGTERM; they leave the group."""
        for name in names:
            self.members[name].process.send_signal(signal.SIGTERM)
        for name in names:
            self._processes.stop(self.members[name].process)

    def kill(self, name: str) -> None:
        self._processes.stop(self.members[name].process, signal.SIGKILL)

    def freeze(self, name: str) -> None:
        """Stop the process with SIGSTOP."""
        self.members[name].process.send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        self.members[name].process.send_signal(signal.SIGCONT)

    def tell(self, name: str, **order: Any) -> None:
        """Send an order to a member's application (see `member_reports.Orders`)."""
        stdin = self.members[name].process.stdin
        assert stdin is not None
        stdin.write(json.dumps(order).encode() + b"\n")
        stdin.flush()

    def subscribe(self, name: str, topics: Sequence[str]) -> None:
        """Change a member's subscription; `topics` are the names that the test gave them."""
        member = self.members[name]
        member.spec = dataclasses.replace(member.spec, topics=[self.topic(topic) for topic in topics])
        self.tell(name, topics=member.spec.topics)

    # ---- what the test waits for

    wait_for = staticmethod(wait_for)

    def owned_twice(self) -> list[str]:
        """Partitions that two members owned at the same time, by the times of their reports."""
        changes = sorted(
            (
                (report["at"], name, report)
                for name, member in self.members.items()
                for report in member.reports()
                if report["event"] in ("assigned", "revoked", "stopped")
            ),
            key=lambda change: change[:2],  # reports of one member with equal times keep their order
        )
        owners: dict[tuple[str, int], set[str]] = collections.defaultdict(set)
        found = []
        for at, name, report in changes:
            if report["event"] == "stopped":
                for others in owners.values():
                    others.discard(name)
                continue
            partitions = {*pairs(report["partitions"])}
            if report["event"] == "revoked":
                for partition in partitions:
                    owners[partition].discard(name)
                continue
            for partition in partitions:
                owners[partition].add(name)
                if len(owners[partition]) > 1:
                    found.append(f"{partition} at {at}: {sorted(owners[partition])}")
        return found

    def settle(self, *names: str, after: Settled | None = None) -> Settled:
        """Wait until these members, by default all that consume, share a generation with every partition.

        `after`: the generation must be later than this one.
        """
        waiting_for = names or tuple(name for name, member in self.members.items() if member.consuming)
        return wait_for(
            f"{', '.join(waiting_for)} to settle",
            lambda: self._settled(waiting_for, -1 if after is None else after.generation),
        )

    def _settled(self, names: Sequence[str], later_than: int) -> Settled | None:
        last: dict[str, dict[str, Any]] = {}
        for name in names:
            changes = [one for one in self.members[name].reports() if one["event"] in ("assigned", "revoked")]
            if not changes or changes[-1]["event"] != "assigned":
                return None
            last[name] = changes[-1]
        # Not every client reports its generation, so the generation of the other members has to suffice.
        generations = {one["generation"] for one in last.values() if one["generation"] >= 0}
        if len(generations) != 1 or min(generations) <= later_than:
            return None
        owners = collections.Counter(one for last_of in last.values() for one in pairs(last_of["partitions"]))
        if owners.keys() != self._partitions() or max(owners.values(), default=0) > 1:
            return None
        return Settled(
            generation=generations.pop(),
            assignment=Assignment({one["member_id"]: one["partitions"] for one in last.values()}),
            names={name: one["member_id"] for name, one in last.items()},
        )

    def wait_for_report(self, name: str, event: str, containing: str) -> dict[str, Any]:
        """The first report of this event that contains this text."""

        def find() -> list[dict[str, Any]]:
            return [one for one in self.members[name].reports(event) if containing in json.dumps(one)]

        return wait_for(f"{name} to report {event}: {containing}", find)[0]

    # ---- what the core says

    def expected(self, strategy: Strategy, settled: Settled, before: Settled | None = None) -> Assignment:
        """What `strategy` assigns to the settled members, given their partitions in `before`."""
        members = []
        for name, member_id in settled.names.items():
            spec = self.members[name].spec
            owned = {} if before is None else before.assignment.members.get(member_id, {})
            members.append(
                Member(
                    member_id,
                    frozenset(spec.topics),
                    instance_id=spec.instance_id,
                    rack=spec.rack,
                    owned=owned,
                    generation=before.generation if before is not None and owned else -1,
                    revoked=True,
                )
            )
        topics = [
            Topic(found.topic, found.partitions, tuple(map(frozenset, found.replica_racks)))
            for found in self.kafka.describe_topics(list(self.topics))
        ]
        assignment = lead(strategy, Group.of(topics, members), RebalanceProtocol.EAGER).assignment
        return Assignment(plain(assignment))

    # ---- records

    def produce(self, records_per_partition: int) -> None:
        """Write this many more records to every partition."""
        self.kafka.produce(dict.fromkeys(self._partitions(), records_per_partition))

    def consumed(self) -> collections.Counter[tuple[str, int, int]]:
        """How often each record, as (topic, partition, offset), was delivered to any member."""
        return collections.Counter(
            (report["topic"], report["partition"], offset)
            for member in self.members.values()
            for report in member.reports("consumed")
            for offset in report["offsets"]
        )

    def wait_until_consumed(self, records_per_partition: int) -> collections.Counter[tuple[str, int, int]]:
        """Wait until each of these records was delivered at least once."""
        everything = {
            (*partition, offset)
            for partition in self._partitions()
            for offset in range(records_per_partition)
        }
        wait_for("all records to be consumed", lambda: everything <= self.consumed().keys())
        return self.consumed()
