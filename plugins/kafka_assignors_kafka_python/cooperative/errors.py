"""Errors that happen on the I/O thread and that the user has to hear of: `poll` raises them."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any

from kafka.errors import KafkaError
from kafka.future import Future

__all__ = ["ErrorsOfUser"]


class ErrorsOfUser:
    """What is to be raised, each once, but for what is fatal: that is raised for ever."""

    def __init__(self, knock: Callable[[], None], start: Callable[..., Any]) -> None:
        """`knock` has the user's thread look; `start` runs a function on the I/O thread."""
        self._knock = knock
        self._start = start
        self._waiting: deque[tuple[KafkaError, Any]] = deque()
        self._fatal: KafkaError | None = None
        self._is_closing = False

    def raise_in_poll(self, error: KafkaError) -> Any:
        """Raise it in the poll that waits, or else in the next. Returns a future: done once it was raised.

        Until then the user may not have had a chance to mend what is wrong.
        """
        raised = Future()
        if self._is_closing:
            return raised.success(None)
        self._waiting.append((error, raised))
        self._knock()
        return raised

    def expect_no_poll(self) -> None:
        """The consumer is being closed: nobody has to wait for the user. On the I/O thread."""
        self._is_closing = True
        while self._waiting:
            _, raised = self._waiting.popleft()
            raised.success(None)

    def raise_for_ever(self, error: KafkaError) -> None:
        """The consumer cannot go on."""
        self._fatal = error
        self._knock()

    def raise_next(self) -> None:
        """Raise what is to be raised. On the user's thread."""
        if self._fatal is not None:
            raise copy.copy(self._fatal)
        if self._waiting:
            error, raised = self._waiting.popleft()
            self._start(raised.success, None)
            raise error
