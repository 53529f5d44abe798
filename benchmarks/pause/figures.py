"""Computes figures from journals. Pure functions: this module knows no clients, brokers or clocks.

An *occurrence* is one event in a group. It includes everything from its beginning to that of the next one.
Gaps are searched in its *window*, which has the same length for every event, since the longest gap grows with
the length of the window.
"""

from __future__ import annotations

import bisect
import collections
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.pause.journal import Kind, Row

__all__ = [
    "Delivery",
    "EventFigures",
    "Handover",
    "Occurrence",
    "Recording",
    "deliveries_by_partition",
    "figures",
    "handovers",
    "least_moves",
    "longest_gaps_ms",
    "lost_records",
    "percentile",
]

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event. Times are nanoseconds of CLOCK_MONOTONIC.

    Attributes:
        event: `none`, `join`, `leave`, `kill`, `refill`, `rolling` (one restart of it) or `slow`.
        left, joined: the members that left and joined.
        settled: whether live members consumed every partition again at the end.
    """

    event: str
    begin_ns: int
    end_ns: int
    window_begin_ns: int
    window_end_ns: int
    left: str | None = None
    joined: str | None = None
    settled: bool = True


@dataclass(frozen=True, slots=True)
class Recording:
    """The behaviour of one peer in one round.

    Attributes:
        rows: by member, its journal in order.
        cpu: mean CPU milliseconds per second of a member, by phase (`steady`, `rest`).
    """

    peer: str
    partitions: int
    occurrences: Sequence[Occurrence]
    rows: Mapping[str, Sequence[Row]]
    cpu: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delivery:
    at_ns: int
    offset: int
    member: str


@dataclass(frozen=True, slots=True)
class Handover:
    """A partition went from one member to another.

    Attributes:
        given_up_ns: when the old owner's listener was called, or else the old owner's last delivery.
        first_ns: the new owner's first delivery; None if the partition moved on before.
    """

    partition: int
    at_ns: int
    old: str
    new: str
    given_up_ns: int
    first_ns: int | None


@dataclass(frozen=True, slots=True)
class EventFigures:
    """The figures of one occurrence.

    Attributes:
        gaps_ms: for each partition that stayed with its member, the longest time between two deliveries.
        delays_ms: for each moved partition, from the old owner giving it up to the new owner's first record.
        least: the fewest moves that balance the group again.
        revoked: partitions that were revoked, according to the listeners.
        duplicates: deliveries of a record that had been delivered to a member before.
    """

    event: str
    gaps_ms: Sequence[float]
    delays_ms: Sequence[float]
    moved: int
    least: int
    revoked: int
    duplicates: int
    settled: bool


def deliveries_by_partition(rows: Mapping[str, Sequence[Row]]) -> dict[int, list[Delivery]]:
    """The deliveries of each partition to any member, ordered by time."""
    found: dict[int, list[Delivery]] = collections.defaultdict(list)
    for member, journal in rows.items():
        for row in journal:
            if row.kind == Kind.DELIVERED:
                found[row.partition].append(Delivery(row.at_ns, row.offset, member))
    for deliveries in found.values():
        deliveries.sort(key=lambda one: one.at_ns)
    return dict(found)


def handovers(
    rows: Mapping[str, Sequence[Row]], deliveries: Mapping[int, Sequence[Delivery]]
) -> list[Handover]:
    """Every change of a partition's owner, ordered by time. A return to the same owner is no change."""
    assigned: dict[int, list[tuple[int, str]]] = collections.defaultdict(list)
    revoked: dict[tuple[int, str], list[int]] = collections.defaultdict(list)
    for member, journal in rows.items():
        for row in journal:
            if row.kind == Kind.ASSIGNED:
                assigned[row.partition].append((row.at_ns, member))
            elif row.kind == Kind.REVOKED:
                revoked[row.partition, member].append(row.at_ns)
    found = []
    for partition, times in assigned.items():
        owners = [
            first
            for _, run in itertools.groupby(sorted(times), key=lambda one: one[1])
            for first in itertools.islice(run, 1)
        ]
        for (since_ns, old), (at_ns, new), following in zip(
            owners, owners[1:], [*owners[2:], None], strict=False
        ):
            until_ns = math.inf if following is None else following[0]
            there = [one for one in deliveries.get(partition, ()) if since_ns <= one.at_ns < until_ns]
            last = max((one.at_ns for one in there if one.member == old), default=since_ns)
            told = [told_ns for told_ns in revoked[partition, old] if since_ns <= told_ns <= at_ns]
            # An eager revocation may be followed by more deliveries to the same member, which then dies.
            given_up_ns = max(told[-1], last) if told else last
            first_ns = next((one.at_ns for one in there if one.member == new and one.at_ns >= at_ns), None)
            found.append(Handover(partition, at_ns, old, new, given_up_ns, first_ns))
    return sorted(found, key=lambda one: one.at_ns)


