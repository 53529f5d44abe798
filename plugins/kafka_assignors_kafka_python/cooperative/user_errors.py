"""Errors that happen on the I/O thread and that the user has to hear of: `poll` raises them."""

from __future__ import annotations

import copy
import enum
from collections.abc import Callable
from typing import Any

from kafka.future import Future


class Source(enum.Enum):
    """What an error comes from. Of each there is one error at most that waits to be raised, the last."""

    JOIN = "joins"
    HEARTBEAT = "heartbeats"
    METADATA = "metadata"


class ErrorsOfUser:
    """The errors that wait for the user. Each is raised once, but a fatal one in every poll."""

    def __init__(self, wake: Callable[[], None], start: Callable[..., Any]) -> None:
        """`wake` has the user's thread look; `start` runs a function on the I/O thread."""
        self._wake = wake
        self._start = start
        self._waiting: dict[Source, tuple[Exception, Any]] = {}
        self._fatal: Exception | None = None
        self._is_closing = False

    def raise_in_poll(self, error: Exception, source: Source = Source.JOIN) -> Any:
        """Raise it in the poll that waits, or else in the next. Returns a future: done once it was raised.

        Until then the user may not have had a chance to mend what is wrong. An error of the same source that
        has not been raised is out of date: this one takes its place.
        """
        _, raised = self._waiting.pop(source, (None, None))
        raised = raised or Future()
        if self._is_closing:
            return raised.success(None)
        self._waiting[source] = (error, raised)
        self._wake()
        return raised

    def withdraw(self, source: Source) -> None:
        """All is well there again: what has not been raised is not raised any more. On the I/O thread."""
        _, raised = self._waiting.pop(source, (None, None))
        if raised is not None:
            raised.success(None)

    def expect_no_poll(self) -> None:
        """The consumer is being closed: nothing has to wait for the user. On the I/O thread."""
        self._is_closing = True
        for source in Source:
            self.withdraw(source)

    def raise_for_ever(self, error: Exception) -> None:
        """The consumer cannot go on."""
        self._fatal = error
        self._wake()

    def raise_next(self) -> None:
        """Raise the oldest error that waits. On the user's thread."""
        if self._fatal is not None:
            raise copy.copy(self._fatal)
        for source in tuple(self._waiting):
            waiting = self._waiting.pop(source, None)
            if waiting is not None:  # The I/O thread may have been faster.
                error, raised = waiting
                self._start(raised.success, None)
                raise error
