"""The fewest partitions that change their member, from the present owners to a number of members.

A lower bound: a member above the limit must give up partitions, at least as many as its costliest ones that
bring it under the limit; a member that leaves must give up all, and the members leave for which that costs
least. An assignment: these partitions, and those without an owner, go to the room of the other members. A
partition that fits nowhere takes the place of the cheapest partition that makes room for it, which is placed
next. If that fails, members are emptied, those with few partitions first, 1, 2, 4 and so on, and their
partitions are placed again. The last resort is the assignment that proves the size, with each bundle at the
present member that has most of it.

Between the two a search decides for groups that are small enough: is there an assignment with no more moves
than the lower bound, with one more, and so on. It gives up after a number of steps.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb

from kafka_assignors.makespan.jobs import NO_OWNER, changed_hands, with_most_in_common
from kafka_assignors.sizing.packing import Bins

_SEARCHED_PARTITIONS = 200
_MOST_CHOICES = 64
"""With more ways than this to choose the members that leave, no search is tried."""


@dataclass(frozen=True, slots=True)
class Present:
    """The partitions as they are.

    Attributes:
        costs: the cost of each partition, in descending order, none above the limit.
        owners: the number of each partition's member, or `NO_OWNER`.
        members: how many members there are.
    """

    costs: Sequence[int]
    owners: Sequence[int]
    members: int

    def owned(self) -> list[list[int]]:
        """The partitions of each member, the costliest first."""
        owned: list[list[int]] = [[] for _ in range(self.members)]
        for place, owner in enumerate(self.owners):
            if owner != NO_OWNER:
                owned[owner].append(place)
        return owned


@dataclass(frozen=True, slots=True)
class Moves:
    """An assignment to a number of members, reached from the present one.

    Attributes:
        holders: the number of each partition's member; members after the present ones are new.
        leaving: the present members that leave.
        moved: partitions that had an owner and are with another member, the leaving members' included.
        least: how many must move; equal to `moved` if that is the fewest possible.
    """

    holders: Sequence[int]
    leaving: tuple[int, ...]
    moved: int
    least: int


def fewest_moves(present: Present, bins: Bins, limit: int, nodes: int) -> Moves:
    """Assign all to as many members as `bins` has entries; these prove that it is possible.

    `nodes` bounds the steps of the search.
    """
    members = len(bins)
    owned = present.owned()
    evicted = [_evicted(places, present.costs, limit) for places in owned]
    must = [len(each) for each in evicted]
    gone = max(0, present.members - members)
    by_price = sorted(range(present.members), key=lambda member: (len(owned[member]) - must[member], -member))
    leaving = tuple(sorted(by_price[:gone]))
    least = sum(must) + sum(len(owned[member]) - must[member] for member in leaving)
    holders = _placed(present, owned, evicted, leaving, bins, limit)
    moved = changed_hands(present.owners, holders)
    if moved > least and len(present.costs) <= _SEARCHED_PARTITIONS:
        tries = comb(present.members, gone) <= _MOST_CHOICES
        choices = [*combinations(range(present.members), gone)] if tries else []
        search = _Search(present, members, limit, nodes)
        while moved > least and choices:
            found = next(filter(None, (search.run(choice, least) for choice in choices)), None)
            if search.steps > nodes:
                break
            if found is None:
                least += 1
                continue
            holders, leaving = found
            moved = changed_hands(present.owners, holders)
    return Moves(holders, leaving, moved, least)


def _evicted(places: Sequence[int], costs: Sequence[int], limit: int) -> list[int]:
    """The fewest of these places (the costliest first) whose removal brings the sum down to the limit."""
    above = sum(costs[place] for place in places) - limit
    count, sum_of_first = 0, 0
    while sum_of_first < above:
        sum_of_first += costs[places[count]]
        count += 1
    evicted = list(places[:count])
    spare = sum_of_first - above
    last = len(places)
    # The last gives way to the cheapest that is enough, then the one before it.
    for at in reversed(range(count)):
        cost = costs[evicted[at]]
        while last - 1 > at and cost - costs[places[last - 1]] > spare:
            last -= 1
        last = max(at, last - 1)
        spare -= cost - costs[places[last]]
        evicted[at] = places[last]
    return evicted


def _placed(
    present: Present,
    owned: Sequence[Sequence[int]],
    evicted: Sequence[Sequence[int]],
    leaving: tuple[int, ...],
    bins: Bins,
    limit: int,
) -> list[int]:
    staying = [member for member in range(present.members) if member not in set(leaving)]
    kept = {member: sorted({*owned[member]} - {*evicted[member]}) for member in staying}
    new = range(present.members, present.members + len(bins) - len(staying))
    by_count = sorted(staying, key=lambda member: (len(kept[member]), member))
    emptied = 0
    while True:
        keeping = {member: list(kept[member]) for member in by_count[emptied:]}
        open_members = [*sorted(by_count[:emptied]), *new]
        holders = _into_room(present, keeping, open_members, limit)
        if holders is not None:
            return _returned(present, holders, set(leaving), limit)
        if emptied == len(staying):
            break
        emptied = min(max(1, 2 * emptied), len(staying))
    holders = [NO_OWNER] * len(present.costs)
    _match(present, bins, [*staying, *new], holders)
    return _returned(present, holders, set(leaving), limit)


def _into_room(
    present: Present, keeping: dict[int, list[int]], open_members: Sequence[int], limit: int
) -> list[int] | None:
    """The holders if the others keep their partitions, and the rest fits their room and the open members."""
    costs = present.costs
    kept = {place for places in keeping.values() for place in places}
    waiting = [place for place in range(len(costs)) if place not in kept]
    keepers = [*sorted(keeping), *(-1 - number for number in range(len(open_members)))]
    held = {member: keeping.get(member, []) for member in keepers}
    rooms = {member: limit - sum(costs[place] for place in held[member]) for member in keepers}
    by_room = sorted((room, member) for member, room in rooms.items())
    changes = len(costs)
    while waiting:
        place = waiting.pop(0)
        at = bisect_left(by_room, (costs[place], -len(costs)))
        if at == len(by_room):
            changes -= 1
            exchange = _cheapest_exchange(costs[place], held, rooms, costs) if changes >= 0 else None
            if exchange is None:
                return None
            member, other = exchange
            held[member].remove(other)
            insort(waiting, other)
            del by_room[bisect_left(by_room, (rooms[member], member))]
            rooms[member] += costs[other]
        else:
            _, member = by_room.pop(at)
        insort(held[member], place)
        rooms[member] -= costs[place]
        insort(by_room, (rooms[member], member))
    holders = [NO_OWNER] * len(costs)
    for member in keeping:
        for place in held[member]:
            holders[place] = member
    _match(present, [held[-1 - number] for number in range(len(open_members))], open_members, holders)
    return holders


def _cheapest_exchange(
    cost: int, held: dict[int, list[int]], rooms: dict[int, int], costs: Sequence[int]
) -> tuple[int, int] | None:
    """The cheapest partition whose place a partition of this cost can take, and its member."""
    best: tuple[int, int, int] | None = None
    for member, places in held.items():
        least = cost - rooms[member]
        # The costs of a member's partitions descend: the last that is enough.
        at = bisect_right(places, -least, key=lambda place: -costs[place]) - 1
        if at >= 0 and least <= costs[places[at]] < cost:
            found = (costs[places[at]], member, places[at])
            best = found if best is None else min(best, found)
    return None if best is None else best[1:]


def _match(present: Present, bins: Bins, members: Sequence[int], holders: list[int]) -> None:
    """Give each bundle to one of the members, as far as possible to the one that owns most of it."""
    allowed = set(members)
    common = Counter(
        (number, owner)
        for number, places in enumerate(bins)
        for place in places
        if (owner := present.owners[place]) in allowed
    )
    member_of = with_most_in_common(common)
    left = iter(sorted(allowed.difference(member_of.values())))
    for number, places in enumerate(bins):
        member = member_of[number] if number in member_of else next(left)
        for place in places:
            holders[place] = member


def _returned(present: Present, holders: list[int], leaving: set[int], limit: int) -> list[int]:
    """The holders, with partitions returned to owners that have room."""
    loads: Counter[int] = Counter()
    for place, holder in enumerate(holders):
        loads[holder] += present.costs[place]
    for place in reversed(range(len(holders))):
        owner, cost = present.owners[place], present.costs[place]
        if owner in (NO_OWNER, holders[place]) or owner in leaving or loads[owner] + cost > limit:
            continue
        loads[holders[place]] -= cost
        loads[owner] += cost
        holders[place] = owner
    return holders


class _Search:
    """Looks for an assignment with at most a number of moves; all its runs together take `nodes` steps."""

    def __init__(self, present: Present, members: int, limit: int, nodes: int) -> None:
        self._present, self._members, self._limit, self._nodes = present, members, limit, nodes
        self.steps = 0
        self._left = [0]
        for cost in reversed(present.costs):
            self._left.append(self._left[-1] + cost)
        self._left.reverse()

    def run(self, leaving: tuple[int, ...], most: int) -> tuple[list[int], tuple[int, ...]] | None:
        """The holders, and the leaving members; None without such an assignment, or if the steps run out."""
        staying = [member for member in range(self._present.members) if member not in leaving]
        first_new = self._present.members
        rooms = dict.fromkeys(
            [*staying, *range(first_new, first_new + self._members - len(staying))], self._limit
        )
        holders: list[int] = []
        return (holders, leaving) if self._place(rooms, holders, most) else None

    def _place(self, rooms: dict[int, int], holders: list[int], moves: int) -> bool:
        """Place the partitions from the next on; whether all are placed, with at most `moves` moves."""
        self.steps += 1
        place = len(holders)
        if place == len(self._present.costs):
            return True
        if self.steps > self._nodes or sum(rooms.values()) < self._left[place]:
            return False
        cost, owner = self._present.costs[place], self._present.owners[place]
        empty_new = False
        takers = [owner, *(member for member in rooms if member != owner)] if owner in rooms else list(rooms)
        for taker in takers:
            price = int(owner not in (NO_OWNER, taker))
            if rooms[taker] < cost or price > moves:
                continue
            if taker >= self._present.members and rooms[taker] == self._limit:
                if empty_new:
                    continue
                empty_new = True
            rooms[taker] -= cost
            holders.append(taker)
            if self._place(rooms, holders, moves - price):
                return True
            holders.pop()
            rooms[taker] += cost
        return False
