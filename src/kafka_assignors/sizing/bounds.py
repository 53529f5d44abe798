"""How many members are needed at least.

All bounds of the family in `kafka_assignors.certificate.size` are tried: each threshold that makes a
difference, alone and with up to `_MOST_PARTS` parts. Threshold 0 without parts is the sum of all costs by the
limit. The bounds of all thresholds come from one sorted list and its sums, so all together cost about as much
as sorting the costs `_MOST_PARTS` times.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import gcd

from kafka_assignors.certificate.size import Bound

_MOST_PARTS = 16
"""Beyond, a part is smaller than the rounding gains."""


def least_members(costs: Sequence[int], limit: int) -> tuple[int, Bound]:
    """How many members are needed by the best bound, and that bound; no cost is above the limit."""
    divisor = gcd(*costs) or 1
    whole = limit // divisor
    ascending = sorted(cost // divisor for cost in costs if cost)
    best, bound = (1 if costs else 0), Bound(divisor)
    for parts in range(_MOST_PARTS + 1):
        if parts == 1:  # The function for one part is that of no part with a threshold of half the limit.
            continue
        found, threshold = _best_threshold(ascending, whole, parts)
        if found > best:
            best, bound = found, Bound(divisor, threshold, parts)
    return best, bound


def least_by_thresholds(ascending: Sequence[int], limit: int) -> int:
    """How many members are needed by the bounds without parts."""
    return _best_threshold(ascending, limit, 0)[0]


def _best_threshold(ascending: Sequence[int], whole: int, parts: int) -> tuple[int, int]:
    """How many members are needed, and by which threshold."""
    times = max(1, parts)
    values = [_value(share, whole, parts) for share in ascending] if parts else ascending
    sums = list(accumulate(values, initial=0))
    best = best_threshold = 0
    before = None
    for threshold in (0, *ascending):
        if 2 * threshold > whole:
            break
        if threshold == before:
            continue
        before = threshold
        first, last = bisect_left(ascending, threshold), bisect_right(ascending, whole - threshold)
        total = sums[last] - sums[first] + (len(ascending) - last) * times * whole
        found = -(-total // (times * whole))
        if found > best:
            best, best_threshold = found, threshold
    return best, best_threshold


def _value(share: int, whole: int, parts: int) -> int:
    counted = (parts + 1) * share
    return counted // whole * whole if counted % whole else parts * share
