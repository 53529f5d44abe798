"""The assignment with a greatest load within a proved factor of the least possible one, and few moves.

A rebalance begins with the partitions that members own; those without an owner go to the members with the
least load. Then a partition moves only for a gain, except to a member that has none: a newcomer to a large
group could wait for ever. Members above their fair share are looked at in layers, the fullest first:

1. **Search** to the end how far the greatest load of the layer can be lowered.
2. If the gain is no more than the threshold, nothing moves. Otherwise steps are taken until the rest of them
   would gain no more than that.
3. Members with nearly the greatest load are done. So one partition that is heavier than a share does not keep
   the second fullest member from being relieved.

The first layer may take a **fresh** assignment that ignores owners, if it is better by more than the
threshold (and no better than one part in `FINE` above the bound); its bundles go to the members that have
most of them. All of that is repeated until nothing moves: its own result stays. Partitions of weight 0 are
balanced by number at the end.

Fresh is the heaviest job first (`deal_jobs`; R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM
Journal on Applied Mathematics 17, 1969), with one subscription for all at most 4/3 - 1/(3m) of the optimum;
or, where that is above the fractional bound T by more than the heaviest job, rounding (`round_relaxation`;
J. K. Lenstra, D. B. Shmoys, É. Tardos, Mathematical Programming 46, 1990): no cohort gets more than one job
beyond its share, so no member more than T and the heaviest job, at most twice the optimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from heapq import heapify, heapreplace
from itertools import pairwise

from kafka_assignors.group import Assignment, Group
from kafka_assignors.loads import Relaxation, crowding_bound, relax, weights_of
from kafka_assignors_strategies.makespan.jobs import (
    NO_OWNER,
    Jobs,
    Threshold,
    assignment_to,
    jobs_of,
    members_of_bundles,
)
from kafka_assignors_strategies.makespan.local_search import Placing, fill_idle, relieve, take_back

FINE = 256
"""The search stops at a load that is above a bound by at most one part in `FINE`."""

_MOST_ROUNDS = 100
"""A limit: each round lowers loads, and the second one usually finds nothing."""

_LITTLE = Threshold(Fraction(1, 64))
"""The threshold for a fresh assignment: layers in smaller steps would be many and gain nothing."""


def balance_loads(group: Group, threshold: float) -> Assignment:
    """The assignment, given the judged claims of the group; `threshold` is from 0 to 0.99."""
    gain = Threshold(Fraction(threshold).limit_denominator(1_000_000))
    jobs, classes = jobs_of(group, weights_of(group))
    heavy, numbers = jobs.with_weight_alone()
    held = improved(heavy, *fresh_holders(heavy), gain) if numbers else []
    holders = dict(zip(numbers, held, strict=True))
    light, numbers = jobs.by_count(held)
    if numbers:
        loads, fresh = list(light.base), [NO_OWNER] * len(numbers)
        deal_jobs(light, loads, fresh, range(len(numbers)))
        holders.update(zip(numbers, improved(light, fresh, 0, gain), strict=True))
    return assignment_to(group, classes, holders)


def fresh_holders(jobs: Jobs) -> tuple[list[int], int]:
    """An assignment that ignores owners, and a lower bound of the greatest load."""
    relaxed = relax_jobs(jobs)
    bound = max(relaxed.load, crowding_bound(jobs.weights, len(jobs.members)))
    loads, holders = list(jobs.base), [NO_OWNER] * len(jobs.weights)
    deal_jobs(jobs, loads, holders, range(len(holders)))
    if max(loads) > relaxed.load + max(jobs.weights):
        holders = round_relaxation(jobs, relaxed.shares)
    placing = Placing(jobs, holders)
    _relieve_layers(placing, bound, _fair_share(jobs), _LITTLE)
    return placing.holders, bound


def relax_jobs(jobs: Jobs) -> Relaxation:
    """The fractional bound of the jobs' own weights, without the base."""
    amounts = dict.fromkeys(range(len(jobs.takers)), 0)
    for number, weight in zip(jobs.class_of, jobs.weights, strict=True):
        amounts[number] += weight
    return relax([*map(len, jobs.cohorts)], jobs.takers, amounts)


