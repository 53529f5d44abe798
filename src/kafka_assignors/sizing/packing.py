"""The fewest members that can carry all partitions: bin packing, with a search that decides small cases.

`pack` begins with a **lower bound**: the best of the family in `kafka_assignors.certificate.size`. Each
threshold that makes a difference is tried, alone and with up to `_MOST_PARTS` parts; threshold 0 without
parts is the sum of all costs by the limit. The bounds of all thresholds come from one sorted list and its
sums, so all together cost about as much as sorting the costs `_MOST_PARTS` times.

It goes on with the best of three assignments:

- **best fit decreasing**: the costliest partition to the fullest member that has room for it;
- **filling**: one member after the other gets the costliest partition that is left, and then the partitions
  that leave it the least room. To reach the bound, no member need be fuller than the average, so a member is
  done then, or after `_FILL_STEPS` steps. (J. N. D. Gupta, J. C. Ho, "A new heuristic algorithm for the
  one-dimensional bin-packing problem", Production Planning & Control 10 (1999): minimum bin slack.)
- **filling alike**: the same, but a member begins with its share of costly and of cheap partitions, so that
  members filled later have a choice too.

If these need more members than the bound, the emptiest members and some others, in turn, are **packed again**
together, into one member less if possible, else so that few members have the room.

If that still needs more, `Search` looks for an assignment to one member less, or shows that there is none. It
goes member by member as filling does, and tries all sets of partitions for each, except those that another
set replaces without loss: sets that leave room for one more partition, and sets in which a costlier partition
can replace one. (R. E. Korf, "A new algorithm for optimal bin packing", AAAI 2002: bin completion.) It counts
its steps, and gives up after a number of them; it reads no clock.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import gcd
from typing import TypeVar

from kafka_assignors.certificate.size import SizeBound

NODES = 1_000_000
"""The steps of the search by default: a few seconds."""

_FILL_STEPS = 2_000
_COMPLETING = 3
"""This many places of a member's share are left open, for the partitions that fit best."""

_SEARCHED_PARTITIONS = 1_000
"""With more partitions no search is tried: its first steps find only what filling has found."""

_MOST_PARTS = 16
"""With more parts, a part is smaller than the gain of the rounding."""

_REMEMBERED = 40
"""Hopeless states with at most this many partitions left are remembered."""

_EMPTIEST, _BESIDES, _ROUNDS, _GROUP_STEPS = 3, 6, 300, 3_000
"""The emptiest members to pack again, the others with them, the rounds, and the steps of each round."""

_Item = TypeVar("_Item")

Bins = list[list[int]]
"""For each member, the numbers of its partitions."""


@dataclass(frozen=True, slots=True)
class Packing:
    """An assignment to few members.

    Attributes:
        bins: by member the numbers of its partitions.
        least: how many members are needed at least; the number of `bins` if they are the optimum.
        bound: the bound that proves `least`; None if a search does.
        steps: how many steps the search took.
    """

    bins: Bins
    least: int
    bound: SizeBound | None
    steps: int


def pack(costs: Sequence[int], limit: int, nodes: int = NODES) -> Packing:
    """Assign partitions with these costs, each above 0 and none above the limit, to few members."""
    order = sorted(range(len(costs)), key=lambda number: (-costs[number], number))
    sorted_costs = [costs[number] for number in order]
    least, bound = _least_members(costs, limit)
    bins = _fast(sorted_costs, limit, least)
    search = Search(limit, nodes)
    if len(order) <= _SEARCHED_PARTITIONS:
        while len(bins) > least:
            fewer = search.run(sorted_costs, least)
            if fewer is not None:
                bins = fewer
            elif search.gave_up:
                break
            else:
                least, bound = least + 1, None
    named = [[order[place] for place in sorted(each)] for each in bins]
    return Packing(named, least, bound, search.steps)


