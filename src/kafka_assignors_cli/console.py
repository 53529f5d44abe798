"""Where a command writes: data to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from kafka_assignors_cli.errors import CannotRun, PipeClosed
from kafka_assignors_cli.fitted import FittedTable

__all__ = ["ProgressReport", "emit", "emit_renderable", "flush", "note", "printable", "stdout_failed"]

PLAIN_INTERVAL_S = 5.0
"""Without a terminal, one line of progress at most this often."""

_PLAIN_WIDTH = 120
"""Of lines of words where there is no terminal. Tables are as wide as they need."""


def emit(text: str) -> None:
    """Write `text` and a newline to stdout."""
    with _stdout_errors():
        sys.stdout.write(text + "\n")


def flush() -> None:
    """Write out what stdout still holds back."""
    with _stdout_errors():
        sys.stdout.flush()


@contextlib.contextmanager
def _stdout_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise stdout_failed(error) from None


def stdout_failed(error: OSError) -> CannotRun | PipeClosed:
    """What to raise after `error` in writing to stdout, which nothing can be written to any more."""
    # Python would try to flush stdout once more when it exits, and complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return PipeClosed()
    return CannotRun(f"cannot write to stdout: {error.strerror}")


def emit_renderable(*renderables: RenderableType) -> None:
    """Write tables and the like to stdout: coloured on a terminal, plain elsewhere, as wide as they need
    there.
    """
    console = Console(file=sys.stdout)
    if not console.is_terminal:
        tables = (each.natural_width for each in renderables if isinstance(each, FittedTable))
        console = Console(file=sys.stdout, width=max((_PLAIN_WIDTH, *tables)), color_system=None)
    with console.capture() as capture:
        for renderable in renderables:
            console.print(renderable)
    text = capture.get()
    emit(
        "\n".join(line.rstrip() for line in text.rstrip("\n").split("\n"))
        if not console.is_terminal
        else text
    )


def printable(text: str) -> str:
    """`text` without what could steer a terminal: names of groups and the like are anybody's."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def note(message: str) -> None:
    """One line for the person at the terminal, not part of the data."""
    print(f"kafka-assignors: {printable(message)}", file=sys.stderr, flush=True)


class ProgressReport:
    """How far a command has come, on stderr, once it has run for `delay_s`.

    A bar on a terminal, a plain line every `line_interval_s` elsewhere. `update` may be called as often as
    one likes, from one thread.
    """

    def __init__(
        self, description: str, *, delay_s: float = 2.0, line_interval_s: float | None = None
    ) -> None:
        self._phase = description
        self._line_interval_s = PLAIN_INTERVAL_S if line_interval_s is None else line_interval_s
        self._done, self._total, self._detail = 0, 0, ""
        self._lock = threading.Lock()
        self._bar: Progress | None = None
        self._next_line_s = 0.0
        self._started = self._closed = False
        self._start_later = threading.Timer(delay_s, self._start)
        self._start_later.daemon = True

    def __enter__(self) -> ProgressReport:
        self._start_later.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Show nothing any more; what is there vanishes."""
        self._start_later.cancel()
        with self._lock:
            self._started = False
            self._closed = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def update(self, phase: str, done: int = 0, total: int = 0, detail: str = "") -> None:
        """`done` of `total` steps of `phase` are done; `total` is 0 where it is not known.

        `detail` follows the count. Unlike a new phase, a new detail waits for its turn.
        """
        with self._lock:
            if phase != self._phase:
                self._next_line_s = 0.0
            self._phase, self._done, self._total, self._detail = phase, done, total, detail
            self._show()

    def _start(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._started = True
            if sys.stderr.isatty():
                columns = (
                    SpinnerColumn(),
                    TextColumn("{task.description}", markup=False),
                    BarColumn(),
                    MofNCompleteColumn(),
                    TimeElapsedColumn(),
                )
                bar = Progress(
                    *columns,
                    console=Console(stderr=True),
                    transient=True,
                    # Otherwise stdout is ours no more while the bar shows, and data goes to the terminal.
                    redirect_stdout=False,
                    redirect_stderr=False,
                )
                bar.add_task(self._phase, total=None)
                bar.start()
                self._bar = bar
            self._show()

    def _show(self) -> None:
        if not self._started:
            return
        if self._bar is not None:
            task = self._bar.task_ids[0]
            description = f"{self._phase}{self._detail}"
            self._bar.update(task, description=description, completed=self._done, total=self._total or None)
        elif (now := time.monotonic()) >= self._next_line_s:
            self._next_line_s = now + self._line_interval_s
            count = (
                f" {self._done} of {self._total}" if self._total else f" {self._done}" if self._done else ""
            )
            note(f"{self._phase}{count}{self._detail} …")
