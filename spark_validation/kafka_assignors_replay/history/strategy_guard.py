"""A time limit for a strategy of a user that does not end.

A signal interrupts code that does not end. Its handler runs in the main thread of a process and between two
instructions of Python: code in C runs to its end first. One thread that looks at the clock serves all calls,
because a replay makes so many that a timer for each costs a twentieth of its time.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

Result = TypeVar("Result")

_TICK_S = 1.0
"""A strategy is interrupted at most this long after its limit, and again if it suppresses the exception."""

_MOST_CHARACTERS = 500
"""The most characters of the text of one failure."""


class StrategyTimeout(BaseException):
    """A strategy took longer than its limit. Not an `Exception`, since strategies may suppress those."""


class StrategyGuard:
    """Runs strategies: `limit_s` is the longest time for one rebalance in seconds, None for no limit."""

    def __init__(self, limit_s: float | None = None) -> None:
        self.limit_s = limit_s
        self._deadline = math.inf

    @contextmanager
    def watching(self) -> Iterator[None]:
        """In this context `run` limits the time of a strategy, in the main thread of a system with signals
        for threads."""
        limit_s, thread, over = self.limit_s, threading.get_ident(), threading.Event()
        is_main = thread == threading.main_thread().ident
        if limit_s is None or not is_main or not hasattr(signal, "pthread_kill"):
            yield
            return

        def interrupt(number: int, frame: FrameType | None) -> None:
            if time.monotonic() >= self._deadline and _within_run(frame):
                raise StrategyTimeout(f"no assignment within {limit_s:g} s")

        def watch() -> None:
            while not over.wait(min(limit_s / 2, _TICK_S)):
                if time.monotonic() >= self._deadline:
                    signal.pthread_kill(thread, signal.SIGURG)

        # No program needs SIGURG, which is ignored by default; SIGALRM may be that of a timer of the program.
        handler = signal.signal(signal.SIGURG, interrupt)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()
            signal.signal(signal.SIGURG, handler)

    def run(self, call: Callable[[], Result]) -> Result:
        """The result of `call`, which runs the strategy; `StrategyTimeout` if it takes too long."""
        try:
            if self.limit_s is not None:
                self._deadline = time.monotonic() + self.limit_s
            return call()
        finally:
            self._deadline = math.inf


def _within_run(frame: FrameType | None) -> bool:
    """Whether a strategy runs in this frame: a signal may come right before or after it."""
    while frame is not None and frame.f_code is not StrategyGuard.run.__code__:
        frame = frame.f_back
    return frame is not None


def failure_text(error: BaseException) -> str:
    """The failure of a strategy in one bounded line; raises `KeyboardInterrupt`, which is the user's."""
    if isinstance(error, KeyboardInterrupt):
        raise error
    try:
        text = " ".join(str(error).split())
    except Exception as unreadable:
        text = f"its text raises {type(unreadable).__name__}"
    if isinstance(error, SystemExit):
        text = f"the strategy asked to end the process, with {text or 'no code'}"
    shown = f"{text[:_MOST_CHARACTERS]}…" if len(text) > _MOST_CHARACTERS else text
    return f"{type(error).__name__}: {shown}"
