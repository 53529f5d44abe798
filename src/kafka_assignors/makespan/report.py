"""How good an assignment is by weight.

The report is computed after the assignment, from the group and the assignment alone. So it costs nothing
unless requested, and it measures any strategy in the same way.

The factor that is promised beforehand: a fresh assignment is within 4/3 - 1/(3m) of the optimum where all
members subscribe to the same topics (`initial.deal`), else within 2 (`initial.round_shares`); and a threshold
t for moves may leave the greatest load above that by 1 / (1 - t) (`balance`). If no partition had an owner,
the threshold costs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kafka_assignors.group import Assignment, Group
from kafka_assignors.makespan.balance import Terms
from kafka_assignors.makespan.default_weights import weights_of
from kafka_assignors.makespan.jobs import NO_OWNER, changed_hands, jobs_of
from kafka_assignors.makespan.lower_bound import crowding_bound, relax

__all__ = ["LoadReport", "measure_loads"]


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The loads of an assignment, a load being what all partitions of a member weigh together.

    `makespan` is the greatest load, `lower_bound` what the greatest load of no assignment of the group is
    below, and `heaviest` the greatest weight of a partition. `factor` is how many times the optimum the
    makespan can be, as promised beforehand by the strategy; None if it promises nothing. `moved` are the
    partitions that changed hands, `placed` those without an owner. `unknown_weights` are partitions with a
    default weight.
    """

    makespan: int
    lower_bound: int
    heaviest: int
    factor: Fraction | None
    moved: int
    placed: int
    unknown_weights: int

    @property
    def ratio(self) -> float:
        """The makespan by the lower bound: 1.0 is optimal, and more may be."""
        return self.makespan / self.lower_bound if self.lower_bound else 1.0


def measure_loads(group: Group, assignment: Assignment, terms: Terms | None = None) -> LoadReport:
    """Measure a valid assignment of the group; `terms` are those of the strategy that made it, if it has any.

    Cost: linear in the partitions, but for sorting them, and a maximum flow on classes and cohorts.
    """
    weights = weights_of(group)
    jobs, classes = jobs_of(group, group.claims, weights)
    loads = [
        sum(
            sum(map(weights.by_topic[name].__getitem__, partitions))
            for name, partitions in assignment.members.get(member.id, {}).items()
        )
        for member in classes.members
    ]
    holder_of = {
        (name, partition): number
        for number, member in enumerate(classes.members)
        for name, partitions in assignment.members.get(member.id, {}).items()
        for partition in partitions
    }
    holders = [
        holder_of.get((name, partition), NO_OWNER)
        for name in sorted(classes.class_of_topic)
        for partition in range(group.topics[name].partitions)
    ]
    placed = jobs.owners.count(NO_OWNER)
    members = sum(map(len, jobs.cohorts))
    return LoadReport(
        makespan=max(loads, default=0),
        lower_bound=max(relax(jobs).load, crowding_bound(jobs.weights, members)),
        heaviest=max(jobs.weights, default=0),
        factor=None if terms is None else _factor(members, len(jobs.cohorts), placed == len(holders), terms),
        moved=changed_hands(jobs, holders),
        placed=placed,
        unknown_weights=weights.unknown,
    )


def _factor(members: int, cohorts: int, nothing_owned: bool, terms: Terms) -> Fraction | None:
    if nothing_owned:
        leave = Fraction(1)
    elif terms.budget is not None:
        return None
    else:
        leave = 1 / (1 - terms.threshold)
    return leave * (Fraction(4, 3) - Fraction(1, 3 * members) if cohorts == 1 else Fraction(2))
