"""Tie-breakers: criteria that decide between balanced assignments."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from kafka_assignors.criteria import Criteria, Criterion, exact, traded
from kafka_assignors.strategies.rules.base import TieBreaker

__all__ = ["FewestMoves", "FewestRackMisses", "RackTrade"]


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
