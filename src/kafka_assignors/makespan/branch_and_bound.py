"""Small groups, exactly: the least greatest load, and the fewest moves to a load that is low enough.

One search does both. Of all assignments without a load above a limit it finds the one with the fewest moves,
and of these the one with the least greatest load. If no job has an owner, nothing counts as a move, and the
result is the optimum (`optimum`). With owners, and the threshold as the limit, the result has the fewest
moves (`best_within`).

The tree has a level for each job, the heaviest first, and a branch for each member that may have it: its
owner first, then the member with the least load. So the first leaf is the result of dealing. A branch is cut
off if no leaf below it can be better than the best leaf so far:

- **load**: some members have less room, below the load to undercut, than the remaining jobs weigh that no
  other member may have. That is the fractional bound of `loads` for the remaining jobs, over the unions of a
  few classes' readers;
- **moves**: an owner has no room for all its remaining jobs below the limit. The fewest of its heaviest jobs
  that make room are a lower bound of its moves;
- **symmetry**: two members of one cohort with the same load are alike if they own none of the remaining jobs;
- **memory**: the same loads at the same level were reached with no more moves.

A leaf at the lower bound ends the search, since no leaf is better.

The search gives up after a number of looks at loads (`LookBudget`). It counts and reads no clock, so every
leader gives up at the same place. Groups above `MOST_JOBS` or `_MOST_MEMBERS` are not searched as a whole,
since the tree is too deep: there `local_search` solves parts of the group.

Source: E. L. Lawler, D. E. Wood, "Branch-and-bound methods: a survey", Operations Research 14 (1966), and for
the order of jobs and the cut by load M. Dell'Amico, S. Martello, "Optimal scheduling of tasks on identical
parallel processors", ORSA Journal on Computing 7 (1995). The moves and the cohorts are our own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from kafka_assignors.makespan.jobs import NO_OWNER, Jobs

MOST_LOOKS = 6_000
"""The most loads that a search of a whole group looks at."""

MOST_JOBS = 32
_MOST_MEMBERS = 8
"""The largest group that is searched."""

_BEFOREHAND = 5
"""The cost of setting up a search, in looks for each job."""

_MOST_UNIONS = 12
"""The most sets of members whose room is compared with the jobs that only they may have."""


@dataclass(slots=True)
class LookBudget:
    """How many loads may still be looked at: a node of the tree looks at the load of every member."""

    left: int


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The result of a search.

    `holders` has the member of each job; None if no assignment was found that is better than the known one.
    `load` is their greatest load. `proved` says that the search came to its end: no assignment is better than
    this one, or than the known one.
    """

    holders: list[int] | None
    load: int
    proved: bool


def optimum(jobs: Jobs, bound: int) -> SearchResult:
    """Holders with the least greatest load if `proved`, else with the least that was found.

    `bound` is a lower bound of the greatest load.
    """
    free = replace(jobs, owners=[NO_OWNER] * len(jobs.weights))
    return best_within(
        free, sum(jobs.weights) + max(jobs.base, default=0), bound, None, LookBudget(MOST_LOOKS)
    )


def best_within(
    jobs: Jobs, limit: int, bound: int, known: tuple[int, int] | None, looks: LookBudget
) -> SearchResult:
    """Holders with the fewest moves and no load above `limit`, and of these with the least greatest load.

    `known` are the moves and the greatest load of an assignment that the result must improve upon. `bound` is
    a lower bound of the greatest load.
    """
    if len(jobs.weights) > MOST_JOBS or (jobs.weights and len(jobs.members) > _MOST_MEMBERS):
        return SearchResult(None, 0, False)
    looks.left -= _BEFOREHAND * len(jobs.weights)
    tree = _Tree(jobs, limit, bound, known, looks)
    proved = True
    try:
        tree.place(0, 0)
    except _AtTheBound:
        pass
    except _OutOfBudget:
        proved = False
    return SearchResult(tree.found, tree.best_load, proved)


class _OutOfBudget(Exception):
    """The looks are used up."""


class _AtTheBound(Exception):
    """The assignment that was found has the fewest moves and the least load that are possible."""


