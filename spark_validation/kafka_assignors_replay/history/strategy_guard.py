"""A strategy of a user that does not end, or ends its process: a time limit, and a note that names it.

A signal (`signal.setitimer`) interrupts code that does not end. Signals arrive in the main thread of a
process and between two instructions of Python: code in C runs to its end first. One timer that ticks serves
all calls, because a replay makes so many that a timer for each costs a twentieth of its time. A process that
ends leaves a note about the strategy that ran in it.
"""

from __future__ import annotations

import math
import mmap
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import TypeVar

from kafka_assignors.group import quoted

Result = TypeVar("Result")

_TICK_S = 1.0
"""A strategy is interrupted at most this long after its limit, and again if it suppresses the exception."""

_MOST_CHARACTERS = 500
"""The most characters of the text of one failure."""

_NOTE_BYTES = 1024


class StrategyTimeout(BaseException):
    """A strategy took longer than its limit. Not an `Exception`, since strategies may suppress those."""


class StrategyGuard:
    """Runs strategies: `limit_s` is the longest time for one rebalance in seconds, None for no limit.

    `notes` is a folder in which each process notes the strategy that it runs; None for no notes. On a machine
    without the folder there are no notes. A note is written to memory that is mapped to a file, because a
    replay writes one for each strategy in each rebalance; a zero byte ends it. A guard that is sent to
    another process opens a file of its own.
    """

    def __init__(self, limit_s: float | None = None, notes: str | None = None) -> None:
        self.limit_s, self.notes = limit_s, notes
        self._note: mmap.mmap | None = None
        self._may_note = notes is not None
        self._deadline = math.inf

    def __reduce__(self) -> tuple[object, ...]:
        return StrategyGuard, (self.limit_s, self.notes)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """In this context `run` limits the time of a strategy, in the main thread of a system with timers.

        If the program has a timer of its own, its alarm still comes within a tick of its time. From then on
        there is no limit.
        """
        limit_s = self.limit_s
        main = threading.current_thread() is threading.main_thread()
        if limit_s is None or not main or not hasattr(signal, "setitimer"):
            yield
            return
        left_s, interval_s = signal.getitimer(signal.ITIMER_REAL)
        their_alarm = time.monotonic() + left_s if left_s else math.inf

        def tick(number: int, frame: FrameType | None) -> None:
            now = time.monotonic()
            if now >= their_alarm:
                restore()
            elif now >= self._deadline and _within_run(frame):
                raise StrategyTimeout(f"no assignment within {limit_s:g} s")

        def restore() -> None:
            if signal.getsignal(signal.SIGALRM) is tick:
                due_in_s = 0 if their_alarm == math.inf else max(their_alarm - time.monotonic(), 0.001)
                signal.setitimer(signal.ITIMER_REAL, due_in_s, interval_s)
                signal.signal(signal.SIGALRM, their_handler)

        their_handler = signal.signal(signal.SIGALRM, tick)
        try:
            tick_s = min(limit_s / 2, _TICK_S)
            signal.setitimer(signal.ITIMER_REAL, tick_s, tick_s)
            yield
        finally:
            restore()

    def run(self, strategy: str, group: str, offset: int, call: Callable[[], Result]) -> Result:
        """The result of `call`, which runs the strategy; `StrategyTimeout` if it takes too long."""
        note = self._opened()
        try:
            if note is not None:
                line = _note(strategy, group) + b"%d\0" % offset
                note[: len(line)] = line
            if self.limit_s is not None:
                self._deadline = time.monotonic() + self.limit_s
            return call()
        finally:
            self._deadline = math.inf
            if note is not None:
                note[0] = 0

    def forget(self, process: int | None) -> None:
        """Drop the note of a process, which was ended by another one."""
        if self.notes is not None:
            Path(self.notes, str(process)).unlink(missing_ok=True)

    def _opened(self) -> mmap.mmap | None:
        if self._note is None and self._may_note:
            try:
                with open(f"{self.notes}/{os.getpid()}", "w+b", buffering=0) as file:
                    # Reserves the space: a full disk is an error here, not at a later write to the map.
                    file.write(bytes(_NOTE_BYTES))
                    self._note = mmap.mmap(file.fileno(), _NOTE_BYTES)
            except (OSError, ValueError):
                self._may_note = False
        return self._note


@lru_cache(maxsize=64)
def _note(strategy: str, group: str) -> bytes:
    text = f"strategy {quoted(strategy)}, group {quoted(group)}, offset "
    return text.encode(errors="replace")[: _NOTE_BYTES - 32]


def _within_run(frame: FrameType | None) -> bool:
    """Whether a strategy runs in this frame: an alarm may come right before or after it."""
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


def ended_in(notes: str) -> str | None:
    """The strategies that ran in processes which ended before the strategies did; None if there are none."""
    ended = [note for note in sorted(Path(notes).iterdir()) if not _runs(int(note.name))]
    texts = [note.read_bytes().partition(b"\0")[0].decode(errors="replace") for note in ended]
    return "; ".join(filter(None, texts)) or None


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
        # A process that ended exists until its parent has asked for its exit code (proc(5): state Z).
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return state.rpartition(")")[2].split()[0] not in "ZX"
