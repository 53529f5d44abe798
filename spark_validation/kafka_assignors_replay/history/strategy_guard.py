"""A strategy of a user that does not end, or ends its process: a time limit, and a note that names it.

A signal interrupts code that does not end. Its handler runs in the main thread of a process and between two
instructions of Python: code in C runs to its end first. One thread that looks at the clock serves all calls,
because a replay makes so many that a timer for each costs a twentieth of its time. A process that ends leaves
a note about the strategy that ran in it.
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
from functools import cached_property, lru_cache
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
        self._deadline = math.inf

    def __reduce__(self) -> tuple[object, ...]:
        return StrategyGuard, (self.limit_s, self.notes)

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

    def run(self, strategy: str, group: str, offset: int, call: Callable[[], Result]) -> Result:
        """The result of `call`, which runs the strategy; `StrategyTimeout` if it takes too long."""
        note = self._note
        try:
            if note is not None:
                line = _text(strategy, group) + b"%d\0" % offset
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

    @cached_property
    def _note(self) -> mmap.mmap | None:
        """The note of this process, if it can have one."""
        if self.notes is None:
            return None
        try:
            with open(f"{self.notes}/{os.getpid()}", "w+b", buffering=0) as file:
                # Reserves the space: a full disk is an error here, not at a later write to the map.
                file.write(bytes(_NOTE_BYTES))
                return mmap.mmap(file.fileno(), _NOTE_BYTES)
        except (OSError, ValueError):
            return None


@lru_cache(maxsize=64)
def _text(strategy: str, group: str) -> bytes:
    text = f"strategy {quoted(strategy)}, group {quoted(group)}, offset "
    return text.encode(errors="replace")[: _NOTE_BYTES - 32]


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
