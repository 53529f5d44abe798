"""`standby`: as `cooperative-sticky`, but for members that take over only where active ones are missing.

The name is our own, as are the bytes that members announce `standby` with.
"""

from __future__ import annotations

from kafka_assignors.member_facts import Facts
from kafka_assignors.strategies.rules import (
    Composed,
    FewestMoves,
    FewestRackMisses,
    LevelPartitions,
    StandbyLast,
)

__all__ = ["Standby"]


class Standby(Composed):
    """Exactly balanced among active members; standby members take over where those are missing."""

    __slots__ = ()

    def __init__(self, *, standby: bool = False, active_at_least: int = 1) -> None:
        """`standby`: this member is one. `active_at_least`: so many members of each topic are active, if need
        be standby ones; all members of a group need the same (ValueError if it is less than 1).
        """
        rules = (StandbyLast(active_at_least), LevelPartitions(), FewestMoves(), FewestRackMisses())
        super().__init__("standby", rules, Facts(standby=standby))
