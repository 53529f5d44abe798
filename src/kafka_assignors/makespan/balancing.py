"""The assignment with a greatest load that is within a proved factor of the least possible one.

First the partitions that weigh something. Then those that weigh nothing, by their number, beside what each
member has of the others: a weight says nothing about where they should be, but each costs a little, and
nobody should have thousands of them.
"""

from __future__ import annotations

from kafka_assignors.claims import Claims
from kafka_assignors.group import Assignment, Group
from kafka_assignors.makespan.balance import Terms, improved, searched
from kafka_assignors.makespan.default_weights import weights_of
from kafka_assignors.makespan.initial import deal
from kafka_assignors.makespan.jobs import NO_OWNER, Jobs, assignment_of, changed_hands, jobs_of
from kafka_assignors.makespan.lower_bound import crowding_bound, relax
from kafka_assignors.makespan.rounding import round_shares

__all__ = ["balance_loads", "fresh_holders"]


def balance_loads(group: Group, claims: Claims, terms: Terms) -> Assignment:
    """The assignment, given the judged claims of the members.

    `report` says within which factor of the optimum its greatest load is.
    """
    jobs, classes = jobs_of(group, claims, weights_of(group))
    holders = [NO_OWNER] * len(jobs.weights)
    left = terms.without(jobs.owners.count(NO_OWNER))
    heavy, numbers = jobs.with_weight_alone()
    if numbers:
        fresh, bound = fresh_holders(heavy)
        held = improved(heavy, fresh, bound, left)
        for number, holder in zip(numbers, held, strict=True):
            holders[number] = holder
        left = left.without(changed_hands(heavy, held))
    else:
        held = []
    light, numbers = jobs.by_count(held)
    if numbers:
        loads, fresh = list(light.base), [NO_OWNER] * len(numbers)
        deal(light, loads, fresh, range(len(numbers)))
        held = improved(light, fresh, 0, left)
        for number, holder in zip(numbers, held, strict=True):
            holders[number] = holder
    return assignment_of(group, classes, holders)


def fresh_holders(jobs: Jobs) -> tuple[list[int], int]:
    """An assignment that looks at no owner, and a lower bound of the greatest load."""
    loads, holders = list(jobs.base), [NO_OWNER] * len(jobs.weights)
    deal(jobs, loads, holders, range(len(holders)))
    relaxed = relax(jobs)
    bound = max(relaxed.load, crowding_bound(jobs.weights, sum(map(len, jobs.cohorts))))
    if max(loads) > relaxed.load + max(jobs.weights):
        holders = round_shares(jobs, relaxed.shares)
    return searched(jobs, holders, bound), bound
