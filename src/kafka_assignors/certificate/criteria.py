"""What an assignment is judged by, and the values of a proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kafka_assignors.scale import PLAIN, Scale
from kafka_assignors.strategies.contract import Criterion, Optimal, Strategy

__all__ = ["Certificate", "Criterion", "Improvement", "Price", "Step", "criteria_of", "require_criteria"]


Price = tuple[int | Fraction, ...]
"""A number for each criterion, compared like words in a dictionary; whole if all capacities are 1."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """That an assignment is the best by these criteria: the prices of all members that can get anything.

    `scale` is what balance is measured by.
    """

    criteria: tuple[Criterion, ...]
    prices: Mapping[str, Price]
    scale: Scale = PLAIN


@dataclass(frozen=True, slots=True)
class Step:
    """A member passes one partition on to another."""

    topic: str
    partition: int
    giver: str
    taker: str

    def __str__(self) -> str:
        return f"{self.giver!r} gives {self.topic}-{self.partition} to {self.taker!r}"


@dataclass(frozen=True, slots=True)
class Improvement:
    """Why an assignment is not the best: taken together these steps make it better.

    `change` says by how much each of the criteria changes; the first that is not 0 is negative.
    """

    criteria: tuple[Criterion, ...]
    steps: tuple[Step, ...]
    change: Price


def require_criteria(criteria: Sequence[Criterion]) -> tuple[Criterion, ...]:
    """The criteria themselves; ValueError unless balance comes first and none comes twice."""
    criteria = tuple(criteria)
    if criteria[:1] != (Criterion.BALANCE,) or len(set(criteria)) < len(criteria):
        named = ", ".join(criterion.value for criterion in criteria)
        raise ValueError(
            f"criteria must begin with balance and name each other one once at most, not: {named}"
        )
    return criteria


def criteria_of(strategy: Strategy) -> tuple[Criterion, ...] | None:
    """By what a strategy promises that its assignments are the best; None if it promises nothing."""
    return require_criteria(strategy.criteria) if isinstance(strategy, Optimal) else None
