"""The history of a group on one clock: ownerships, deliveries and commits.

Times are seconds of CLOCK_MONOTONIC, which all processes of a machine share: `time.monotonic()` in Python,
`System.nanoTime()` in Java. Brokers record calendar time in milliseconds, which is translated.
`CLOCK_SLACK_S` is more than the two errors together.

The ledger has three independent sources: the members' reports (deliveries, ownerships, failed commits), the
brokers' log of the group (accepted commits, generations), and the driver (written records, actions).
"""

from __future__ import annotations

import bisect
import dataclasses
import enum
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

CLOCK_SLACK_S = 0.05

Partition: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A member's application received the records with the offsets `first` to `last` of a partition."""

    at: float
    member: str
    partition: Partition
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.member} is handed {name_of(self.partition)} [{self.first}..{self.last}]"


class Ending(enum.Enum):
    """How a member's ownership of a partition ended."""

    OPEN = "still owned"
    REVOKED = "revoked"
    LOST = "lost"
    DIED = "died with it"
    SILENT = "gone without a word"


@dataclass(frozen=True, slots=True)
class Ownership:
    """A member owns a partition from the listener call that announces it to the end of the call that ends it.

    The ownership also ends with the process. `told_at` is when the call that ends it as revoked began, of
    members that report that. `member_id` is the member's id at the announcement. It is empty
    if the application was busy for so long that the member was out of the group by then. `number` is that of
    the announcement, counted from 1 in each process.
    """

    since: float
    until: float
    member: str
    member_id: str
    partition: Partition
    ending: Ending
    told_at: float = math.inf
    number: int = 1

    def covers(self, at: float) -> bool:
        return self.since <= at <= self.until


@dataclass(frozen=True, slots=True)
class Commit:
    """An offset that the coordinator accepted. `position` is its place in the log, and orders the commits.

    Of an explicit commit of our members, `member` asked for it after its announcement `number`: see
    `signature`. Otherwise `member` is empty.
    """

    at: float
    position: int
    partition: Partition
    offset: int
    member: str = ""
    number: int = 0

    def __str__(self) -> str:
        by = f" by {self.member}" if self.member else ""
        return f"committed{by}: {name_of(self.partition)} @ {self.offset}"


def signature(member: str, number: int) -> str:
    """The metadata of an explicit commit, which name its member and the number of its last announcement."""
    return f"{member} {number}"


def signed(metadata: str) -> tuple[str, int]:
    """The member and the number in a `signature`; an empty name for metadata without one."""
    member, _, number = metadata.rpartition(" ")
    return (member, int(number)) if member else ("", 0)


@dataclass(frozen=True, slots=True)
class CommitFailure:
    """A member learned that a commit of these partitions failed."""

    at: float
    member: str
    partitions: frozenset[Partition]
    error: str

    def __str__(self) -> str:
        return f"{self.member} cannot commit {names_of(self.partitions)}: {self.error}"


@dataclass(frozen=True, slots=True)
class Generation:
    """A leader's assignment, by member id, as the coordinator recorded it."""

    at: float
    number: int
    leader: str
    names: Mapping[str, str]
    """The member of each member id."""
    assigned: Mapping[str, frozenset[Partition]]
    joined_from: Mapping[str, int] = field(default_factory=dict)
    """The generation that each member's newest JoinGroup names, by member id; -1 if it names none."""

    def leaves_out(self, member_id: str, number: int, *, names_it: bool = False) -> bool:
        """Whether the coordinator formed this generation without what the member got in generation `number`.

        It removes a dynamic member that does not join in time. A static one it keeps with the JoinGroup from
        before `number`, so the leader cannot see what it got. The coordinator takes no commit of either. A
        JoinGroup without a generation is an earlier one only of a static member that names it in all others.
        """
        joined_from = self.joined_from.get(member_id, number)
        return member_id not in self.assigned or ((names_it or joined_from > -1) and joined_from < number)

    def __str__(self) -> str:
        shares = "; ".join(f"{self.names[id]}: {names_of(given)}" for id, given in self.assigned.items())
        return f"generation {self.number}, led by {self.leader}: {shares}"


@dataclass(frozen=True, slots=True)
class Happening:
    """An action or an observation of the driver."""

    at: float
    what: str
    member: str = ""

    def __str__(self) -> str:
        return f"**** {self.what}"