def _least_members(costs: Sequence[int], limit: int) -> tuple[int, SizeBound | None]:
    """How many members are needed by the best bound, and that bound; no cost is above the limit."""
    divisor = gcd(*costs) or 1
    whole = limit // divisor
    ascending = sorted(cost // divisor for cost in costs if cost)
    best, bound = (1 if costs else 0), SizeBound(divisor)
    for parts in range(_MOST_PARTS + 1):
        if parts == 1:  # The function for one part is that of no part with a threshold of half the limit.
            continue
        found, threshold = _best_threshold(ascending, whole, parts)
        if found > best:
            best, bound = found, SizeBound(divisor, threshold, parts)
    return best, bound


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


def _fast(costs: Sequence[int], limit: int, least: int) -> Bins:
    """An assignment without an exhaustive search."""
    bins = _best_fit(costs, limit)
    for alike in (False, True):
        if len(bins) > least:
            bins = min(bins, _filled(costs, limit, least, alike=alike), key=len)
    return _packed_again(costs, limit, least, bins)


def _best_fit(costs: Sequence[int], limit: int) -> Bins:
    """Place costs, the greatest first, each in the fullest member that has room."""
    bins: Bins = []
    by_room: list[tuple[int, int]] = []
    for place, cost in enumerate(costs):
        at = bisect_left(by_room, (cost, -1))
        if at < len(by_room):
            room, member = by_room.pop(at)
        else:
            room, member = limit, len(bins)
            bins.append([])
        bins[member].append(place)
        insort(by_room, (room - cost, member))
    return bins


def _sample(costs: Sequence[int], limit: int, members: int) -> list[int]:
    """One member's share of costly and of cheap partitions, without the few that complete it."""
    sample: list[int] = []
    load = 0
    for at in range(0, len(costs), members):
        if load + costs[at] > limit:
            break
        sample.append(at)
        load += costs[at]
    return sample[: max(1, len(sample) - _COMPLETING)]


def _filled(costs: Sequence[int], limit: int, least: int, *, alike: bool = False) -> Bins:
    """Fill members in turn; each begins with the costliest partition, or with its share if `alike`."""
    rest = list(range(len(costs)))
    spare = least * limit - sum(costs)
    bins: Bins = []
    while rest:
        left = [costs[place] for place in rest]
        members = max(1, least - len(bins))
        begin = _sample(left, limit, members) if alike else [0]
        chosen = _fill(left, limit, begin, max(0, spare // members))
        spare -= limit - sum(left[at] for at in chosen)
        bins.append([rest[at] for at in chosen])
        rest = _without(rest, chosen)
    return bins


def _packed_again(costs: Sequence[int], limit: int, least: int, bins: Bins) -> Bins:
    """Pack some members again, until there are as few as `least` or the rounds are used up."""
    search_in = _EMPTIEST + _BESIDES
    for turn in range(_ROUNDS):
        if len(bins) <= max(least, search_in):
            break
        bins.sort(key=lambda each: (sum(costs[place] for place in each), each))
        first = _EMPTIEST + turn * _BESIDES % (len(bins) - search_in)
        group = [*bins[:_EMPTIEST], *bins[first : first + _BESIDES]]
        places = sorted(place for each in group for place in each)
        of_group = [costs[place] for place in places]
        again = Search(limit, _GROUP_STEPS).run(of_group, search_in - 1)
        if again is None:  # Fill all but the last as far as they can be, so that the room is with that one.
            again = _filled(of_group, limit, 1)
        if len(again) <= search_in:
            kept = [*bins[_EMPTIEST:first], *bins[first + _BESIDES :]]
            bins = [*kept, *([places[at] for at in each] for each in again)]
    return bins


def _without(items: Sequence[_Item], places: Sequence[int]) -> list[_Item]:
    taken = set(places)
    return [item for at, item in enumerate(items) if at not in taken]


def _fill(costs: Sequence[int], limit: int, begin: list[int], enough: int) -> list[int]:
    """The places of costs (descending) that leave a member little room; those in `begin` are among them.

    Depth first, the costliest that fits first, until at most `enough` room is left or the steps are used up.
    """
    taken = set(begin)
    others = [at for at in range(len(costs)) if at not in taken]
    negative = [-costs[at] for at in others]
    room = limit - sum(costs[at] for at in begin)
    least_room, best = limit + 1, begin
    path: list[int] = []
    at = bisect_left(negative, -room)
    for _ in range(_FILL_STEPS):
        if at < len(others):
            path.append(at)
            room += negative[at]
            at = bisect_left(negative, -room, at + 1)
            continue
        if room < least_room:
            least_room, best = room, [*begin, *(others[place] for place in path)]
        if least_room <= enough or not path:
            break
        # The last one gives way to a cheaper one: an equal one would leave the same room.
        last = path.pop()
        room -= negative[last]
        at = bisect_right(negative, negative[last], last)
    return best


class _GaveUp(Exception):
    """The steps are used up."""


class Search:
    """Looks for an assignment to a number of members; all its runs together take at most `nodes` steps."""

    def __init__(self, limit: int, nodes: int) -> None:
        self._limit, self._nodes = limit, nodes
        self._hopeless: set[tuple[int, ...]] = set()
        self.steps = 0
        self.gave_up = False

    def run(self, costs: Sequence[int], members: int) -> Bins | None:
        """The places of costs (descending) by member; None if there is no such assignment, or it gave up."""
        self._hopeless.clear()
        try:
            return self._pack(list(enumerate(costs)), members, members * self._limit - sum(costs))
        except _GaveUp:
            self.gave_up = True
            return None

    def _pack(self, rest: list[tuple[int, int]], members: int, spare: int) -> Bins | None:
        """Assign the rest to this many members, which may leave `spare` room together."""
        if not rest:
            return [[] for _ in range(members)]
        if spare < 0 or not members:
            return None
        costs = [cost for _, cost in rest]
        if members == 1:
            # The rest fits, since the spare room is not negative.
            return [[place for place, _ in rest]]
        state = (members, *costs) if len(costs) <= _REMEMBERED else None
        if state is not None and state in self._hopeless:
            return None
        if _best_threshold(costs[::-1], self._limit, 0)[0] > members:
            return None
        for chosen in self._completions(costs, spare):
            room = self._limit - sum(costs[at] for at in chosen)
            found = self._pack(_without(rest, chosen), members - 1, spare - room)
            if found is not None:
                return [[rest[at][0] for at in chosen], *found]
        if state is not None:
            self._hopeless.add(state)
        return None

    def _completions(self, costs: Sequence[int], spare: int) -> Iterator[list[int]]:
        """Sets of places with the first cost that leave at most `spare` room, without dominated ones."""
        negative = [-cost for cost in costs]
        sums = list(accumulate(reversed(costs), initial=0))[::-1]
        count = len(costs)
        chosen = [0]
        room = self._limit - costs[0]
        at = bisect_left(negative, -room, 1)
        while True:
            self.steps += 1
            if self.steps > self._nodes:
                raise _GaveUp
            # Otherwise the rest does not fill the member far enough.
            if at < count and sums[at] >= room - spare:
                chosen.append(at)
                room -= costs[at]
                at = bisect_left(negative, -room, at + 1)
                continue
            if at >= count and room <= spare and not _dominated(costs, negative, chosen, room):
                yield list(chosen)
            if len(chosen) == 1:
                return
            last = chosen.pop()
            room += costs[last]
            at = bisect_right(negative, negative[last], last)


def _dominated(costs: Sequence[int], negative: Sequence[int], chosen: Sequence[int], room: int) -> bool:
    """Whether one more partition fits, or a costlier one in the place of one that is chosen."""
    taken = set(chosen)
    if any(at not in taken for at in range(bisect_left(negative, -room), len(costs))):
        return True
    for place in chosen[1:]:
        cost = costs[place]
        for at in range(bisect_left(negative, -cost - room), bisect_left(negative, -cost)):
            if at not in taken:
                return True
    return False
