"""`priority`: as `cooperative-sticky`, but what matters most is level by itself.

The name is our own. Members need the same classes; whose are others is named in the leader's log.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafka_assignors.strategies.rules import (
    Composed,
    FewestMoves,
    FewestRackMisses,
    LevelByPriority,
)

__all__ = ["Priority"]


class Priority(Composed):
    """Topics in classes: the first is balanced by itself, then the next on top of it, the rest last."""

    __slots__ = ()

    def __init__(self, first: Iterable[Iterable[str | tuple[str, Iterable[int]]]] = ()) -> None:
        """`first` are the classes, the most important first: `[["alerts"], ["orders", ("pays", [0, 1])]]`.

        Without any it does the same as `cooperative-sticky`, and the leader's log says that nothing comes
        first. Raises as `LevelByPriority` does.
        """
        super().__init__("priority", (LevelByPriority(first), FewestMoves(), FewestRackMisses()))
