"""What a partition costs at a member, once balance is decided: moving, and consuming across racks.

The two wishes are either lexicographic, so that no number of the one outweighs a single unit of the other, or
traded: one rack miss is worth so many moves. Both become one integer. Where they are lexicographic, the
greater wish gets a weight that all units of the lesser together cannot reach. Where they are traded, the
price of both gets such a weight, and of assignments with the same price the one that moves the fewest is
better: a group at rest then has no equal, and stays at rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

__all__ = ["MOST_IN_TRADE", "Costs", "InvalidTradeError", "RackPreference"]

MOST_IN_TRADE = 10_000
"""The greatest numerator and denominator of a trade. Costs along a path of members stay far below 2^62."""


class InvalidTradeError(ValueError):
    """Moves and rack misses cannot be weighed like this: the message says what would do."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The price of one partition that moves, and of one that is consumed across racks."""

    move: int
    miss: int

    @classmethod
    def of(cls, racks: RackPreference, partitions: int) -> Costs:
        """Weights for a group with so many partitions."""
        if racks.trade is not None:
            return cls(
                move=racks.trade.move * (partitions + 1) + 1,
                miss=racks.trade.miss * (partitions + 1),
            )
        if racks == RackPreference.AFTER_MOVEMENT:
            return cls(move=partitions + 1, miss=1)
        if racks == RackPreference.BEFORE_MOVEMENT:
            return cls(move=1, miss=partitions + 1)
        return cls(move=1, miss=0)


@dataclass(frozen=True, slots=True)
class RackPreference:
    """How much it matters that a member consumes from a replica in its own rack (KIP-881).

    A member without a rack always matches, and so does a partition whose replicas' racks are unknown. A
    member with a rack matches a partition if at least one replica is in that rack.

    There are three orders, below, and trades between the two wishes, which `trading` makes: `trade` has what
    each costs then, and is None otherwise.
    """

    name: str
    trade: Costs | None = None

    NONE: ClassVar[RackPreference]
    """Racks are not looked at."""

    AFTER_MOVEMENT: ClassVar[RackPreference]
    """Of the assignments that move the fewest partitions, one with the fewest rack misses."""

    BEFORE_MOVEMENT: ClassVar[RackPreference]
    """The fewest rack misses, and of these assignments one that moves the fewest partitions."""

    @classmethod
    def trading(cls, moves_per_miss: Fraction | float) -> RackPreference:
        """One rack miss costs as much as so many moves, and the sum is to be the least.

        Nought is `AFTER_MOVEMENT` and infinity `BEFORE_MOVEMENT`, which are the limits. A float is taken as
        the decimal number that it is written as. Raises `InvalidTradeError` for what is no number from
        nought on, or has more digits than anybody can mean.
        """
        number = exact(moves_per_miss)
        if number is None:
            return cls.BEFORE_MOVEMENT
        if not number:
            return cls.AFTER_MOVEMENT
        return cls(f"trade {number}", Costs(move=number.denominator, miss=number.numerator))

    @property
    def moves_at_rest(self) -> bool:
        """Whether members of a group at rest would pass partitions on because replicas have moved.

        A partition that moves saves one miss at most, so it takes a miss that is worth more than a move.
        """
        if self.trade is not None:
            return self.trade.miss > self.trade.move
        return self == RackPreference.BEFORE_MOVEMENT


RackPreference.NONE = RackPreference("none")
RackPreference.AFTER_MOVEMENT = RackPreference("after-movement")
RackPreference.BEFORE_MOVEMENT = RackPreference("before-movement")


def exact(moves_per_miss: Fraction | float) -> Fraction | None:
    """The number as a fraction; None for infinity. Raises `InvalidTradeError`."""
    if isinstance(moves_per_miss, bool) or not isinstance(moves_per_miss, (int, float, Fraction)):
        raise InvalidTradeError(f"moves per rack miss are a number, not {moves_per_miss!r:.100}")
    if isinstance(moves_per_miss, float) and math.isinf(moves_per_miss) and moves_per_miss > 0:
        return None
    if not moves_per_miss >= 0:
        raise InvalidTradeError(f"moves per rack miss are 0 or more, not {moves_per_miss!r:.100}")
    # 0.1 means a tenth, and not the binary fraction next to it.
    number = Fraction(repr(moves_per_miss)) if isinstance(moves_per_miss, float) else Fraction(moves_per_miss)
    if max(number.numerator, number.denominator) > MOST_IN_TRADE:
        raise InvalidTradeError(
            f"moves per rack miss are a ratio of numbers up to {MOST_IN_TRADE}, not {moves_per_miss!r:.100}: "
            "for racks first, whatever moves, give infinity"
        )
    return number
