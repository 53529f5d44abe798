"""A group with members of several clients, and the effect of a rolling restart on it.

    with MixedGroup(kafka, "sticky", {"orders": 12}) as group:
        group.form([JAVA, STOCK_AIOKAFKA, JAVA])
        found = group.watch(lambda: group.roll([OUR_AIOKAFKA] * 3))
        assert all(change.moved == change.least for change in found.changes)

It is a `GroupOfMembers` that reads the generations from the broker's own records of the group, since not all
clients report them.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from compat_tests.interop.recorded_group import Change, RecordedGroup, changes
from compat_tests.support.group_of_members import JAVA_MEMBER, GroupOfMembers, Settled
from compat_tests.support.hang_limit import stand_by
from compat_tests.support.kafka_cluster import Kafka

_QUIET_S = 1.2
"""Four heartbeat intervals of the members: enough for every member to request another generation."""

_WRITE_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Kind:
    """A client, and whether it uses its own assignors or ours."""

    label: str
    program: str
    ours: bool = False
    prefix: str = ""

    def assignors(self, name: str) -> list[str]:
        return [f"{self.prefix}{name}"]


OUR_AIOKAFKA = Kind("ours on aiokafka", "compat_tests.aiokafka.member", ours=True)
OUR_KAFKA_PYTHON = Kind("ours on kafka-python", "compat_tests.kafka_python.member", ours=True)
STOCK_AIOKAFKA = Kind("aiokafka", "compat_tests.aiokafka.member", prefix="stock:")
STOCK_KAFKA_PYTHON = Kind("kafka-python", "compat_tests.kafka_python.member", prefix="stock:")
JAVA = Kind("Java", JAVA_MEMBER)
LIBRDKAFKA = Kind("librdkafka", "compat_tests.support.librdkafka_member")


@dataclass(frozen=True, slots=True)
class Observed:
    """The effect of joining and leaving members on a group, in which every record was delivered."""

    changes: Sequence[Change]
    leaders: frozenset[str]
    """The kinds of members that led."""
    owned_twice: Sequence[str]


class MixedGroup(GroupOfMembers):
    """A group that votes for the strategy `name`."""

    def __init__(
        self, kafka: Kafka, name: str, topics: Mapping[str, int], *, replication_factor: int = 1
    ) -> None:
        super().__init__(kafka, program="", topics=topics, replication_factor=replication_factor)
        self._name = name
        self._recorded = RecordedGroup(kafka, self.id)
        self._kinds: dict[str, Kind] = {}
        self._produced = 0

    def __enter__(self) -> MixedGroup:
        super().__enter__()
        self._recorded.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._recorded.__exit__(*raised)
        super().__exit__(*raised)

    def join(self, kind: Kind, **options: Any) -> str:
        """Start a member; returns its name."""
        name = f"{kind.label.replace(' ', '-')}-{len(self._kinds) + 1}"
        self._kinds[name] = kind
        self.start(name, kind.assignors(self._name), program=kind.program, **options)
        return name

    def form(self, kinds: Sequence[Kind]) -> Settled:
        """Start a group in which the first of `kinds` leads."""
        self.join(kinds[0])
        self.settle()
        for kind in kinds[1:]:
            self.join(kind)
        return self.come_to_rest()

    def roll(self, kinds: Sequence[Kind]) -> None:
        """Replace the members one by one with these kinds, the oldest first.

        The group settles without the old member before the new one joins, so each replacement takes two
        rebalances.
        """
        running = [name for name, member in self.members.items() if member.running]
        for old, kind in zip(running, kinds, strict=True):
            self.stop(old)
            self.settle()
            self.join(kind)
            self.settle()

    def come_to_rest(self) -> Settled:
        """Wait until the group has settled and no member requests another generation."""
        settled = self.settle()
        while True:
            stand_by(_QUIET_S)
            again = self.settle()
            if again.generation == settled.generation:
                return again
            settled = again

    def watch(self, event: Callable[[], object]) -> Observed:
        """The effect of `event` on a group at rest, until it rests again. Records are written meanwhile."""
        before = self._recorded.generations()[-1]
        over = threading.Event()

        def write() -> None:
            while not over.wait(_WRITE_EVERY_S):
                self.produce(1)
                self._produced += 1

        with ThreadPoolExecutor(1) as writer:
            written = writer.submit(write)
            try:
                event()
                self.come_to_rest()
            finally:
                over.set()
            written.result()
        self.wait_until_consumed(self._produced)
        seen = [g for g in self._recorded.generations() if g.number >= before.number]
        leaders = frozenset(self._kinds[generation.leader].label for generation in seen[1:])
        return Observed(changes(seen, self.topics), leaders, self.owned_twice())

    def stop(self, *names: str) -> None:
        super().stop(*names)
        for name in names:
            # A killed member would leave only when its session expires, which this module does not measure.
            if self.members[name].process.returncode == -signal.SIGKILL:
                raise TimeoutError(f"{name} was asked to stop and did not")

    def _settled(self, names: Sequence[str], later_than: int) -> Settled | None:
        """The settled group: the broker's record, once every member reports the assignment in it."""
        generations = self._recorded.generations()
        if not generations or (newest := generations[-1]).number <= later_than:
            return None
        if newest.names.keys() != set(names) or not newest.gives_out(self.topics):
            return None
        for name, member_id in newest.names.items():
            told = [one for one in self.members[name].reports() if one["event"] in ("assigned", "revoked")]
            if not told or told[-1]["event"] != "assigned" or told[-1]["member_id"] != member_id:
                return None
            has = {topic: sorted(numbers) for topic, numbers in told[-1]["partitions"].items() if numbers}
            if has != newest.assignment.members[member_id]:
                return None
        return Settled(newest.number, newest.assignment, newest.names)
