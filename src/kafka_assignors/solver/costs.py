"""What a partition costs at a member, once balance is decided: moving, and consuming across racks.

The two wishes are lexicographic: no number of the one outweighs a single unit of the other. Both become one
integer by giving the greater wish a weight that all units of the lesser together cannot reach.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

__all__ = ["Costs", "RackPreference"]


class RackPreference(enum.Enum):
    """How much it matters that a member consumes from a replica in its own rack (KIP-881).

    A member without a rack always matches, and so does a partition whose replicas' racks are unknown. A
    member with a rack matches a partition if at least one replica is in that rack.
    """

    NONE = "none"
    """Racks are not looked at."""

    AFTER_MOVEMENT = "after-movement"
    """Of the assignments that move the fewest partitions, one with the fewest rack misses."""

    BEFORE_MOVEMENT = "before-movement"
    """The fewest rack misses, and of these assignments one that moves the fewest partitions."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The price of one partition that moves, and of one that is consumed across racks."""

    move: int
    miss: int

    @classmethod
    def of(cls, racks: RackPreference, partitions: int) -> Costs:
        """Weights for a group with so many partitions."""
        if racks is RackPreference.AFTER_MOVEMENT:
            return cls(move=partitions + 1, miss=1)
        if racks is RackPreference.BEFORE_MOVEMENT:
            return cls(move=1, miss=partitions + 1)
        return cls(move=1, miss=0)
