"""What a strategy of rules assigns in the place of a group: the reduced group, compared with its optimum."""

from __future__ import annotations

from dataclasses import replace

from kafka_assignors.criteria import Scale
from kafka_assignors.group import NO_GENERATION, Group
from kafka_assignors_strategies.composed import Composed
from kafka_assignors_strategies.rules.rule import Problem
from tests.exact_oracle import assert_best


def claimed_group(problem: Problem) -> Group:
    """The reduced group by itself: its members claim the partitions of their judged claims."""
    members = {
        member_id: replace(
            member, owned=problem.claims.owners.get(member_id, {}), generation=NO_GENERATION, data=b""
        )
        for member_id, member in problem.group.members.items()
    }
    return Group(problem.group.topics, members)


def assert_best_of_the_rest(strategy: Composed, group: Group) -> None:
    """Check that the exact solver assigns what is left of the group for the balance rule no better."""
    problem, balance, criteria = strategy.problem(group), strategy._balance(), strategy._criteria()
    scale = _in_floats(balance.scale(problem))
    assert_best(claimed_group(problem), balance.balance(problem, criteria), criteria, scale)


def _in_floats(scale: Scale) -> Scale:
    """A scale by which the same assignments are the best, with numbers that the exact solver can add.

    `rollout` decides between equal loads by capacities of 81 bits that differ by one. In groups of tests,
    13 bits are enough for the difference to decide nothing else.
    """
    capacities = {
        id: capacity if capacity < 1 << 80 else (1 << 12) + capacity - (1 << 80)
        for id, capacity in scale.capacities.items()
    }
    return Scale(capacities, scale.already)
