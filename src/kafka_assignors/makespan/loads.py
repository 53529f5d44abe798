"""The loads of an assignment, and the lower bounds that say how good it is.

The lower bound of the greatest load is the greatest of three:

- the heaviest job, which some member must have;
- **fractional**: if jobs could be cut into pieces, the least T for which no member has more than T. By the
  theorem of maximum flow and minimum cut it is the greatest W(S) / N(S), where S are classes, W(S) what all
  of their jobs weigh and N(S) the members that may have any of them, rounded up;
- **crowding**: one of m members must have at least k + 1 of the k·m + 1 heaviest jobs, which weigh at least
  as much as the k + 1 lightest of these.

The fractional bound starts from the average over all members. As long as the flow leaves cohorts above T,
these and the cohorts that they can pass jobs on to are a set with a greater W / N, which is the next T (the
method of Newton and Dinkelbach). There are two or three steps in practice, on cohorts and classes, regardless
of the number of jobs.

Source of the crowding bound: M. Dell'Amico, S. Martello, "Optimal scheduling of tasks on identical parallel
processors", ORSA Journal on Computing 7 (1995), bound L2 and its extension.

The report
==========

It is computed after the assignment, from the group and the assignment alone. So it costs nothing unless
requested, and it measures any strategy in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from kafka_assignors.group import Assignment, Group
from kafka_assignors.makespan.jobs import (
    NO_OWNER,
    Jobs,
    Weights,
    changed_hands,
    holders_in,
    jobs_of,
    weights_of,
)
from kafka_assignors.solver.distribution import Distribution

FINE = 256
"""The search stops at a load that is above a bound by at most one part in `FINE`."""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The least greatest load of jobs that can be cut, and one way to reach it.

    `load` is T, rounded up. `shares` has, by cohort and class, how much of the class's weight goes to the
    cohort, so that no cohort has more than T a member.
    """

    load: int
    shares: Sequence[dict[int, int]]


def relax(jobs: Jobs) -> Relaxation:
    """The fractional bound, of the jobs' own weights without the base."""
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


def lower_bound(jobs: Jobs, relaxed: Relaxation | None = None) -> int:
    """A lower bound of the greatest load of any assignment, of the jobs' own weights without the base.

    `relaxed` is the result of `relax`, if it is known.
    """
    return max((relaxed or relax(jobs)).load, crowding_bound(jobs.weights, len(jobs.members)))


def crowding_bound(weights: Sequence[int], members: int) -> int:
    """The greatest of the heaviest job and the crowding bounds of every k."""
    heaviest_first = sorted(weights, reverse=True)
    best = heaviest_first[0] if heaviest_first else 0
    if not members:
        return best
    sums = list(accumulate(heaviest_first, initial=0))
    for last in range(members, len(heaviest_first), members):
        together = last // members + 1
        best = max(best, sums[last + 1] - sums[last + 1 - together])
    return best


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The loads of an assignment; the load of a member is the weight of all its partitions together.

    Attributes:
        makespan: the greatest load.
        lower_bound: no assignment of the group has a lower greatest load.
        heaviest: the greatest weight of a partition.
        moved: the partitions that changed hands.
        placed: the partitions without an owner.
        unknown_weights: the partitions with a default weight.
    """

    makespan: int
    lower_bound: int
    heaviest: int
    moved: int
    placed: int
    unknown_weights: int

    @property
    def ratio(self) -> float:
        """The makespan divided by the lower bound: 1.0 is optimal, a greater ratio may be optimal too."""
        return self.makespan / self.lower_bound if self.lower_bound else 1.0


def member_loads(assignment: Assignment, weights: Weights) -> dict[str, int]:
    """The weight of all partitions of each member, by member id."""
    return {
        member_id: sum(
            sum(map(weights.by_topic[name].__getitem__, partitions)) for name, partitions in assigned.items()
        )
        for member_id, assigned in assignment.members.items()
    }


def measure_loads(group: Group, assignment: Assignment) -> LoadReport:
    """Measure a valid assignment of the group. Cost: sorting the partitions, and a maximum flow."""
    weights = weights_of(group)
    jobs, classes = jobs_of(group, group.claims, weights)
    loads = member_loads(assignment, weights)
    return LoadReport(
        makespan=max(loads.values(), default=0),
        lower_bound=lower_bound(jobs),
        heaviest=max(jobs.weights, default=0),
        moved=changed_hands(jobs.owners, holders_in(group, classes, assignment.members)),
        placed=jobs.owners.count(NO_OWNER),
        unknown_weights=weights.unknown,
    )
