"""Troubles of a cluster that is asked again and again: each is told once."""

from __future__ import annotations

import re
from collections.abc import Callable

from kafka_assignors_confluent.connection import UnreachableError

_QUOTED_OR_FIGURES = re.compile(r"'[^']*'|[0-9]+")

_MOST_KINDS = 20
"""The most kinds of trouble that are told until `clear`."""


class Troubles:
    """Passes each kind of trouble to `tell` once, until `clear`.

    Troubles alternate, and the text of one trouble varies. All errors that mean that no broker answers are
    one kind. Other errors are one kind if their texts differ only in figures outside quotes. At most 20 kinds
    are told.
    """

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def add(self, error: Exception, then: str) -> None:
        """Tell the error, and what happens `then`, if no error of its kind was told since `clear`."""
        kind = _kind(error)
        if kind not in self._told and len(self._told) < _MOST_KINDS:
            self._told.add(kind)
            self._tell(f"{error}; {then}")

    def clear(self) -> bool:
        """All is well: tell each kind again from now on. Returns whether any trouble was told."""
        told, self._told = bool(self._told), set()
        return told


def _kind(error: Exception) -> str:
    if isinstance(error, UnreachableError):
        return "no answer"
    return _QUOTED_OR_FIGURES.sub(lambda found: found[0] if found[0][0] == "'" else "0", str(error))
