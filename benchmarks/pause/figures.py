"""From journals to figures. Pure functions: nothing here knows clients, brokers or clocks.

An *occurrence* is one event that happened to a group. What counts as its own lies between its beginning and
that of the next one. Gaps are looked for in its *window*, which has the same length for every event, since
the longest gap grows with the time one looks at.
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
    "most_late_ms",
    "percentile",
]

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event. Times are nanoseconds of CLOCK_MONOTONIC.

    Attributes:
        event: `none`, `join`, `leave`, `kill`, `refill`, `rolling` (one restart of it) or `slow`.
        left, joined: the members that went and came.
        settled: whether every partition was delivered by a live member again when it ended.
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
    """What one peer did in one round.

    Attributes:
        rows: of each member's journal, in its order.
        generations: when the group's coordinator stored which generation, or epoch of KIP-848.
        cpu: of one member in the mean, CPU milliseconds per second, by what it was doing (`steady`, `rest`).
    """

    peer: str
    partitions: int
    occurrences: Sequence[Occurrence]
    rows: Mapping[str, Sequence[Row]]
    generations: Sequence[tuple[int, int]] = ()
    cpu: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delivery:
    at_ns: int
    produced_ns: int
    offset: int
    member: str


@dataclass(frozen=True, slots=True)
class Handover:
    """A partition went from one member to another.

    Attributes:
        given_up_ns: when the listener of the old one was told, or else its last delivery.
        first_ns: the first delivery at the new one; None if there was none before it moved on.
    """

    partition: int
    at_ns: int
    old: str
    new: str
    given_up_ns: int
    first_ns: int | None


@dataclass(frozen=True, slots=True)
class EventFigures:
    """One occurrence in figures.

    Attributes:
        gaps_ms: of each partition that stayed with its member, the longest time between two deliveries.
        late_ms: of the same, the longest time from making a record to its delivery.
        delays_ms: of each partition that moved, from being given up to the first record at its new owner.
        least: the fewest moves with which the group could be balanced again.
        revoked: partitions that listeners were told to give up.
        generations: how many there were; None if the coordinator's records were not read.
        duplicates: deliveries of a record that some member had been given before.
    """

    event: str
    gaps_ms: Sequence[float]
    late_ms: Sequence[float]
    delays_ms: Sequence[float]
    moved: int
    least: int
    revoked: int
    generations: int | None
    duplicates: int
    settled: bool


def deliveries_by_partition(rows: Mapping[str, Sequence[Row]]) -> dict[int, list[Delivery]]:
    """Of each partition, what was delivered to any member, in the order of time."""
    found: dict[int, list[Delivery]] = collections.defaultdict(list)
    for member, journal in rows.items():
        for row in journal:
            if row.kind == Kind.DELIVERED:
                found[row.partition].append(Delivery(row.at_ns, row.produced_ns, row.offset, member))
    for deliveries in found.values():
        deliveries.sort(key=lambda one: one.at_ns)
    return dict(found)


def handovers(
    rows: Mapping[str, Sequence[Row]], deliveries: Mapping[int, Sequence[Delivery]]
) -> list[Handover]:
    """Every change of a partition's owner, in the order of time. Being given back to the same one is none."""
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
            # An eager member may be revoked what it has, and be dead before the next round.
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
    """Of each partition, the longest time between two deliveries, in milliseconds.

    A gap counts if part of it lies in the window, and then all of it does, but for what comes after
    `next_ns`, when something else happens.
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


def most_late_ms(
    deliveries: Mapping[int, Sequence[Delivery]],
    partitions: Iterable[int],
    begin_ns: int,
    end_ns: int,
    next_ns: int,
) -> list[float]:
    """Of each partition, how long the record took that took longest, of those made in the window.

    As for gaps, what comes after `next_ns` does not count.
    """
    found = []
    for partition in partitions:
        # Deliveries are in the order of time: of a record that came twice, the first counts.
        first_ns = {
            one.produced_ns: one.at_ns
            for one in reversed(deliveries.get(partition, ()))
            if begin_ns <= one.produced_ns < end_ns
        }
        late_ns = (min(at_ns, next_ns) - produced_ns for produced_ns, at_ns in first_ns.items())
        found.append(max(late_ns, default=0) / _NS_PER_MS)
    return found


def duplicate_times(deliveries: Mapping[int, Sequence[Delivery]]) -> list[int]:
    """When a record was delivered that had been delivered before, in the order of time."""
    found = []
    for one_partition in deliveries.values():
        seen = set()
        for one in one_partition:
            if one.offset in seen:
                found.append(one.at_ns)
            seen.add(one.offset)
    return sorted(found)


def lost_records(deliveries: Mapping[int, Sequence[Delivery]]) -> int:
    """Records that no member got, though a later one of the partition was."""
    return sum(
        max(one.offset for one in of_one) + 1 - len({one.offset for one in of_one})
        for of_one in deliveries.values()
        if of_one
    )


def least_moves(owned: Mapping[str, int], left: str | None, joined: str | None) -> int:
    """The fewest moves that balance a group whose members read the same topic.

    What the member had that left goes to other members. One that joins gets its share: the partitions of the
    one that left, or else as many as every member has at the least.
    """
    if left is not None:
        return owned.get(left, 0)
    if joined is not None:
        return sum(owned.values()) // (len(owned) + 1)
    return 0


def figures(recording: Recording) -> list[EventFigures]:
    """Each occurrence of a recording, in its order."""
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
                late_ms=most_late_ms(deliveries, stayed, *window),
                delays_ms=[
                    (one.first_ns - one.given_up_ns) / _NS_PER_MS
                    for one in own_moves
                    if one.first_ns is not None
                ],
                moved=len(own_moves),
                least=least_moves(owned, occurrence.left, occurrence.joined),
                revoked=_between(revoked, occurrence.begin_ns, occurrence.end_ns),
                generations=_generations(recording.generations, occurrence),
                duplicates=_between(duplicates, occurrence.begin_ns, occurrence.end_ns),
                settled=occurrence.settled,
            )
        )
    return found


def owners_at(rows: Mapping[str, Sequence[Row]], at_ns: int) -> collections.Counter[str]:
    """How many partitions each member had: of each, the one that was assigned it last."""
    last: dict[int, tuple[int, str]] = {}
    for member, journal in rows.items():
        for row in journal:
            if row.kind == Kind.ASSIGNED and row.at_ns < at_ns:
                last[row.partition] = max(last.get(row.partition, (0, "")), (row.at_ns, member))
    return collections.Counter(member for _, member in last.values())


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the values do not exceed; NaN if there are none."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _between(times: Sequence[int], begin_ns: int, end_ns: int) -> int:
    return bisect.bisect_left(times, end_ns) - bisect.bisect_left(times, begin_ns)


def _generations(stored: Sequence[tuple[int, int]], occurrence: Occurrence) -> int | None:
    """By how much the number grew: what is stored may leave some out."""
    before = [number for at_ns, number in stored if at_ns < occurrence.begin_ns]
    until = [number for at_ns, number in stored if at_ns < occurrence.end_ns]
    return max(until) - max(before) if before else None
