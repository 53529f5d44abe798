"""Wishes: what decides between balanced assignments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from kafka_assignors.solver import RackPreference
from kafka_assignors.solver.costs import exact
from kafka_assignors.strategies.composition.rule import Place, Wish
from kafka_assignors.strategies.contract import AnyCriterion, Criterion, Trade

__all__ = ["FewestMoves", "FewestRackMisses", "RackTrade", "criteria_of_wishes", "rack_preference"]


@dataclass(frozen=True, slots=True)
class FewestMoves:
    """As few partitions as possible change hands between live members."""

    kind: ClassVar[str] = "movement"
    place: ClassVar[Place] = Place.WISH
    criterion: ClassVar[Criterion] = Criterion.MOVEMENT


@dataclass(frozen=True, slots=True)
class FewestRackMisses:
    """As few partitions as possible are consumed from another rack (KIP-881)."""

    kind: ClassVar[str] = "racks"
    place: ClassVar[Place] = Place.WISH
    criterion: ClassVar[Criterion] = Criterion.RACKS


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
    def preference(self) -> RackPreference:
        """What the solver is asked for."""
        return RackPreference.trading(self.moves_per_miss)

    @property
    def criteria(self) -> tuple[AnyCriterion, ...]:
        """What is to be as little as possible after balance, the greater wish first."""
        preference = self.preference
        if preference.trade is not None:
            trade = Trade(moves=preference.trade.miss, misses=preference.trade.move)
            return trade, Criterion.MOVEMENT
        if preference == RackPreference.BEFORE_MOVEMENT:
            return Criterion.RACKS, Criterion.MOVEMENT
        return Criterion.MOVEMENT, Criterion.RACKS

    @property
    def criterion(self) -> AnyCriterion:
        """The greater of its wishes."""
        return self.criteria[0]


def criteria_of_wishes(wishes: Sequence[Wish]) -> tuple[AnyCriterion, ...]:
    """What is to be as little as possible after balance by these wishes, and movement last in any case."""
    criteria: list[AnyCriterion] = []
    for wish in wishes:
        criteria += wish.criteria if isinstance(wish, RackTrade) else (wish.criterion,)
    return tuple(dict.fromkeys((*criteria, Criterion.MOVEMENT)))


def rack_preference(wishes: Sequence[Wish]) -> RackPreference:
    """What these wishes, in their order, come to for the solver.

    It always moves as little as the rest allows, so that two leaders do not undo each other's work.
    """
    for wish in wishes:
        if isinstance(wish, RackTrade):
            return wish.preference
        if wish.criterion is Criterion.RACKS:
            return RackPreference.BEFORE_MOVEMENT
        if wish.criterion is Criterion.MOVEMENT:
            break
    racks = any(wish.criterion is Criterion.RACKS for wish in wishes)
    return RackPreference.AFTER_MOVEMENT if racks else RackPreference.NONE
