"""Wishes: what decides between balanced assignments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kafka_assignors.solver import RackPreference
from kafka_assignors.strategies.composition.rule import Place, Wish
from kafka_assignors.strategies.contract import Criterion

__all__ = ["FewestMoves", "FewestRackMisses", "rack_preference"]


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


def rack_preference(wishes: Sequence[Wish]) -> RackPreference:
    """What these wishes, in their order, come to for the solver.

    It always moves as little as the rest allows, so that two leaders do not undo each other's work.
    """
    for wish in wishes:
        if wish.criterion is Criterion.RACKS:
            return RackPreference.BEFORE_MOVEMENT
        if wish.criterion is Criterion.MOVEMENT:
            break
    racks = any(wish.criterion is Criterion.RACKS for wish in wishes)
    return RackPreference.AFTER_MOVEMENT if racks else RackPreference.NONE
