"""Longest processing time first: the heaviest job to whoever has least, then the next.

With one subscription for all, and nothing placed before, the greatest load is at most 4/3 - 1/(3m) of the
least possible one, with m members. Source: R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM
Journal on Applied Mathematics 17 (1969). With several subscriptions there is no such constant.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heapreplace

from kafka_assignors.makespan.jobs import Jobs

__all__ = ["deal"]


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
