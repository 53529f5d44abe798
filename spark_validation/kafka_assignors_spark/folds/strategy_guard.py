"""A strategy of a user that does not end, or ends its process: a time limit, and a note that names it.

A signal (`signal.setitimer`) interrupts code that does not end. Signals arrive in the main thread of a
process and between two instructions of Python: code in C runs to its end first. A process that ends leaves
a note about the strategy that ran in it.
"""

from __future__ import annotations

import mmap
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypeVar

from kafka_assignors.group import quoted

Result = TypeVar("Result")

_AGAIN_S = 1.0
"""A strategy that suppresses the exception gets it again after this time."""

_MOST_CHARACTERS = 500
"""Of the text of one failure."""

_NOTE_BYTES = 1024


class StrategyTimeout(BaseException):
    """A strategy took longer than its limit. It is no `Exception`, which strategies may suppress."""


class StrategyGuard:
    """How strategies run: `limit_s` is the longest time for one rebalance in seconds, None for no limit.

    `notes` is a folder in which each process says which strategy it runs; None for no notes. There are none
    where the folder does not exist, on another machine. A note is in memory that the process shares with a
    file, because a replay writes one for each strategy in each rebalance; a zero byte ends it. A guard that
    is sent to another process opens a file there.
    """

    def __init__(self, limit_s: float | None = None, notes: str | None = None) -> None:
        self.limit_s, self.notes = limit_s, notes
        self._note: mmap.mmap | None = None
        self._may_note = notes is not None

    def __reduce__(self) -> tuple[object, ...]:
        return StrategyGuard, (self.limit_s, self.notes)

    def run(self, strategy: str, group: str, offset: int, call: Callable[[], Result]) -> Result:
        """The result of `call`, which runs the strategy; `StrategyTimeout` if it takes too long."""
        note = self._opened()
        try:
            if note is not None:
                text = f"strategy {quoted(strategy)}, group {quoted(group)}, offset {offset}"
                line = text.encode(errors="replace")[: _NOTE_BYTES - 1]
                note[: len(line) + 1] = line + b"\0"
            return call() if self.limit_s is None else _limited(self.limit_s, call)
        finally:
            if note is not None:
                note[0] = 0

    def _opened(self) -> mmap.mmap | None:
        if self._note is None and self._may_note:
            try:
                with open(f"{self.notes}/{os.getpid()}", "w+b", buffering=0) as file:
                    # Bytes that are written have a place on the disk: a full disk is an error here, not later
                    file.write(bytes(_NOTE_BYTES))
                    self._note = mmap.mmap(file.fileno(), _NOTE_BYTES)
            except (OSError, ValueError):
                self._may_note = False
        return self._note


def _limited(limit_s: float, call: Callable[[], Result]) -> Result:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        return call()
    started, theirs = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    if 0 < theirs[0] <= limit_s:  # the alarm that the program asked for comes first
        return call()
    active = True

    def interrupt(number: int, frame: FrameType | None) -> None:
        if active:
            raise StrategyTimeout(f"no assignment within {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
        return call()
    finally:
        active = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if theirs[0]:
            left = theirs[0] - (time.monotonic() - started)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001), theirs[1])


def failure_text(error: BaseException) -> str:
    """The failure of a strategy in one bounded line; `KeyboardInterrupt` is raised, for it is the user's."""
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
