"""Wishes: what decides between balanced assignments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from kafka_assignors.criteria import Criteria, Criterion, exact, traded
from kafka_assignors.strategies.rules.base import Place

__all__ = ["FewestMoves", "FewestRackMisses", "RackTrade"]


@dataclass(frozen=True, slots=True)
class FewestMoves:
    """As few partitions as possible change hands between live members."""

    kind: ClassVar[str] = "movement"
    place: ClassVar[Place] = Place.WISH
    criteria: ClassVar[Criteria] = (Criterion.MOVEMENT,)


@dataclass(frozen=True, slots=True)
class FewestRackMisses:
    """As few partitions as possible are consumed from another rack (KIP-881)."""

    kind: ClassVar[str] = "racks"
    place: ClassVar[Place] = Place.WISH
    criteria: ClassVar[Criteria] = (Criterion.RACKS,)


@dataclass(frozen=True, slots=True)
class RackTrade:
    """A partition consumed from another rack costs as much as so many that move; the sum is the least.

    `moves_per_miss` is a number from 0 on, of a ratio that `Fraction` can hold with numbers up to 10,000
    (`InvalidTradeError`, a ValueError). At 0 racks decide only between assignments that move as few, and at
    infinity movement only between those with as few misses. It takes the place of both `movement` and
    `racks`.
    """

    moves_per_miss: Fraction | float

    kind: ClassVar[str] = "trade"
    place: ClassVar[Place] = Place.WISH

    def __post_init__(self) -> None:
        number = exact(self.moves_per_miss)  # equal trades are equal values, and have equal digests
        object.__setattr__(self, "moves_per_miss", math.inf if number is None else number)

    @property
    def criteria(self) -> Criteria:
        """The criteria after balance."""
        return traded(self.moves_per_miss)[1:]
