"""An assignment with every load within the capacity, and little weight moved.

A partition that changes hands pauses, so the weight that moves is the load that waits. (D. Landau, X.
Andrade, J. G. Barbosa, "Kafka Consumer Group Autoscaler", arXiv 2206.11170, call the sum, divided by the
capacity, the R-score.) While every member is within the capacity nothing moves. To move the least weight is
bin packing in general, so this is a heuristic, and the result is None if it finds no room:

1. **Give.** The fullest member above the capacity gives up a set of jobs that is enough: of the few lightest
   such sets, the one that moves the least weight in all.
2. **Place.** A job without a member goes to its owner if the owner has room, else to the emptiest member. If
   no member has room, the job displaces a lighter one, that one another, and so on until one finds room. The
   chain with the least weight is taken (Dijkstra; weights fall along a chain, so there is no circle).
3. **Repack.** Members that stay above the capacity are packed anew together with the emptiest member, then
   the emptiest two, and so on, until their jobs fit: the heaviest job first, each on the fullest member
   with room (best fit decreasing). The bundles then go to the members that own most of their weight, and
   jobs go back to owners that have room.
4. **Search.** In a group of a dozen jobs a depth-first search looks for an assignment that moves less weight,
   or for a first one. If it comes to its end within its steps, no assignment moves less.

The result depends on jobs and owners alone; applied to itself it moves nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import combinations

from kafka_assignors.makespan.jobs import NO_OWNER, Jobs, bundle_holders
from kafka_assignors.makespan.local_search import Job

_GIVEN_AT_ONCE = 3
"""A member gives up at most this many jobs in a turn. Sets are chosen from the `_GIVEN_FROM` jobs next in
weight to the excess, and `_SETS` of them are tried."""
_GIVEN_FROM = 12
_SETS = 4

_SEARCHED_JOBS = 12
"""Groups of at most this many jobs are searched, for at most `_SEARCHED_STEPS` steps."""
_SEARCHED_STEPS = 20_000

_CHAIN_JOBS = 64
"""The search for a chain looks at this many jobs at most, each with the `_CHAIN_MEMBERS` emptiest members."""
_CHAIN_MEMBERS = 64

_Steps = list[tuple[int, int]]
"""Jobs and the members that they go to."""


def keep_within(jobs: Jobs, capacity: int) -> list[int] | None:
    """The holder of each job, with no load above the capacity; None if no such holders were found."""
    if max(jobs.weights, default=0) > capacity or max(jobs.base, default=0) > capacity:
        return None
    placing = _Placing(jobs, capacity)
    without = [job for job in jobs.heaviest_first(placing.without_owner) if not placing.place([job])]
    stuck = placing.relieve()
    found = placing.holders if not (without or stuck) or _repack(placing, stuck, without) else None
    return found if len(jobs.weights) > _SEARCHED_JOBS else _Search(jobs, capacity, found).best


def _moved(jobs: Jobs, holders: Sequence[int]) -> int:
    """The weight of the jobs that are not with their owner, though it is in the group."""
    return sum(
        weight
        for weight, owner, holder in zip(jobs.weights, jobs.owners, holders, strict=True)
        if owner not in (NO_OWNER, holder)
    )


class _Search:
    """Depth first, the heaviest job first, its owner before other members. `best` is the result."""

    def __init__(self, jobs: Jobs, capacity: int, found: list[int] | None) -> None:
        self.best = found
        self._jobs = jobs
        self._capacity = capacity
        self._least = sum(jobs.weights) + 1 if found is None else _moved(jobs, found)
        self._order = jobs.heaviest_first(range(len(jobs.weights)))
        self._takers = jobs.readers
        self._holders = [NO_OWNER] * len(jobs.weights)
        self._loads = list(jobs.base)
        self._steps = _SEARCHED_STEPS
        self._descend(0, 0)

    def _descend(self, depth: int, moved: int) -> None:
        if moved >= self._least or not self._steps:
            return
        self._steps -= 1
        if depth == len(self._order):
            self.best, self._least = self._holders.copy(), moved
            return
        job = self._order[depth]
        weight, owner = self._jobs.weights[job], self._jobs.owners[job]
        for member in sorted(
            self._takers[self._jobs.class_of[job]], key=lambda member: (member != owner, self._loads[member])
        ):
            if self._loads[member] + weight <= self._capacity:
                self._loads[member] += weight
                self._holders[job] = member
                self._descend(depth + 1, moved + (weight if owner not in (NO_OWNER, member) else 0))
                self._loads[member] -= weight


class _Placing:
    """Holders and loads while jobs move, and the members in the order of their loads."""

    def __init__(self, jobs: Jobs, capacity: int) -> None:
        self.jobs = jobs
        self.capacity = capacity
        self.holders = list(jobs.owners)
        self.loads = list(jobs.base)
        self.held: list[list[Job]] = [[] for _ in jobs.base]
        self._moves: list[tuple[int, int]] = []
        """Each job moved since the last attempt began, and the member that it came from."""
        self._may_have = [frozenset(cohorts) for cohorts in jobs.takers]
        self.without_owner = [job for job, owner in enumerate(jobs.owners) if owner == NO_OWNER]
        for job, owner in enumerate(jobs.owners):
            if owner != NO_OWNER:
                self.loads[owner] += jobs.weights[job]
                self.held[owner].append((jobs.weights[job], job))
        for held in self.held:
            held.sort()
        self.by_load = sorted((self.loads[member], member) for cohort in jobs.cohorts for member in cohort)

    def may_have(self, member: int, job: int) -> bool:
        return self.jobs.cohort_of[member] in self._may_have[self.jobs.class_of[job]]

    def at_home(self, job: int) -> bool:
        return self.holders[job] == self.jobs.owners[job] != NO_OWNER

    def move(self, job: int, taker: int) -> None:
        """Give a job to a member, or to none (`NO_OWNER`)."""
        weight, giver = self.jobs.weights[job], self.holders[job]
        self._moves.append((job, giver))
        if giver != NO_OWNER:
            held = self.held[giver]
            del held[bisect_left(held, (weight, job))]
            self._carry(giver, -weight)
        self.holders[job] = taker
        if taker != NO_OWNER:
            insort(self.held[taker], (weight, job))
            self._carry(taker, weight)

    def _carry(self, member: int, weight: int) -> None:
        load = self.loads[member]
        del self.by_load[bisect_left(self.by_load, (load, member))]
        self.loads[member] = load + weight
        insort(self.by_load, (load + weight, member))

    def relieve(self) -> list[int]:
        """Have members above the capacity give up jobs; returns the members that stay above it."""
        stuck: list[int] = []
        while self.by_load and self.by_load[-1][0] > self.capacity:
            member = next(
                (member for load, member in reversed(self.by_load) if member not in stuck), NO_OWNER
            )
            if member == NO_OWNER or self.loads[member] <= self.capacity:
                break
            given = self._cheapest_given(member)
            if given is None:
                stuck.append(member)
            else:
                for job in given:
                    self.move(job, NO_OWNER)
                self.place(given)
        return [member for member in stuck if self.loads[member] > self.capacity]

    def _cheapest_given(self, member: int) -> Sequence[int] | None:
        """The jobs to give up that move the least weight, counted with what they displace."""
        best: Sequence[int] | None = None
        least = 0
        for weight, given in _light_sets(self, member):
            if best is not None and weight >= least:
                break
            self._moves.clear()
            for job in given:
                self.move(job, NO_OWNER)
            placed = self.place(given)
            left: dict[int, int] = {}
            for job, giver in self._moves:
                left.setdefault(job, giver)
            moved = sum(
                self.jobs.weights[job] for job, giver in left.items() if giver == self.jobs.owners[job]
            )
            for job, giver in reversed(self._moves.copy()):
                self.move(job, giver)
            if placed and (best is None or moved < least):
                best, least = given, moved
        return best

    def place(self, given: Iterable[int]) -> bool:
        """Place jobs that have no member; False, with some of them placed, if one finds no room."""
        for job in self.jobs.heaviest_first(given):
            steps = self._chain(job)
            if steps is None:
                return False
            for moved, taker in steps:
                self.move(moved, taker)
        return True

    def _chain(self, first: int) -> _Steps | None:
        """The chain from a job to one that finds room, last job first."""
        came: dict[int, tuple[int, int]] = {}
        """By displaced job, the job that takes its place, and the member that has it."""
        costs = {first: 0}
        heap = [(0, self.jobs.weights[first], first)]
        for _ in range(_CHAIN_JOBS):
            if not heap:
                return None
            cost, _, job = heappop(heap)
            if cost > costs[job]:
                continue
            steps = list(_steps_to(came, job))
            crossed = {member for _, member in steps}
            taker = self._with_room(job, crossed)
            if taker != NO_OWNER:
                return [(job, taker), *steps]
            for displaced, member in self._displaceable(job, crossed):
                through = cost + (self.jobs.weights[displaced] if self.at_home(displaced) else 0)
                if displaced not in costs or through < costs[displaced]:
                    costs[displaced] = through
                    came[displaced] = job, member
                    heappush(heap, (through, self.jobs.weights[displaced], displaced))
        return None

    def _with_room(self, job: int, crossed: set[int]) -> int:
        """The owner if it has room, else the emptiest member that has; `NO_OWNER` if no member has."""
        room, owner = self.capacity - self.jobs.weights[job], self.jobs.owners[job]
        if owner != NO_OWNER and self.loads[owner] <= room and owner not in crossed:
            return owner
        for load, member in self.by_load:
            if load > room:
                break
            if member not in crossed and self.may_have(member, job):
                return member
        return NO_OWNER

    def _displaceable(self, job: int, crossed: set[int]) -> Iterator[tuple[int, int]]:
        """Lighter jobs that make room for this one, and their members: the lightest two of each member."""
        weight = self.jobs.weights[job]
        for load, member in self.by_load[:_CHAIN_MEMBERS]:
            if member in crossed or not self.may_have(member, job):
                continue
            held = self.held[member]
            enough = bisect_left(held, (load + weight - self.capacity, -1))
            for lighter, other in held[enough : enough + 2]:
                if lighter < weight:
                    yield other, member


def _steps_to(came: dict[int, tuple[int, int]], job: int) -> Iterator[tuple[int, int]]:
    """The jobs before this one on a chain, the nearest first, and the member that each goes to."""
    while job in came:
        job, member = came[job]
        yield job, member


def _light_sets(placing: _Placing, member: int) -> Iterator[tuple[int, Sequence[int]]]:
    """Sets of jobs that bring a member within the capacity, after the weight that leaves its owner."""
    too_much = placing.loads[member] - placing.capacity
    held = placing.held[member]
    next_to_it = bisect_left(held, (too_much, -1))
    begin = max(0, min(next_to_it - _GIVEN_FROM * 2 // 3, len(held) - _GIVEN_FROM))
    near = [each for each in held[begin : begin + _GIVEN_FROM] if each[0]]
    sets: list[tuple[int, int, tuple[int, ...]]] = []
    for count in range(1, _GIVEN_AT_ONCE + 1):
        for chosen in combinations(near, count):
            weight = sum(each for each, _ in chosen)
            if weight >= too_much > weight - chosen[0][0]:
                moved = sum(each for each, job in chosen if placing.at_home(job))
                sets.append((moved, weight, tuple(job for _, job in chosen)))
    if not sets and held:
        # More jobs than that must go: this turn takes the heaviest, and the next turn looks again.
        sets.append((held[-1][0], held[-1][0], (held[-1][1],)))
    for moved, _, given in sorted(sets)[:_SETS]:
        yield moved, given


def _repack(placing: _Placing, stuck: Sequence[int], without: Sequence[int]) -> bool:
    """Pack stuck members anew, with as many of the emptiest others as it takes; whether that succeeds."""
    others = [member for _, member in placing.by_load if member not in stuck]
    count = 1
    while True:
        pool = [*stuck, *others[:count]]
        numbers = [*without, *(job for member in pool for _, job in placing.held[member])]
        packed = _best_fit_decreasing(placing, pool, numbers)
        if packed is not None:
            _adopt(placing, pool, packed)
            return True
        if count >= len(others):
            return False
        count += max(1, count // 4)


def _best_fit_decreasing(
    placing: _Placing, pool: Sequence[int], numbers: Iterable[int]
) -> dict[int, int] | None:
    """The member of the pool for each job; None if one finds no room.

    A member without a job is taken only if no other has room: the job's owner, or the first in the pool.
    """
    jobs, base = placing.jobs, placing.jobs.base
    empty = dict.fromkeys(sorted(pool))
    by_load: list[tuple[int, int]] = []
    found: dict[int, int] = {}
    for job in jobs.heaviest_first(numbers):
        weight = jobs.weights[job]
        place = bisect_right(by_load, (placing.capacity - weight, len(base))) - 1
        while place >= 0 and not placing.may_have(by_load[place][1], job):
            place -= 1
        if place >= 0:
            load, taker = by_load.pop(place)
        else:
            wanted = [jobs.owners[job], *empty] if jobs.owners[job] in empty else empty
            taker = next(
                (
                    member
                    for member in wanted
                    if placing.may_have(member, job) and base[member] + weight <= placing.capacity
                ),
                NO_OWNER,
            )
            if taker == NO_OWNER:
                return None
            del empty[taker]
            load = base[taker]
        found[job] = taker
        insort(by_load, (load + weight, taker))
    return found


def _adopt(placing: _Placing, pool: Sequence[int], packed: dict[int, int]) -> None:
    """Give the bundles to the members that own most of their weight, and then jobs back to their owners."""
    jobs = placing.jobs
    holders = bundle_holders(jobs, pool, packed.items(), jobs.weights)
    for job in packed:
        placing.move(job, NO_OWNER)
    for job, bundle in packed.items():
        placing.move(job, holders[bundle])
    for job in jobs.heaviest_first(packed):
        owner = jobs.owners[job]
        away = owner not in (NO_OWNER, placing.holders[job])
        if away and placing.loads[owner] + jobs.weights[job] <= placing.capacity:
            placing.move(job, owner)