def improved(jobs: Jobs, fresh: Sequence[int], bound: int, gain: Threshold) -> list[int]:
    """The holder of each job after all improvements that are worth their moves.

    `fresh` are the holders of an assignment that ignores owners, `bound` is a lower bound of the greatest
    load.
    """
    fresh_load = max(Placing(jobs, fresh).loads)
    content = fresh_load if fresh_load == bound else max(fresh_load, bound + bound // FINE)
    placing = Placing(jobs, _beginning(jobs, fresh))
    fair = _fair_share(jobs)
    for _ in range(_MOST_ROUNDS):
        before = list(placing.holders)
        fill_idle(placing, fair)
        _relieve_layers(placing, bound, fair, gain, content)
        if gain.is_worth(content, max(placing.loads)):
            placing = _adapted(jobs, fresh, content, gain)
        if placing.holders == before:
            break
    return placing.holders


def _beginning(jobs: Jobs, fresh: Sequence[int]) -> list[int]:
    """The owned partitions with their owners, the others with the members of least load."""
    if all(owner == NO_OWNER for owner in jobs.owners):
        return list(fresh)
    loads, holders = list(jobs.base), list(jobs.owners)
    free: list[int] = []
    for job, owner in enumerate(holders):
        if owner == NO_OWNER:
            free.append(job)
        else:
            loads[owner] += jobs.weights[job]
    deal_jobs(jobs, loads, holders, free)
    return holders


def _relieve_layers(
    placing: Placing, bound: int, fair: int, gain: Threshold, fresh_load: int | None = None
) -> None:
    """Relieve the layers. `fresh_load` counts as the end of the first layer if it is lower."""
    loads = placing.loads
    layer = placing.jobs.members
    bound = max(bound, fair)
    enough = bound + bound // FINE
    while layer and gain.is_worth(fair, greatest := max(loads[member] for member in layer)):
        steps = list(relieve(placing, layer, enough))
        end = max(loads[member] for member in layer)
        if fresh_load is not None:
            end, fresh_load = min(end, fresh_load), None
        if gain.is_worth(end, greatest):
            while steps and not gain.is_worth(end, steps[-1].greatest_before):
                take_back(placing, steps.pop())
        else:
            for step in reversed(steps):
                take_back(placing, step)
        greatest = max(loads[member] for member in layer)
        layer = [member for member in layer if gain.is_worth(loads[member], greatest)]
        enough = fair + fair // FINE


def _fair_share(jobs: Jobs) -> int:
    """The average load of a member, rounded down, if each heavier job is alone on its member."""
    total, left = sum(jobs.weights) + sum(jobs.base), len(jobs.members)
    for weight in sorted(jobs.weights, reverse=True):
        if left <= 1 or weight * left <= total:
            break
        total -= weight
        left -= 1
    return total // left if left else 0


def _adapted(jobs: Jobs, fresh: Sequence[int], fresh_load: int, gain: Threshold) -> Placing:
    """The fresh assignment with each bundle at the member that owns most of it.

    Then single jobs go back to their owners, as far as the load allows it.
    """
    member_of = members_of_bundles(jobs, fresh)
    adapted = Placing(jobs, [member_of[bundle] for bundle in fresh])
    gone = [job for job, owner in enumerate(jobs.owners) if owner not in (NO_OWNER, adapted.holders[job])]
    for job in sorted(gone, key=lambda job: (jobs.weights[job], job)):
        owner = jobs.owners[job]
        # With the job back, the fresh assignment must not be worth taking once more.
        if not gain.is_worth(fresh_load, adapted.loads[owner] + jobs.weights[job]):
            adapted.move(job, owner)
    return adapted


def deal_jobs(jobs: Jobs, loads: list[int], holders: list[int], free: Iterable[int]) -> None:
    """Place the free jobs; `loads` and `holders` have the other jobs already, and are changed.

    The first of several members with equal loads gets the job, and the first of equal jobs goes first. Each
    class has a heap of its takers. If a member's load has grown through another class, its entry is corrected
    when it comes up: loads only grow here.
    """
    weights, class_of = jobs.weights, jobs.class_of
    heaps: dict[int, list[tuple[int, int]]] = {}
    for job in jobs.heaviest_first(free):
        number = class_of[job]
        heap = heaps.get(number)
        if heap is None:
            heap = heaps[number] = [
                (loads[member], member) for cohort in jobs.takers[number] for member in jobs.cohorts[cohort]
            ]
            heapify(heap)
        load, member = heap[0]
        while load != loads[member]:
            heapreplace(heap, (loads[member], member))
            load, member = heap[0]
        holders[job] = member
        loads[member] = load + weights[job]
        heapreplace(heap, (loads[member], member))


Node = tuple[bool, int]
"""(True, class) or (False, cohort)."""


class _Forest:
    """Edges with weight on them and no circle, every tree hanging from a root."""

    def __init__(self) -> None:
        self.parents: dict[Node, Node] = {}
        self.carried: dict[tuple[Node, Node], int] = {}
        """The weight on an edge, by (child, parent)."""

    def add(self, one: Node, other: Node, weight: int) -> None:
        """Add an edge. If it closes a circle, shift weight until the circle is open."""
        if path := self._path(one, other):
            # The edges of the path take and give in turn: the first has a node in common with the new edge.
            giving = path[1::2]
            shifted = min([weight, *(self.carried[edge] for edge in giving)])
            for edge in path[0::2]:
                self.carried[edge] += shifted
            for edge in giving:
                self.carried[edge] -= shifted
                if not self.carried[edge]:
                    del self.carried[edge]
                    del self.parents[edge[0]]
            weight -= shifted
        if weight:
            self._hang_from_itself(one)
            self._hang(one, other, weight)

    def _hang(self, child: Node, parent: Node, weight: int) -> None:
        self.parents[child] = parent
        self.carried[child, parent] = weight

    def _hang_from_itself(self, node: Node) -> None:
        """Make a node the root of its tree."""
        for child, parent in reversed([*pairwise(self._way_up(node))]):
            del self.parents[child]
            self._hang(parent, child, self.carried.pop((child, parent)))

    def _way_up(self, node: Node) -> list[Node]:
        """The nodes from this one to the root of its tree."""
        way = [node]
        while way[-1] in self.parents:
            way.append(self.parents[way[-1]])
        return way

    def _path(self, one: Node, other: Node) -> list[tuple[Node, Node]]:
        """The edges from one node to the other; none if they are in different trees."""
        up, down = self._way_up(one), self._way_up(other)
        if up[-1] != down[-1]:
            return []
        while up[-2:] == down[-2:]:  # Above the node in which they meet.
            up.pop()
            down.pop()
        return [*pairwise(up), *reversed([*pairwise(down)])]


def round_relaxation(jobs: Jobs, shares: Sequence[dict[int, int]]) -> list[int]:
    """The holder of each job, given the weight of each class that every cohort gets.

    An edge joins a class and each cohort that gets a part of it. Around a circle of edges weight is shifted,
    from one to the next in turn, without changing the sum of a class or cohort, until one edge carries zero.
    When no circle is left the edges are a forest, and every cohort but the roots is below one class. The jobs
    of a class are laid out in a row; the cohort above the class gets the first piece, those below it one
    each, and a job that lies across a cut goes to the later piece. So a cohort has at most one job more than
    its share, of the class that it is below.

    Cost: for each edge the length of a path in the forest, and the dealing of the jobs.
    """
    forest = _Forest()
    for cohort, held in enumerate(shares):
        for number in sorted(held):
            if held[number]:
                forest.add((False, cohort), (True, number), held[number])
    in_row: dict[int, list[int]] = {}
    for job in jobs.heaviest_first(range(len(jobs.weights))):
        in_row.setdefault(jobs.class_of[job], []).append(job)
    pieces = _pieces(forest)
    cohort_jobs: dict[int, list[int]] = {}
    for number, row in in_row.items():
        for cohort, of_cohort in _cut(row, jobs.weights, pieces[number]):
            cohort_jobs.setdefault(cohort, []).extend(of_cohort)
    loads, holders = list(jobs.base), [NO_OWNER] * len(jobs.weights)
    for cohort, of_cohort in sorted(cohort_jobs.items()):
        this_cohort_alone = replace(jobs, takers=[(cohort,)] * len(jobs.takers))
        deal_jobs(this_cohort_alone, loads, holders, of_cohort)
    return holders


def _pieces(forest: _Forest) -> dict[int, list[tuple[int, int]]]:
    """By class, the cohorts of its row and their shares, that of the cohort above it first."""
    # No class may be the root of a tree, where a cohort could be below two: its first cohort takes its place.
    for child, parent in sorted(forest.carried):
        if parent[0] and parent not in forest.parents:
            forest._hang_from_itself(child)
    pieces: dict[int, list[tuple[int, int]]] = {}
    for (child, parent), weight in sorted(forest.carried.items()):
        if child[0]:
            pieces.setdefault(child[1], []).insert(0, (parent[1], weight))
        else:
            pieces.setdefault(parent[1], []).append((child[1], weight))
    return pieces


def _cut(
    row: Sequence[int], weights: Sequence[int], pieces: Sequence[tuple[int, int]]
) -> list[tuple[int, list[int]]]:
    """The jobs of each piece of a row: those that end in it."""
    cut: list[tuple[int, list[int]]] = []
    at = end = reached = 0
    for cohort, share in pieces:
        end += share
        begin = at
        while at < len(row) and reached + weights[row[at]] <= end:
            reached += weights[row[at]]
            at += 1
        cut.append((cohort, list(row[begin:at])))
    return cut
