"""From jobs that are cut to whole ones: no cohort gets more than one job beyond its share.

The fractional solution says how much of each class's weight every cohort gets. Draw an edge between a class
and each cohort that gets something of it. Around a circle of such edges weight can be shifted, from one edge
to the next in turn, without changing what any class gives or any cohort has, until one edge carries nothing
and the circle is broken. When no circle is left the edges are a forest, and every cohort but the roots is
below one class. The jobs of a class are now laid out in a row as long as their weight; the cohort above the
class gets the first piece of the row, those below it one piece each; a job that lies across a cut goes to the
later piece. So a cohort has its share, and of one class, the one it is below, at most one job too much.

Within a cohort everybody may have everything, and its jobs are dealt, the heaviest first. The last job that
is put on the fullest member finds that member with the average at most. A cohort's average is at most T and
one job divided by the cohort's size, so nobody gets more than T and the heaviest job together. Neither of
them exceeds the optimum: at most twice the optimum, whatever the subscriptions.

Source: J. K. Lenstra, D. B. Shmoys, É. Tardos, "Approximation algorithms for scheduling unrelated parallel
machines", Mathematical Programming 46 (1990), here for jobs whose weight is the same wherever they may go,
and with classes and cohorts in the place of jobs and machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kafka_assignors.makespan.initial import deal
from kafka_assignors.makespan.jobs import NO_OWNER, Jobs

__all__ = ["round_shares"]

Node = tuple[bool, int]
"""(True, class) or (False, cohort)."""


class _Forest:
    """Edges with weight on them and no circle, every tree hanging from a root."""

    def __init__(self) -> None:
        self.parents: dict[Node, Node] = {}
        self.carried: dict[tuple[Node, Node], int] = {}
        """What an edge carries, by (child, parent)."""

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
