"""Who has which jobs, kept so that a job of about a given weight is found at once."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

from kafka_assignors.makespan.jobs import NO_OWNER, Jobs, changed_hands

__all__ = ["Placing"]


class Placing:
    """An assignment that can be changed.

    Attributes:
        loads: what each member has to bear.
        holders: who has each job.
        held: by member and class, its jobs as (weight, job), ascending; no class without a job.
        changed_hands: how many jobs are not with the member that owned them, though it is in the group.
    """

    def __init__(self, jobs: Jobs, holders: Sequence[int]) -> None:
        self.jobs = jobs
        self._may_have = [frozenset(cohorts) for cohorts in jobs.takers]
        self.holders = list(holders)
        self.loads = list(jobs.base)
        self.held: list[dict[int, list[tuple[int, int]]]] = [{} for _ in jobs.base]
        self.changed_hands = changed_hands(jobs, holders)
        for job, (holder, weight, number) in enumerate(
            zip(self.holders, jobs.weights, jobs.class_of, strict=True)
        ):
            self.loads[holder] += weight
            self.held[holder].setdefault(number, []).append((weight, job))
        for classes in self.held:
            for of_class in classes.values():
                of_class.sort()

    def move(self, job: int, taker: int) -> None:
        """Give a job to another member. Cost: logarithmic, but for the shifting of a list."""
        jobs, giver = self.jobs, self.holders[job]
        weight, number, owner = jobs.weights[job], jobs.class_of[job], jobs.owners[job]
        given = self.held[giver]
        del given[number][bisect_left(given[number], (weight, job))]
        if not given[number]:
            del given[number]
        insort(self.held[taker].setdefault(number, []), (weight, job))
        self.loads[giver] -= weight
        self.loads[taker] += weight
        self.holders[job] = taker
        if owner != NO_OWNER:
            self.changed_hands += (taker != owner) - (giver != owner)

    def has_any(self, member: int) -> bool:
        """Whether the member has any job, or something to bear besides."""
        return bool(self.held[member] or self.jobs.base[member])

    def may_have(self, member: int, number: int) -> bool:
        """Whether the member subscribes to the class."""
        return self.jobs.cohort_of[member] in self._may_have[number]
