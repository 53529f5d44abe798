"""What an assignment is judged by, and the values of a proof."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from kafka_assignors.scale import PLAIN, Scale
from kafka_assignors.strategies.contract import AnyCriterion, Criterion, Optimal, Strategy, Trade

__all__ = [
    "AnyCriterion",
    "Certificate",
    "Criterion",
    "Improvement",
    "Price",
    "Step",
    "Trade",
    "criteria_of",
    "named_criterion",
    "require_criteria",
]

_TRADE = re.compile(r"trade=([1-9][0-9]{0,4})(?:/([1-9][0-9]{0,4}))?")


Price = tuple[int | Fraction, ...]
"""A number for each criterion, compared like words in a dictionary; whole if all capacities are 1."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """That an assignment is the best by these criteria: the prices of all members that can get anything.

    `scale` is what balance is measured by.
    """

    criteria: tuple[AnyCriterion, ...]
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

    criteria: tuple[AnyCriterion, ...]
    steps: tuple[Step, ...]
    change: Price


def named_criterion(name: object) -> AnyCriterion:
    """The criterion that is written so: `balance`, `movement`, `racks`, or `trade=3/2`; else ValueError."""
    if isinstance(name, str) and (match := _TRADE.fullmatch(name)):
        moves_per_miss = Fraction(int(match[1]), int(match[2] or 1))
        return Trade(moves=moves_per_miss.numerator, misses=moves_per_miss.denominator)
    try:
        return Criterion(name)
    except ValueError:
        known = ", ".join(criterion.value for criterion in Criterion)
        raise ValueError(
            f"{name!r:.100} is no criterion: they are {known}, and trade=3/2 or the like"
        ) from None


def require_criteria(criteria: Sequence[AnyCriterion]) -> tuple[AnyCriterion, ...]:
    """The criteria themselves; ValueError unless balance comes first and none comes twice."""
    criteria = tuple(criteria)
    if criteria[:1] != (Criterion.BALANCE,) or len(set(criteria)) < len(criteria):
        named = ", ".join(criterion.value for criterion in criteria)
        raise ValueError(
            f"criteria must begin with balance and name each other one once at most, not: {named}"
        )
    return criteria


def criteria_of(strategy: Strategy) -> tuple[AnyCriterion, ...] | None:
    """By what a strategy promises that its assignments are the best; None if it promises nothing."""
    return require_criteria(strategy.criteria) if isinstance(strategy, Optimal) else None
