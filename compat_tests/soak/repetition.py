"""Repeated actions of a consumer must not add objects: counts after rounds of repetitions, without times."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from compat_tests.soak.counts import MEASURES, Counts, count

__all__ = ["ROUNDS", "Sample", "added_by_each_round", "sample"]

ROUNDS = 5
"""The first round fills caches and pools; growth counts only if each of the other rounds adds it."""

Sample = tuple[Counts, dict[str, int]]
sample: Callable[[], Sample] = count


def added_by_each_round(samples: Sequence[Sample], repetitions: int) -> dict[str, int]:
    """The measures and types to which every round adds at least three objects for four repetitions."""
    names = {name for _, types in samples for name in types}

    def least(numbers: Sequence[int]) -> int:
        return min(after - before for before, after in itertools.pairwise(numbers))

    added = {name: least([types.get(name, 0) for _, types in samples]) for name in names}
    added |= {name: least([getattr(counts, name) for counts, _ in samples]) for name in MEASURES}
    return {name: number for name, number in sorted(added.items()) if number >= 0.75 * repetitions}
