"""How far an archive is behind its topic."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["Lag"]

_MOST_LOOKS = 1_000


class Lag:
    """The lag in offsets, which is None before the first look, and in seconds.

    The archive has what was in the topic at the time of the latest look whose end it has reached.
    """

    def __init__(self) -> None:
        self.offsets: int | None = None
        self.seconds = 0.0
        self._ahead: list[tuple[float, Mapping[int, int]]] = []

    def look(self, ends: Mapping[int, int], next_: Mapping[int, int], now: float) -> None:
        """The topic ends at `ends` now, a time in seconds, and the archive at `next_`."""
        self._ahead.append((now, ends))
        while self._ahead and all(next_[partition] >= end for partition, end in self._ahead[0][1].items()):
            del self._ahead[0]
        if len(self._ahead) > _MOST_LOOKS:
            # A backlog of days: the oldest stays, and the others become fewer.
            self._ahead = self._ahead[::2]
        self.offsets = sum(max(0, end - next_[partition]) for partition, end in ends.items())
        self.seconds = now - self._ahead[0][0] if self._ahead else 0.0
