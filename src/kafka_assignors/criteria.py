"""The criteria of the best assignment, in order of importance: one tuple for strategy and solver.

Balance comes first. After it come movement and racks: either in an order, where no gain in the second
outweighs one unit of the first, or traded, where one rack miss is worth a given number of moves (`traded`).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

MOST_IN_TRADE = 10_000
"""The greatest numerator and denominator of a trade. Costs along a path of members stay far below 2^62."""


class InvalidTradeError(ValueError):
    """The number of moves per rack miss is not usable: the message says which numbers are."""


class Criterion(enum.Enum):
    """A quantity that the best assignment minimises."""

    BALANCE = "balance"
    """The sum of the squared loads, a load being the number of partitions of a member.

    Where the strategy has a scale (`Strategy.balance_scale`) each square is divided by the capacity of the
    member.
    """

    MOVEMENT = "movement"
    """Partitions that go to another member although their owner, by the judged claims, is in the group."""

    RACKS = "racks"
    """Partitions consumed by a member in whose rack none of their replicas is (KIP-881).

    A member without a rack matches every partition, and a partition without known racks every member.
    """

    def count(self, moves: int, misses: int) -> int:
        """The value of the criterion for this many moves and rack misses."""
        return moves if self is Criterion.MOVEMENT else misses if self is Criterion.RACKS else 0


@dataclass(frozen=True, slots=True)
class Trade:
    """A criterion made of two: `misses` rack misses weigh as much as `moves` moves.

    So a miss counts `moves`, a move counts `misses`, and the sum is minimised. Both are positive and have no
    common divisor. `value` is the text form, as `Criterion.value` is: `trade=3`, `trade=3/2`.
    """

    moves: int
    misses: int

    @property
    def value(self) -> str:
        return f"trade={Fraction(self.moves, self.misses)}"

    def count(self, moves: int, misses: int) -> int:
        """The value of the criterion for this many moves and rack misses."""
        return self.misses * moves + self.moves * misses


AnyCriterion = Criterion | Trade
"""Every kind of criterion."""

Criteria = tuple[AnyCriterion, ...]
"""Criteria of a strategy, the one that matters most first."""

FEWEST_MOVES: Criteria = (Criterion.BALANCE, Criterion.MOVEMENT)
MOVES_THEN_RACKS: Criteria = (Criterion.BALANCE, Criterion.MOVEMENT, Criterion.RACKS)
RACKS_THEN_MOVES: Criteria = (Criterion.BALANCE, Criterion.RACKS, Criterion.MOVEMENT)


def traded(moves_per_miss: Fraction | float) -> Criteria:
    """The criteria if, after balance, one rack miss is worth this many moves.

    At 0, racks decide only between assignments with equally few moves; at infinity, movement decides only
    between those with equally few misses. In between, the weighted sum is minimised, and of assignments with
    the same sum the one with the fewest moves is better: so a group at rest stays at rest.

    A float counts as its decimal notation: 0.1 is 1/10. Raises `InvalidTradeError` for a number below 0, for
    one that is not a ratio of numbers up to `MOST_IN_TRADE`, and for another type.
    """
    number = exact(moves_per_miss)
    if number is None:
        return RACKS_THEN_MOVES
    if not number:
        return MOVES_THEN_RACKS
    trade = Trade(moves=number.numerator, misses=number.denominator)
    return Criterion.BALANCE, trade, Criterion.MOVEMENT


def racks_outweigh_moves(criteria: Iterable[AnyCriterion]) -> bool:
    """Whether members of a group at rest pass partitions on because replicas have moved.

    A partition that moves saves one miss at most, so a miss has to count more than a move.
    """
    counts = [(each.count(0, 1), each.count(1, 0)) for each in criteria]
    return [miss for miss, _ in counts] > [move for _, move in counts]


def exact(moves_per_miss: Fraction | float) -> Fraction | None:
    """The number as a fraction; None for infinity. Raises `InvalidTradeError`."""
    if isinstance(moves_per_miss, bool) or not isinstance(moves_per_miss, (int, float, Fraction)):
        raise InvalidTradeError(f"moves per rack miss are a number, not {moves_per_miss!r:.100}")
    if isinstance(moves_per_miss, float) and math.isinf(moves_per_miss) and moves_per_miss > 0:
        return None
    if not moves_per_miss >= 0:
        raise InvalidTradeError(f"moves per rack miss are 0 or more, not {moves_per_miss!r:.100}")
    # 0.1 means 1/10, not the binary fraction next to it.
    number = Fraction(repr(moves_per_miss)) if isinstance(moves_per_miss, float) else Fraction(moves_per_miss)
    if max(number.numerator, number.denominator) > MOST_IN_TRADE:
        raise InvalidTradeError(
            f"moves per rack miss are a ratio of numbers up to {MOST_IN_TRADE}, not {moves_per_miss!r:.100}: "
            "for racks first, at any number of moves, give infinity"
        )
    return number


def require_criteria(criteria: Sequence[AnyCriterion]) -> Criteria:
    """The criteria themselves; ValueError unless balance comes first and none comes twice."""
    criteria = tuple(criteria)
    if criteria[:1] != (Criterion.BALANCE,) or len(set(criteria)) < len(criteria):
        named = ", ".join(criterion.value for criterion in criteria)
        raise ValueError(
            f"criteria must begin with balance and name each other one once at most, not: {named}"
        )
    return criteria


class InvalidScaleError(ValueError):
    """A capacity or an earlier load is not a valid number: the message names the member."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How balance measures loads where members differ: their capacity, and the partitions they have already.

    A member with L partitions counts (L + already)² / capacity. `capacities` are positive integers, of which
    only ratios matter. `already` counts partitions that this assignment does not assign. Both are by member
    id; the default is a capacity of 1 and no partitions already, and other ids are ignored.

    Raises `InvalidScaleError` for a capacity that is not a positive integer, or an `already` that is not an
    integer of at least 0.
    """

    capacities: Mapping[str, int] = field(default_factory=dict[str, int])
    already: Mapping[str, int] = field(default_factory=dict[str, int])

    def __post_init__(self) -> None:
        for member_id, capacity in self.capacities.items():
            if type(capacity) is not int or capacity < 1:
                raise InvalidScaleError(
                    f"the capacity of member {member_id!r} is {capacity!r}, not a positive whole number"
                )
        for member_id, load in self.already.items():
            if type(load) is not int or load < 0:
                raise InvalidScaleError(
                    f"member {member_id!r} has {load!r} partitions already, which is no number of partitions"
                )

    def capacity(self, member_id: str) -> int:
        """The capacity of the member, relative to the others."""
        return self.capacities.get(member_id, 1)

    def has_already(self, member_id: str) -> int:
        """How many partitions the member has before any are assigned."""
        return self.already.get(member_id, 0)


PLAIN = Scale()
"""All members are alike: balance is the sum of the squared loads."""
