"""A strategy of a user that does not end, or ends its process: a time limit, and a note that names it.

A signal (`signal.setitimer`) interrupts code that does not end. Signals arrive in the main thread of a
process and between two instructions of Python: code in C runs to its end first. A process that ends leaves
a note about the strategy that ran in it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from kafka_assignors.group import quoted

__all__ = ["StrategyGuard", "StrategyTimeout", "ended_in", "failure_text"]

_AGAIN_S = 1.0
"""A strategy that suppresses the exception gets it again after this time."""

_MOST_CHARACTERS = 500
"""Of the text of one failure."""

_NOTE_BYTES = 1024


class StrategyTimeout(BaseException):
    """A strategy took longer than its limit. It is no `Exception`, which strategies may suppress."""


@dataclass(frozen=True, slots=True)
class StrategyGuard:
    """How strategies run: `limit_s` is the longest time for one rebalance in seconds, None for no limit.

    `notes` is a folder in which each process says which strategy it runs; None for no notes. There are none
    where the folder does not exist, on another machine.
    """

    limit_s: float | None = None
    notes: str | None = None

    @contextlib.contextmanager
    def running(self, strategy: str, group: str, offset: int) -> Iterator[None]:
        """Run the block within the limit. `StrategyTimeout` if it takes longer."""
        with self._noted(strategy, group, offset), _limited(self.limit_s):
            yield

    @contextlib.contextmanager
    def _noted(self, strategy: str, group: str, offset: int) -> Iterator[None]:
        try:
            flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
            note = None if self.notes is None else os.open(f"{self.notes}/{os.getpid()}", flags, 0o600)
        except OSError:
            note = None
        if note is None:
            yield
            return
        try:
            text = f"strategy {quoted(strategy)}, group {quoted(group)}, offset {offset}"
            os.write(note, text.encode(errors="replace")[:_NOTE_BYTES])
            yield
        finally:
            os.ftruncate(note, 0)
            os.close(note)


@contextlib.contextmanager
def _limited(limit_s: float | None) -> Iterator[None]:
    if limit_s is None or not _gets_signals():
        yield
        return
    started, theirs = time.monotonic(), signal.getitimer(signal.ITIMER_REAL)
    if 0 < theirs[0] <= limit_s:  # the alarm that the program asked for comes first
        yield
        return
    active = True

    def interrupt(number: int, frame: FrameType | None) -> None:
        if active:
            raise StrategyTimeout(f"no assignment within {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s, _AGAIN_S)
        yield
    finally:
        active = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if theirs[0]:
            left = theirs[0] - (time.monotonic() - started)
            signal.setitimer(signal.ITIMER_REAL, max(left, 0.001), theirs[1])


def _gets_signals() -> bool:
    """Whether this is a thread, on a system, that a timer interrupts."""
    return threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")


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
    texts = [note.read_text(encoding="utf-8", errors="replace") for note in ended]
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