class _Tree:
    """The levels of the tree, the loads on the way down to the current node, and the best leaf so far."""

    def __init__(
        self, jobs: Jobs, limit: int, bound: int, known: tuple[int, int] | None, looks: LookBudget
    ) -> None:
        self._order = jobs.heaviest_first(range(len(jobs.weights)))
        self._weights = [jobs.weights[job] for job in self._order]
        self._owners = [jobs.owners[job] for job in self._order]
        readers = [*map(tuple, jobs.readers)]
        self._readers = [readers[jobs.class_of[job]] for job in self._order]
        self._members = jobs.members
        self._loads = list(jobs.base)
        self._holders = [NO_OWNER] * len(self._order)
        self._looks = looks
        self._seen: list[dict[tuple[int, ...], int]] = [{} for _ in self._order]
        self._owned = self._owned_by_level()
        self._kinds = self._kinds_by_level(jobs.cohort_of)
        self._rooms = self._rooms_of_unions()
        self._limit = limit
        self._bound = bound
        self._least_moves = self._must_move(0, limit) if self._order else 0
        self.found: list[int] | None = None
        self._best_moves, self.best_load = known or (len(jobs.weights), limit + 1)

    def _owned_by_level(self) -> list[list[tuple[int, list[int]]]]:
        """By level, each owner of jobs left, and their weights summed up from the lightest on."""
        owned: dict[int, list[int]] = {}
        by_level: list[list[tuple[int, list[int]]]] = []
        for owner, weight in zip(reversed(self._owners), reversed(self._weights), strict=True):
            if owner != NO_OWNER:
                sums = owned.get(owner, [0])
                owned[owner] = [*sums, sums[-1] + weight]
            by_level.append(sorted(owned.items()))
        return by_level[::-1]

    def _kinds_by_level(self, cohort_of: Sequence[int]) -> list[list[int]]:
        """By level, a number for each member: the same for members that are alike but for their load."""
        cohorts = len(self._loads)
        kinds = []
        for owned in self._owned:
            owners = {owner for owner, _ in owned}
            kinds.append([cohorts + m if m in owners else max(0, c) for m, c in enumerate(cohort_of)])
        return kinds

    def _rooms_of_unions(self) -> list[tuple[tuple[int, ...], int, list[int]]]:
        """Sets of members, the lightest job that no other member may have, and by level what these weigh."""
        unions = [frozenset(self._members)]
        for readers in map(frozenset, dict.fromkeys(self._readers)):
            for other in [frozenset[int](), *unions]:
                if readers | other not in unions and len(unions) < _MOST_UNIONS:
                    unions.append(readers | other)
        rooms = []
        for union in unions:
            weighs = [
                weight if union.issuperset(readers) else 0
                for weight, readers in zip(self._weights, self._readers, strict=True)
            ]
            lightest = min(filter(None, weighs), default=0)
            rooms.append(
                (tuple(sorted(union)), lightest, list(accumulate(reversed(weighs), initial=0))[::-1])
            )
        return rooms

    def place(self, level: int, moves: int) -> None:
        """Try every placement of the jobs from this level on, except in branches with nothing better."""
        if level == len(self._order):
            self._take(moves)
            return
        most = self._most_load(level, moves)
        if most is None or self._has_seen(level, moves):
            return
        self._looks.left -= len(self._members)
        if self._looks.left < 0:
            raise _OutOfBudget
        loads, kinds, factor = self._loads, self._kinds[level], 2 * len(self._loads)
        weight, owner = self._weights[level], self._owners[level]
        # The first of several members that are alike stands for all of them.
        first = {loads[m] * factor + kinds[m]: m for m in reversed(self._readers[level])}
        takers = [first[kind] for kind in sorted(first)]
        if owner != NO_OWNER:
            takers.remove(owner)
            takers.insert(0, owner)
        for member in takers:
            load = loads[member] + weight
            if load > most:
                if member == owner:
                    continue
                return  # The members that follow have higher loads.
            best = self._best_moves, self.best_load
            loads[member] = load
            self._holders[level] = member
            self.place(level + 1, moves + (owner not in (NO_OWNER, member)))
            loads[member] = load - weight
            if best != (self._best_moves, self.best_load):
                most = self._most_load(level, moves)
                if most is None:
                    return

    def _take(self, moves: int) -> None:
        """Keep the current leaf, which is the best so far."""
        self._best_moves, self.best_load = moves, max(self._loads, default=0)
        self.found = [NO_OWNER] * len(self._order)
        for job, holder in zip(self._order, self._holders, strict=True):
            self.found[job] = holder
        if moves <= self._least_moves and self.best_load <= self._bound:
            raise _AtTheBound

    def _most_load(self, level: int, moves: int) -> int | None:
        """The load up to which members may be filled for something better, None if nothing better is left."""
        most = self._limit
        at_least = moves + self._must_move(level, most)
        if at_least == self._best_moves:
            most = min(most, self.best_load - 1)
            at_least = moves + self._must_move(level, most)
        if at_least > self._best_moves:
            return None
        loads = self._loads
        if max(loads) > most:
            return None
        for members, lightest, weighs in self._rooms:
            room = most * len(members)
            for member in members:
                # Room for less than the lightest job is of no use.
                room -= loads[member] if most - loads[member] >= lightest else most
            if room < weighs[level]:
                return None
        return most

    def _must_move(self, level: int, most: int) -> int:
        """How many of the jobs left must move at least, because their owners have no room for all of them."""
        moved = 0
        for owner, sums in self._owned[level]:
            room = most - self._loads[owner]
            if sums[-1] > room:
                # Owners that keep the lightest keep the most.
                moved += len(sums) - max(1, bisect_right(sums, room))
        return moved

    def _has_seen(self, level: int, moves: int) -> bool:
        """Whether another node had the same loads with no more moves; if not, remember this one."""
        loads, kinds, factor = self._loads, self._kinds[level], 2 * len(self._loads)
        key = tuple(sorted([loads[member] * factor + kinds[member] for member in self._members]))
        seen = self._seen[level]
        if seen.get(key, moves + 1) <= moves:
            return True
        seen[key] = moves
        return False
