"""The bin packing heuristics of arXiv 2206.11170 as functions from owners to owners.

Bins are consumers, items are partitions, sizes are the measured speeds, and the size of a bin is C. A bin
without a partition takes any one.

**Any Fit**: each partition goes to an open consumer with room for it: the last one opened (next fit), the one
with the least number (first fit), the fullest (best fit), the emptiest (worst fit). If none has room, a
consumer is opened: the partition's present owner if it is not open yet, else the free one with the least
number. The present owner costs no further consumer and saves moves; the papers prefer it in all heuristics.
Partitions come in random order, or, in the *decreasing* form, the fastest first.

**Modified Any Fit**: consumers are taken in turn, either by the greatest total speed (MWF, MBF) or by the
fastest partition (MWFP, MBFP). The partitions of each consumer are offered to the open consumers, the slowest
first, until one fits nowhere. Then the consumer itself is opened and takes its remaining partitions, the
fastest first, until one does not fit. At the end the remaining partitions are placed by worst fit (MWF, MWFP)
or best fit (MBF, MBFP), the fastest first.

The papers do not define ties. Assumed here: among equal speeds the partition with the lower number comes
first, among equal consumers the one with the lower number.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from benchmarks.autoscaling.traces import CAPACITY

__all__ = ["HEURISTICS", "UNASSIGNED", "Heuristic", "Owners"]

UNASSIGNED = -1
"""The owner of a partition that no consumer has."""

Owners: TypeAlias = Sequence[int]
"""The consumer of each partition."""

Heuristic: TypeAlias = Callable[[Sequence[int], Owners, random.Random], list[int]]
"""(speeds, owners, source of random orders) -> the next owners."""


class Bins:
    """The open consumers of the next assignment, and their partitions."""

    def __init__(self, speeds: Sequence[int], before: Owners) -> None:
        self._speeds = speeds
        self._before = before
        self.owners = [UNASSIGNED] * len(speeds)
        self.loads: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self.last_opened = UNASSIGNED

    def fits(self, partition: int, consumer: int) -> bool:
        return not self._counts[consumer] or self.loads[consumer] + self._speeds[partition] <= CAPACITY

    def open(self, consumer: int) -> None:
        self.loads[consumer] = self._counts[consumer] = 0
        self.last_opened = consumer

    def open_for(self, partition: int) -> int:
        """Open the partition's present owner, or else the consumer with the least number."""
        consumer = self._before[partition]
        if consumer == UNASSIGNED or consumer in self.loads:
            consumer = next(number for number in range(len(self.loads) + 1) if number not in self.loads)
        self.open(consumer)
        return consumer

    def give(self, partition: int, consumer: int) -> None:
        self.owners[partition] = consumer
        self.loads[consumer] += self._speeds[partition]
        self._counts[consumer] += 1

    def with_room(self, partition: int) -> list[tuple[int, int]]:
        """Load and number of the consumers that have room for a partition."""
        room = CAPACITY - self._speeds[partition]
        if room < 0:
            return [(0, number) for number, count in self._counts.items() if not count]
        return [(load, number) for number, load in self.loads.items() if load <= room]


Fit: TypeAlias = Callable[[Bins, int], int]
"""The open consumer for a partition, or `UNASSIGNED` if none has room."""


def next_fit(bins: Bins, partition: int) -> int:
    last = bins.last_opened
    return last if last != UNASSIGNED and bins.fits(partition, last) else UNASSIGNED


def first_fit(bins: Bins, partition: int) -> int:
    return min([number for _, number in bins.with_room(partition)], default=UNASSIGNED)


def best_fit(bins: Bins, partition: int) -> int:
    room = bins.with_room(partition)
    fullest = max(room)[0] if room else 0
    return min([number for load, number in room if load == fullest], default=UNASSIGNED)


def worst_fit(bins: Bins, partition: int) -> int:
    room = bins.with_room(partition)
    return min(room)[1] if room else UNASSIGNED


def any_fit(fit: Fit, *, decreasing: bool) -> Heuristic:
    def assign(speeds: Sequence[int], owners: Owners, rng: random.Random) -> list[int]:
        order = list(range(len(speeds)))
        if decreasing:
            order = _fastest_first(speeds, order)
        else:
            rng.shuffle(order)
        bins = Bins(speeds, owners)
        if fit is next_fit:
            bins.open(0)
        _place(bins, order, fit)
        return bins.owners

    return assign


def modified(fit: Fit, *, by_fastest_partition: bool) -> Heuristic:
    def assign(speeds: Sequence[int], owners: Owners, rng: random.Random) -> list[int]:
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            held.setdefault(owner, []).append(partition)
        left_over = held.pop(UNASSIGNED, [])

        def rank(consumer: int) -> tuple[int, int]:
            of_consumer = [speeds[partition] for partition in held[consumer]]
            return -(max(of_consumer) if by_fastest_partition else sum(of_consumer)), consumer

        bins = Bins(speeds, owners)
        for consumer in sorted(held, key=rank):
            left = _fastest_first(speeds, held[consumer])
            while left and (open_consumer := fit(bins, left[-1])) != UNASSIGNED:
                bins.give(left.pop(), open_consumer)
            if left:
                bins.open(consumer)
            while left and bins.fits(left[0], consumer):
                bins.give(left.pop(0), consumer)
            left_over += left
        _place(bins, _fastest_first(speeds, left_over), fit)
        return bins.owners

    return assign


def _place(bins: Bins, order: Iterable[int], fit: Fit) -> None:
    for partition in order:
        consumer = fit(bins, partition)
        bins.give(partition, bins.open_for(partition) if consumer == UNASSIGNED else consumer)


def _fastest_first(speeds: Sequence[int], partitions: Iterable[int]) -> list[int]:
    return sorted(partitions, key=lambda partition: (-speeds[partition], partition))


HEURISTICS: Mapping[str, Heuristic] = {
    "NF": any_fit(next_fit, decreasing=False),
    "NFD": any_fit(next_fit, decreasing=True),
    "FF": any_fit(first_fit, decreasing=False),
    "FFD": any_fit(first_fit, decreasing=True),
    "BF": any_fit(best_fit, decreasing=False),
    "BFD": any_fit(best_fit, decreasing=True),
    "WF": any_fit(worst_fit, decreasing=False),
    "WFD": any_fit(worst_fit, decreasing=True),
    "MWF": modified(worst_fit, by_fastest_partition=False),
    "MBF": modified(best_fit, by_fastest_partition=False),
    "MWFP": modified(worst_fit, by_fastest_partition=True),
    "MBFP": modified(best_fit, by_fastest_partition=True),
}
