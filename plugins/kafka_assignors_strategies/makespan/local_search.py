"""Local search: relieve the fullest member, step by step, for as long as a step helps.

A step takes the fullest member and gives one of its jobs to an emptier one; if no job helps, two members
exchange a job for a lighter one. The search takes the step after which the fuller of the two has the least
load. A job of half their difference would level them out, so a step looks only at the two jobs of each class
that are next to that weight, and at the `_LOOKED_AT` emptiest members that may have one. A step lowers the
load of the fuller member and makes no other load as great. So the loads, greatest first, fall in
lexicographic order, and the search ends. It depends on the assignment alone.

The search ends when no step helps. That need not be the optimum.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from kafka_assignors_strategies.makespan.jobs import Jobs

_LOOKED_AT = 16
"""The most emptier members that a step chooses from."""

_STEPS_PER_JOB = 3
"""The search ends after this many steps for each job. It usually takes far less than one."""

Job: TypeAlias = tuple[int, int]
"""A weight and a number."""

Moves: TypeAlias = tuple[tuple[int, int, int], ...]
"""Each as (job, giver, taker)."""


class Placing:
    """An assignment that can be changed.

    Attributes:
        loads: the load of each member, its base included.
        holders: who has each job.
        held: by member and class, its jobs as (weight, job), ascending; no class without a job.
    """

    def __init__(self, jobs: Jobs, holders: Sequence[int]) -> None:
        self.jobs = jobs
        self._may_have = [frozenset(cohorts) for cohorts in jobs.takers]
        self.holders = list(holders)
        self.loads = list(jobs.base)
        self.held: list[dict[int, list[Job]]] = [{} for _ in jobs.base]
        for job, (holder, weight, number) in enumerate(
            zip(self.holders, jobs.weights, jobs.class_of, strict=True)
        ):
            self.loads[holder] += weight
            self.held[holder].setdefault(number, []).append((weight, job))
        for classes in self.held:
            for of_class in classes.values():
                of_class.sort()

    def move(self, job: int, taker: int) -> None:
        """Give a job to another member. Cost: logarithmic, and a shift within a list."""
        jobs, giver = self.jobs, self.holders[job]
        weight, number = jobs.weights[job], jobs.class_of[job]
        given = self.held[giver]
        del given[number][bisect_left(given[number], (weight, job))]
        if not given[number]:
            del given[number]
        insort(self.held[taker].setdefault(number, []), (weight, job))
        self.loads[giver] -= weight
        self.loads[taker] += weight
        self.holders[job] = taker

    def has_any(self, member: int) -> bool:
        """Whether the member has any job, or a base."""
        return bool(self.held[member] or self.jobs.base[member])

    def may_have(self, member: int, number: int) -> bool:
        """Whether the member subscribes to the class."""
        return self.jobs.cohort_of[member] in self._may_have[number]


@dataclass(frozen=True, slots=True)
class SearchStep:
    """Jobs that go from member to member, and the greatest load before."""

    moves: Moves
    greatest_before: int


def relieve(placing: Placing, members: Sequence[int], enough: int) -> Iterator[SearchStep]:
    """Carry out the steps among these members, one at a time, until no member has more than `enough`.

    `placing` must not be changed between two steps.
    """
    loads = placing.loads
    by_load = sorted((loads[member], member) for member in members)
    for _ in range(_STEPS_PER_JOB * len(placing.holders)):
        greatest, fullest = by_load[-1]
        if greatest <= enough:
            return
        moves = _best_move(placing, by_load, fullest) or _best_exchange(placing, by_load, fullest)
        if moves is None:
            return
        changed = {member for _, giver, taker in moves for member in (giver, taker)}
        for member in changed:
            del by_load[bisect_left(by_load, (loads[member], member))]
        for job, _, taker in moves:
            placing.move(job, taker)
        for member in changed:
            insort(by_load, (loads[member], member))
        yield SearchStep(moves, greatest)


def fill_idle(placing: Placing, fair: int) -> None:
    """Give members without a job one of a member above the fair share.

    The fullest member gives first, as long as that leaves the fuller of the two with less.
    """
    loads, members = placing.loads, placing.jobs.members
    idle = sorted((loads[member], member) for member in members if not placing.has_any(member))
    givers = [(-loads[member], member) for member in members if loads[member] > fair] if idle else []
    heapify(givers)
    while givers:
        _, giver = heappop(givers)
        moves = _best_move(placing, idle, giver)
        if moves is None:
            continue
        ((job, _, taker),) = moves
        del idle[bisect_left(idle, (loads[taker], taker))]
        placing.move(job, taker)
        insort(idle, (loads[taker], taker))
        if loads[giver] > fair:
            heappush(givers, (-loads[giver], giver))


def take_back(placing: Placing, step: SearchStep) -> None:
    """Undo the last step."""
    for job, giver, _ in step.moves:
        placing.move(job, giver)


def _best_move(placing: Placing, by_load: Sequence[Job], fullest: int) -> Moves | None:
    """The move from the fullest member that leaves the fuller of the two with the least; None without one."""
    held = placing.held[fullest]
    greatest = best = placing.loads[fullest]
    found: Moves | None = None
    for load, taker, numbers in _emptier(placing, by_load, fullest, held):
        distance = greatest - load
        if best <= load + (distance + 1) // 2:
            break  # Even levelled out, both would have more than the best so far.
        for number in numbers:
            of_class = held[number]
            at = bisect_right(of_class, (distance // 2, len(placing.holders)))
            for weight, job in of_class[max(0, at - 1) : at + 1]:
                left = max(load + weight, greatest - weight)
                if left < best:
                    best, found = left, ((job, fullest, taker),)
    return found


def _best_exchange(placing: Placing, by_load: Sequence[Job], fullest: int) -> Moves | None:
    """The same for an exchange of a job for a lighter one."""
    held = placing.held[fullest]
    greatest = best = placing.loads[fullest]
    found: Moves | None = None
    for load, taker, numbers in _emptier(placing, by_load, fullest, held):
        distance = greatest - load
        if best <= load + (distance + 1) // 2:
            break
        others = [
            of_class
            for number, of_class in sorted(placing.held[taker].items())
            if placing.may_have(fullest, number)
        ]
        for number in numbers:
            for given, job in held[number]:
                for of_class in others:
                    at = bisect_left(of_class, (given - distance // 2, -1))
                    for taken, other in of_class[max(0, at - 1) : at + 1]:
                        left = max(load + given - taken, greatest - given + taken)
                        if left < best:
                            best, found = left, ((job, fullest, taker), (other, taker, fullest))
    return found


def _emptier(
    placing: Placing, by_load: Sequence[Job], fullest: int, held: dict[int, list[Job]]
) -> Iterator[tuple[int, int, list[int]]]:
    """The emptiest members that may have a held class: load, member, and the numbers of such classes."""
    greatest, left = placing.loads[fullest], _LOOKED_AT
    numbers_held = sorted(held)
    for load, taker in by_load:
        if load + 1 >= greatest:
            return
        numbers = [number for number in numbers_held if placing.may_have(taker, number)]
        if numbers:
            yield load, taker, numbers
            left -= 1
            if not left:
                return
