"""An assignment that looks at no owner, within a proved factor of the optimum.

**Longest processing time first** (`deal`): the heaviest job to the member with the least load, then the next.
With one subscription for all, and no job placed before, the greatest load is at most 4/3 - 1/(3m) of the
least possible one, with m members. Source: R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM
Journal on Applied Mathematics 17 (1969). With several subscriptions there is no such constant.

**Rounding** (`round_shares`): from jobs that are cut to whole ones, so that no cohort gets more than one job
beyond its share. The fractional solution (`bounds.relax`) says how much of each class's weight every
cohort gets. Draw an edge between a class and each cohort that gets a part of it. Around a circle of such
edges weight can be shifted, from one edge to the next in turn, without changing the sum of any class or
cohort, until one edge carries zero and the circle is broken. When no circle is left the edges are a forest,
and every cohort but the roots is below one class. The jobs of a class are now laid out in a row as long as
their weight; the cohort above the class gets the first piece of the row, those below it one piece each; a job
that lies across a cut goes to the later piece. So a cohort has its share, and of one class, the one it is
below, at most one job too much.

Within a cohort every member may have every job, so `deal` places the cohort's jobs. The last job that is put
on the fullest member finds that member with the average at most. A cohort's average is at most T and one job
divided by the cohort's size, so no member gets more than T and the heaviest job together. Neither of them
exceeds the optimum: the result is at most twice the optimum, for any subscriptions.

Source: J. K. Lenstra, D. B. Shmoys, É. Tardos, "Approximation algorithms for scheduling unrelated parallel
machines", Mathematical Programming 46 (1990), here for jobs whose weight is the same on every machine, and
with classes and cohorts in the place of jobs and machines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace
from itertools import pairwise

from kafka_assignors.makespan.jobs import NO_OWNER, Jobs


def deal(jobs: Jobs, loads: list[int], holders: list[int], free: Iterable[int]) -> None:
    """Place the free jobs; `loads` and `holders` know of the others, and are changed.

    Of members with equal loads the first gets the job, of equal jobs the first goes first. Each class has a
    heap of its takers. A member whose load has grown through another class is found out when it comes up:
    loads only grow here.
    """
    weights, class_of = jobs.weights, jobs.class_of
    heaps: dict[int, list[tuple[int, int]]] = {}
    for job in sorted(free, key=lambda job: (-weights[job], job)):
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
        path = self._path(one, other)
        if path is None:
            self._hang_from_itself(one)
            self._hang(one, other, weight)
            return
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
        if weight > shifted:
            self._hang_from_itself(one)
            self._hang(one, other, weight - shifted)

    def _hang(self, child: Node, parent: Node, weight: int) -> None:
        self.parents[child] = parent
        self.carried[child, parent] = weight

    def _hang_from_itself(self, node: Node) -> None:
        """Make a node the root of its tree."""
        way = [node]
        while way[-1] in self.parents:
            way.append(self.parents[way[-1]])
        for child, parent in reversed(list(pairwise(way))):
            del self.parents[child]
            self._hang(parent, child, self.carried.pop((child, parent)))

    def _path(self, one: Node, other: Node) -> list[tuple[Node, Node]] | None:
        """The edges from one node to the other; None if they are in different trees."""
        ups: dict[Node, int] = {}
        up: list[tuple[Node, Node]] = []
        node = one
        while True:
            ups[node] = len(up)
            if node not in self.parents:
                break
            up.append((node, self.parents[node]))
            node = self.parents[node]
        down: list[tuple[Node, Node]] = []
        node = other
        while node not in ups:
            if node not in self.parents:
                return None
            down.append((node, self.parents[node]))
            node = self.parents[node]
        return up[: ups[node]] + down[::-1]


def round_shares(jobs: Jobs, shares: Sequence[dict[int, int]]) -> list[int]:
    """The holder of each job, given the weight of each class that every cohort gets.

    Cost: for each edge the length of a path in the forest, and the dealing of the jobs.
    """
    forest = _Forest()
    for cohort, held in enumerate(shares):
        for number in sorted(held):
            if held[number]:
                forest.add((False, cohort), (True, number), held[number])
    in_row: dict[int, list[int]] = {}
    for job in sorted(range(len(jobs.weights)), key=lambda job: (-jobs.weights[job], job)):
        in_row.setdefault(jobs.class_of[job], []).append(job)
    pieces = _pieces(forest)
    cohort_jobs: dict[int, list[int]] = {}
    for number, row in in_row.items():
        for cohort, of_cohort in _cut(row, jobs.weights, pieces[number]):
            cohort_jobs.setdefault(cohort, []).extend(of_cohort)
    loads, holders = list(jobs.base), [NO_OWNER] * len(jobs.weights)
    for cohort, of_cohort in sorted(cohort_jobs.items()):
        deal(_within(jobs, cohort), loads, holders, of_cohort)
    return holders


def _pieces(forest: _Forest) -> dict[int, list[tuple[int, int]]]:
    """By class, the cohorts of its row and their shares, that of the cohort above it first."""
    # A class that is the root of a tree lets its first cohort be it instead: no cohort may be below two.
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


def _within(jobs: Jobs, cohort: int) -> Jobs:
    """The same jobs, as if this cohort alone could have them."""
    return Jobs(
        jobs.weights,
        jobs.class_of,
        jobs.owners,
        jobs.cohorts,
        jobs.cohort_of,
        [(cohort,)] * len(jobs.takers),
        jobs.base,
    )
