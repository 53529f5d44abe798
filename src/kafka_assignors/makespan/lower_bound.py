"""Lower bounds of the greatest load: no assignment can stay below them.

Three, of which the greatest counts:

- the heaviest job, which some member must have;
- **fractional**: if jobs could be cut into pieces, the least T for which no member has more than T. By the
  theorem of maximum flow and minimum cut it is the greatest W(S) / N(S), where S are classes, W(S) what all
  of their jobs weigh and N(S) the members that may have any of them, rounded up;
- **crowding**: of the k·m + 1 heaviest jobs, m members must have some k + 1 together, which weigh at least as
  much as the k + 1 lightest of these.

The fractional one starts from the average over all members. As long as the flow leaves cohorts above T, these
and what they can pass jobs on to are a set with a greater W / N, which is the next T (the method of Newton
and Dinkelbach). Each step finds another set, in practice two or three; on cohorts and classes, however many
jobs there are.

Source of the crowding bound: M. Dell'Amico, S. Martello, "Optimal scheduling of tasks on identical parallel
processors", ORSA Journal on Computing 7 (1995), bound L2 and its extension.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from kafka_assignors.makespan.jobs import Jobs
from kafka_assignors.solver.distribution import Distribution

__all__ = ["Relaxation", "crowding_bound", "relax"]


class Relaxation:
    """The least greatest load of jobs that can be cut, and one way to reach it.

    `load` is T, rounded up. `shares` has, by cohort and class, how much of the class's weight goes to the
    cohort, so that no cohort has more than T a member.
    """

    def __init__(self, load: int, shares: Sequence[dict[int, int]]) -> None:
        self.load = load
        self.shares = shares


def relax(jobs: Jobs) -> Relaxation:
    """The fractional bound. The jobs' own weights count, and not the base."""
    sizes = [len(cohort) for cohort in jobs.cohorts]
    amounts = [0] * len(jobs.takers)
    for number, weight in zip(jobs.class_of, jobs.weights, strict=True):
        amounts[number] += weight
    distribution = Distribution(sizes, [0] * len(sizes), dict(enumerate(jobs.takers)))
    distribution.pour(dict(enumerate(amounts)))
    cohorts = range(len(sizes))
    nothing = dict.fromkeys(cohorts, 0)
    load = -(-sum(amounts) // sum(sizes)) if sizes else 0
    while True:
        limit = {cohort: load * size for cohort, size in enumerate(sizes)}
        above = distribution.even_out(cohorts, nothing, limit)
        if above is None:
            return Relaxation(load, distribution.held)
        crowded = above[0]
        weight = sum(distribution.loads[cohort] for cohort in crowded)
        load = -(-weight // sum(sizes[cohort] for cohort in crowded))


def crowding_bound(weights: Sequence[int], members: int) -> int:
    """The heaviest job and the crowding bound, for all k at once."""
    heaviest_first = sorted(weights, reverse=True)
    best = heaviest_first[0] if heaviest_first else 0
    if not members:
        return best
    sums = list(accumulate(heaviest_first, initial=0))
    for last in range(members, len(heaviest_first), members):
        together = last // members + 1
        best = max(best, sums[last + 1] - sums[last + 1 - together])
    return best