def longest_gaps_ms(
    deliveries: Mapping[int, Sequence[Delivery]],
    partitions: Iterable[int],
    begin_ns: int,
    end_ns: int,
    next_ns: int,
) -> list[float]:
    """The longest time between two deliveries of each partition, in milliseconds.

    A gap that overlaps the window counts in full, but only up to `next_ns`, the beginning of the next event.
    """
    found = []
    for partition in partitions:
        times = [one.at_ns for one in deliveries.get(partition, ())]
        first = max(0, bisect.bisect_right(times, begin_ns) - 1)
        last = bisect.bisect_left(times, end_ns)
        within = [*times[first:last], min(next_ns, times[last] if last < len(times) else next_ns)]
        gaps = [later - earlier for earlier, later in itertools.pairwise(within)]
        found.append(max(gaps, default=next_ns - begin_ns) / _NS_PER_MS)
    return found


def duplicate_times(deliveries: Mapping[int, Sequence[Delivery]]) -> list[int]:
    """The times of repeated deliveries, in order."""
    found = []
    for one_partition in deliveries.values():
        seen = set()
        for one in one_partition:
            if one.offset in seen:
                found.append(one.at_ns)
            seen.add(one.offset)
    return sorted(found)


def lost_records(deliveries: Mapping[int, Sequence[Delivery]]) -> int:
    """Records that no member got, though a later record of the partition was delivered."""
    return sum(
        max(one.offset for one in of_one) + 1 - len({one.offset for one in of_one})
        for of_one in deliveries.values()
        if of_one
    )


def least_moves(owned: Mapping[str, int], left: str | None, joined: str | None) -> int:
    """The fewest moves that balance a group whose members read the same topic.

    The partitions of a member that left go to other members. A member that joins gets its share: the
    partitions of the member that left, or else the smallest share of a balanced group.
    """
    if left is not None:
        return owned.get(left, 0)
    if joined is not None:
        return sum(owned.values()) // (len(owned) + 1)
    return 0


def figures(recording: Recording) -> list[EventFigures]:
    """The figures of each occurrence of a recording, in order."""
    deliveries = deliveries_by_partition(recording.rows)
    moves = handovers(recording.rows, deliveries)
    duplicates = duplicate_times(deliveries)
    revoked = sorted(
        row.at_ns for journal in recording.rows.values() for row in journal if row.kind == Kind.REVOKED
    )
    found = []
    for occurrence in recording.occurrences:
        own_moves = [one for one in moves if occurrence.begin_ns <= one.at_ns < occurrence.end_ns]
        stayed = sorted(set(range(recording.partitions)) - {one.partition for one in own_moves})
        window = (occurrence.window_begin_ns, occurrence.window_end_ns, occurrence.end_ns)
        owned = owners_at(recording.rows, occurrence.begin_ns)
        found.append(
            EventFigures(
                event=occurrence.event,
                gaps_ms=longest_gaps_ms(deliveries, stayed, *window),
                delays_ms=[
                    (one.first_ns - one.given_up_ns) / _NS_PER_MS
                    for one in own_moves
                    if one.first_ns is not None
                ],
                moved=len(own_moves),
                least=least_moves(owned, occurrence.left, occurrence.joined),
                revoked=_between(revoked, occurrence.begin_ns, occurrence.end_ns),
                duplicates=_between(duplicates, occurrence.begin_ns, occurrence.end_ns),
                settled=occurrence.settled,
            )
        )
    return found


def owners_at(rows: Mapping[str, Sequence[Row]], at_ns: int) -> collections.Counter[str]:
    """The number of partitions of each member, according to the last assignment of each partition."""
    last: dict[int, tuple[int, str]] = {}
    for member, journal in rows.items():
        for row in journal:
            if row.kind == Kind.ASSIGNED and row.at_ns < at_ns:
                last[row.partition] = max(last.get(row.partition, (0, "")), (row.at_ns, member))
    return collections.Counter(member for _, member in last.values())


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that is not less than this share of the values; NaN if there are none."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _between(times: Sequence[int], begin_ns: int, end_ns: int) -> int:
    return bisect.bisect_left(times, end_ns) - bisect.bisect_left(times, begin_ns)
