"""What a partition costs at a member, once balance is decided: moving, and consuming across racks.

The criteria after balance are compared in their order. They become one integer: each criterion gets a weight
that all units of the lesser ones together cannot reach.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_assignors.criteria import AnyCriterion, Criterion

__all__ = ["Costs"]


@dataclass(frozen=True, slots=True)
class Costs:
    """The price of one partition that moves, and of one that is consumed across racks."""

    move: int
    miss: int

    @classmethod
    def of(cls, criteria: Iterable[AnyCriterion], partitions: int) -> Costs:
        """Weights for a group with this many partitions.

        Movement is the last criterion where it is not among them, so that two leaders do not undo each
        other's work.
        """
        move = miss = 0
        weight = 1
        for criterion in reversed(dict.fromkeys((*criteria, Criterion.MOVEMENT))):
            move += weight * criterion.count(1, 0)
            miss += weight * criterion.count(0, 1)
            weight *= partitions * criterion.count(1, 1) + 1
        return cls(move, miss)