@dataclass(frozen=True, slots=True)
class Outage:
    """The time without a broker, until it served again or another broker coordinated the group.

    Also the time in which a member could not reach brokers.
    """

    since: float
    until: float
    member: str = ""
    """The affected member; empty for all members."""


@dataclass(frozen=True)
class Ledger:
    """The history of a group. Sequences are in order of time, but commits in order of the log."""

    deliveries: Sequence[Delivery] = ()
    ownerships: Sequence[Ownership] = ()
    commits: Sequence[Commit] = ()
    failures: Sequence[CommitFailure] = ()
    generations: Sequence[Generation] = ()
    happenings: Sequence[Happening] = ()
    outages: Sequence[Outage] = ()
    written: Mapping[Partition, int] = field(default_factory=dict)
    """The number of records that brokers have confirmed, by partition; their offsets begin with 0."""
    copies: Mapping[Partition, Mapping[int, int]] | None = None
    """How often the copy of each offset was committed; None if members do not copy in transactions."""
    static: frozenset[str] = frozenset()
    """Our static members, whose JoinGroup names their generation, but for the first one of each process."""
    without_lease: frozenset[str] = frozenset()
    """Members of other clients, which deliver records until the coordinator tells them to stop."""

    def giving(self, ownership: Ownership) -> Generation | None:
        """The newest generation before the announcement that assigned this partition to this member."""
        until = ownership.since + CLOCK_SLACK_S
        newest = bisect.bisect_right(self.generations, until, key=lambda generation: generation.at)
        for generation in reversed(self.generations[:newest]):
            for member_id, partitions in generation.assigned.items():
                is_owner = member_id == ownership.member_id or (
                    not ownership.member_id and generation.names[member_id] == ownership.member
                )
                if is_owner and ownership.partition in partitions:
                    return generation
        return None

    def by_partition(self) -> Iterator[tuple[Partition, Ledger]]:
        """Each partition and its entries."""
        parts: dict[Partition, Ledger] = {}

        def part(partition: Partition) -> Ledger:
            if partition not in parts:
                parts[partition] = dataclasses.replace(
                    self,
                    deliveries=[],
                    ownerships=[],
                    commits=[],
                    failures=[],
                    written=_only(partition, self.written),
                    copies=None if self.copies is None else _only(partition, self.copies),
                )
            return parts[partition]

        for kind in ("deliveries", "ownerships", "commits"):
            for entry in getattr(self, kind):
                getattr(part(entry.partition), kind).append(entry)
        for failure in self.failures:
            for partition in failure.partitions:
                part(partition).failures.append(failure)  # type: ignore[attr-defined]
        for partition in self.written:
            part(partition)
        yield from sorted(parts.items())


_T = TypeVar("_T")


def _only(partition: Partition, of: Mapping[Partition, _T]) -> Mapping[Partition, _T]:
    return {partition: of[partition]} if partition in of else {}


def name_of(partition: Partition) -> str:
    return f"{partition[0].split('-')[0]}/{partition[1]}"


def names_of(partitions: Collection[Partition]) -> str:
    """Partitions by topic, abbreviated."""
    topics = sorted({topic for topic, _ in partitions})
    return (
        ", ".join(
            f"{topic.split('-')[0]}/{','.join(str(n) for t, n in sorted(partitions) if t == topic)}"
            for topic in topics
        )
        or "nothing"
    )


def around(ledger: Ledger, at: float, partition: Partition | None, seconds: float = 15.0) -> Iterator[str]:
    """The entries within some seconds of a time: those of the partition, and those of the whole group."""
    part = Ledger(generations=ledger.generations, happenings=ledger.happenings)
    if partition is not None:
        part = dict(ledger.by_partition()).get(partition, part)
    entries: list[tuple[float, str]] = [
        (one.at, str(one))
        for kind in (part.deliveries, part.commits, part.failures, part.generations, part.happenings)
        for one in kind
    ]
    for one in part.ownerships:
        entries.append((one.since, f"{one.member} owns {name_of(one.partition)} as {one.member_id}"))
        if one.until < math.inf:
            entries.append(
                (one.until, f"{one.member} owns {name_of(one.partition)} no more: {one.ending.value}")
            )
    near = sorted(entry for entry in entries if abs(entry[0] - at) <= seconds)
    yield from (f"{when - at:+9.3f} s  {what}" for when, what in near)
