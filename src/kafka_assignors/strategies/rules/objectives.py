"""Objectives: the quantity that is level between members, and what decides between balanced assignments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from kafka_assignors.criteria import PLAIN, Criteria, Criterion, Scale, exact, traded
from kafka_assignors.group import Assignment
from kafka_assignors.makespan import Terms, balance_loads
from kafka_assignors.solver import solve
from kafka_assignors.strategies.rules.rule import Place, Problem, Rule, TieBreaker
from kafka_assignors.strategies.weighted import THRESHOLD, Weighted
from kafka_assignors.strategy import Layer

_UNIT = 1 << 80
"""Of capacity, where members are favoured: more than the square of any load times any other capacity."""


class Balance(Rule):
    """A rule about balance; by default the exact solver levels the loads on `scale`.

    `exact`: no assignment of the problem is better, tie-breakers included.
    """

    __slots__ = ()

    place = Place.BALANCE
    exact: ClassVar[bool] = True

    def scale(self, problem: Problem) -> Scale:
        """The scale on which the loads of members are compared; fixed partitions count."""
        return _favouring(Scale(already=problem.fixed_loads), problem)

    def balance(self, problem: Problem, criteria: Criteria) -> Assignment:
        """An assignment of the problem's group."""
        return solve(problem.group, problem.claims, criteria=criteria, scale=self.scale(problem))

    def layers(self, problem: Problem, criteria: Criteria) -> Sequence[Layer] | None:
        """The parts that `balance` assigns one after the other, each the best given those before; None if it
        assigns all partitions at once."""
        return None


@dataclass(frozen=True, slots=True)
class LevelPartitions(Balance):
    """Every member has as many partitions as any other, as far as subscriptions and restrictions allow.

    The sum of the squared loads is the least; fixed partitions count.
    """

    kind = "balance"


@dataclass(frozen=True, slots=True)
class LevelByCapacity(Balance):
    """Every member has partitions in proportion to the capacity that it announces.

    The sum of the squared loads, each divided by the capacity, is the least; fixed partitions count, and a
    member that announces no capacity has a capacity of 1.
    """

    kind = "capacity"

    def scale(self, problem: Problem) -> Scale:
        """The announced capacities; fixed partitions count."""
        return _favouring(Scale(problem.facts.capacities, problem.fixed_loads), problem)


def _favouring(scale: Scale, problem: Problem) -> Scale:
    """The same scale with favoured members above the others by less than any load can show."""
    if not problem.favoured:
        return scale
    capacities = {
        member_id: scale.capacity(member_id) * _UNIT + (member_id in problem.favoured)
        for member_id in problem.group.members
    }
    return replace(scale, capacities=capacities)


@dataclass(frozen=True, slots=True)
class LevelByWeight(Balance):
    """The greatest load of any member by weight is within a proved factor of the least, as in `weighted`.

    Partitions that stay together weigh the sum of their weights. `threshold`, `budget` and `capacity` are
    those of `Weighted` and alone decide about moves; racks play no part. Raises TypeError or ValueError as
    `Weighted` does.
    """

    threshold: float = THRESHOLD
    budget: int | None = None
    capacity: int | None = None

    kind = "weights"
    exact = False

    def __post_init__(self) -> None:
        self._terms()

    def scale(self, problem: Problem) -> Scale:
        """The plain scale: by number of partitions, members are alike."""
        return PLAIN

    def balance(self, problem: Problem, criteria: Criteria) -> Assignment:
        """An assignment of the problem's group, which has no fixed partitions."""
        return balance_loads(problem.group, problem.claims, self._terms())

    def _terms(self) -> Terms:
        return Weighted(self.threshold, self.budget, self.capacity).terms


@dataclass(frozen=True, slots=True)
class FewestMoves(TieBreaker):
    """As few partitions as possible change hands between live members."""

    kind = "movement"

    def criteria(self) -> Criteria:
        """Movement."""
        return (Criterion.MOVEMENT,)


@dataclass(frozen=True, slots=True)
class FewestRackMisses(TieBreaker):
    """As few partitions as possible are consumed from another rack (KIP-881)."""

    kind = "racks"

    def criteria(self) -> Criteria:
        """Rack misses."""
        return (Criterion.RACKS,)


@dataclass(frozen=True, slots=True)
class RackTrade(TieBreaker):
    """A partition consumed from another rack costs as much as so many that move; the sum is the least.

    `moves_per_miss` is a number from 0 on, of a ratio that `Fraction` can hold with numbers up to 10,000
    (`InvalidTradeError`, a ValueError). At 0 racks decide only between assignments that move as few, and at
    infinity movement only between those with as few misses. It takes the place of both `movement` and
    `racks`.
    """

    moves_per_miss: Fraction | float

    kind = "trade"

    def __post_init__(self) -> None:
        number = exact(self.moves_per_miss)  # equal trades are equal values, and have equal digests
        object.__setattr__(self, "moves_per_miss", math.inf if number is None else number)

    def criteria(self) -> Criteria:
        """The trade between the two."""
        return traded(self.moves_per_miss)[1:]
