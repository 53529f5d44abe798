"""Balances: what is to be level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from kafka_assignors.criteria import Criteria
from kafka_assignors.group import Assignment
from kafka_assignors.makespan import Terms, balance_loads
from kafka_assignors.scale import PLAIN, Scale
from kafka_assignors.solver import solve
from kafka_assignors.strategies.rules.base import Place
from kafka_assignors.strategies.rules.problem import Problem
from kafka_assignors.strategies.weighted import Weighted

__all__ = ["LevelByCapacity", "LevelByWeight", "LevelPartitions"]

_UNIT = 1 << 80
"""Of capacity, where members are favoured: more than the square of any load times any other capacity."""


@dataclass(frozen=True, slots=True)
class LevelPartitions:
    """Every member has as many partitions as any other, as far as subscriptions and restrictions allow.

    The sum of the squared loads is the least; partitions that are settled already count.
    """

    kind: ClassVar[str] = "balance"
    place: ClassVar[Place] = Place.BALANCE
    exact: ClassVar[bool] = True

    def scale(self, problem: Problem) -> Scale:
        """What is settled counts."""
        return _favouring(Scale(already=problem.fixed_loads), problem)

    def balance(self, problem: Problem, criteria: Criteria) -> Assignment:
        """The best assignment of the problem's group."""
        return solve(problem.group, problem.claims, criteria=criteria, scale=self.scale(problem))


@dataclass(frozen=True, slots=True)
class LevelByCapacity:
    """Every member has as many partitions as the others beside the capacity that it announces.

    The sum of the squared loads, each divided by the capacity, is the least; partitions that are settled
    already count, and a member that announces no capacity has a capacity of 1.
    """

    kind: ClassVar[str] = "capacity"
    place: ClassVar[Place] = Place.BALANCE
    exact: ClassVar[bool] = True

    def scale(self, problem: Problem) -> Scale:
        """What members announce, and what is settled."""
        return _favouring(Scale(problem.facts.capacities, problem.fixed_loads), problem)

    def balance(self, problem: Problem, criteria: Criteria) -> Assignment:
        """The best assignment of the problem's group."""
        return solve(problem.group, problem.claims, criteria=criteria, scale=self.scale(problem))


def _favouring(scale: Scale, problem: Problem) -> Scale:
    """The same with the members that are favoured a trifle above others: less than any load can show."""
    if not problem.favoured:
        return scale
    capacities = {
        member_id: scale.capacity(member_id) * _UNIT + (member_id in problem.favoured)
        for member_id in problem.group.members
    }
    return replace(scale, capacities=capacities)


@dataclass(frozen=True, slots=True)
class LevelByWeight:
    """The greatest load of any member by weight is within a proved factor of the least, as in `weighted`.

    Partitions that stay together weigh what they weigh together. `threshold` and `budget` are those of
    `Weighted`, and say all that there is to say about moves; racks are not looked at.
    """

    threshold: float = 0.1
    budget: int | None = None

    kind: ClassVar[str] = "weights"
    place: ClassVar[Place] = Place.BALANCE
    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError for arguments that make no sense."""
        self._terms()

    def scale(self, problem: Problem) -> Scale:
        """Weights are no scale; by number of partitions, members are alike."""
        return PLAIN

    def balance(self, problem: Problem, criteria: Criteria) -> Assignment:
        """An assignment of the problem's group, which has nothing settled."""
        return balance_loads(problem.group, problem.claims, self._terms())

    def _terms(self) -> Terms:
        return Weighted(self.threshold, self.budget).terms
