"""The values of a proof: a certificate that no assignment is better, or an improvement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from kafka_assignors.criteria import Criteria
from kafka_assignors.scale import PLAIN, Scale

__all__ = ["Certificate", "Improvement", "Price", "Step"]


Price = tuple[int | Fraction, ...]
"""A number for each criterion, compared like words in a dictionary; whole if all capacities are 1."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """That an assignment is the best by these criteria: the prices of all members that can get anything.

    `scale` is what balance is measured by.
    """

    criteria: Criteria
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

    criteria: Criteria
    steps: tuple[Step, ...]
    change: Price
