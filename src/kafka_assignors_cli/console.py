"""Output of a command: data on stdout, the rest on stderr; exit codes, progress, tables."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from kafka_assignors.arguments import UserError
from kafka_assignors.group import shortened


class ExitCode(enum.IntEnum):
    """The exit code of the process."""

    OK = 0
    VERDICT_FAILED = 1
    """A check failed. Errors never end with 1."""
    CANNOT_RUN = 2
    """Bad input, or a missing requirement: one line on stderr names it."""
    INTERNAL_ERROR = 70
    """A defect in this program, or a strategy that calls sys.exit; EX_SOFTWARE of sysexits.h."""
    INTERRUPTED = 130
    """Ctrl-C; the code with which a shell reports SIGINT."""
    PIPE_CLOSED = 141
    """The reader of stdout closed the pipe; the code with which a shell reports SIGPIPE."""


class PipeClosed(Exception):
    """The reader of stdout has closed the pipe."""


PLAIN_INTERVAL_S = 5.0
"""The shortest time between two lines of progress without a terminal."""

_PLAIN_WIDTH = 120
"""The width of text without a terminal. Tables take the width that they need."""


def emit(text: str) -> None:
    """Write `text` and a newline to stdout."""
    with _stdout_errors():
        sys.stdout.write(text + "\n")


def flush() -> None:
    """Write what stdout still buffers."""
    with _stdout_errors():
        sys.stdout.flush()


@contextlib.contextmanager
def _stdout_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise stdout_failed(error) from None


def stdout_failed(error: OSError) -> UserError | PipeClosed:
    """Close stdout after `error` in writing to it, and return the exception to raise."""
    # Python would try to flush stdout once more when it exits, and complain.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return PipeClosed()
    return UserError(f"cannot write to stdout: {error.strerror}")


def emit_renderable(*renderables: RenderableType) -> None:
    """Write rich objects to stdout: coloured on a terminal; elsewhere plain, and tables at their natural
    width.
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
    """Replace the characters that could control a terminal: clients choose group names and client ids."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )


def note(message: str) -> None:
    """Write one line for the user to stderr."""
    # GitHub's runner takes `##[` anywhere in a line for the begin of a command.
    harmless = printable(message).replace("##[", "## [")
    print(f"kafka-assignors: {harmless}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """In the block SIGTERM raises `KeyboardInterrupt`, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def indented(sentences: Iterable[str]) -> list[RenderableType]:
    """Each sentence on lines of its own, indented; characters that could control a terminal are replaced."""
    return [Padding(Text(printable(sentence)), (0, 0, 0, 2)) for sentence in sentences]


def counted(count: int, noun: str) -> str:
    """`1 group`, `1,200 groups`."""
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


class ProgressReport:
    """Shows progress on stderr when the command has run for `delay_s` seconds.

    On a terminal it is a bar, elsewhere a plain line every `line_interval_s` seconds. One thread may call
    `update`, at any rate.
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

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the progress from the terminal and show no more."""
        self._start_later.cancel()
        with self._lock:
            self._started = False
            self._closed = True
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def update(self, phase: str, done: int = 0, total: int = 0, detail: str = "") -> None:
        """Report that `done` of `total` steps of `phase` are done; `total` is 0 if it is unknown.

        `detail` follows the count. A new phase is shown at once, a new detail with the next line.
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
                    # A redirected stdout would send the data to the terminal while the bar shows.
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


_SHORT_NAME, _WIDE_NAME, _NARROW_WORDS = 20, 40, 20
_BETWEEN, _EDGES = 3, 2
"""Terminal cells that the box takes between two columns, and at both ends together."""


class ColumnKind(enum.Enum):
    """How Rich may fit the cells of a column to its width."""

    NAME = "folded at any character"
    WORDS = "wrapped at spaces"
    TOKEN = "never broken"
    NUMBER = "never broken, aligned to the right"


@dataclass(frozen=True, slots=True)
class Column:
    """A column under `head`.

    If the table is too wide, the columns with the highest `leave_out` are left out first; 0 is never left
    out. `label` names the column in the line that lists them; the default is `head`.
    """

    head: str
    kind: ColumnKind = ColumnKind.NUMBER
    leave_out: int = 0
    label: str = ""

    @property
    def bends(self) -> bool:
        return self.kind in (ColumnKind.NAME, ColumnKind.WORDS)


class FittedTable:
    """A table of Rich that leaves columns out where the terminal is too narrow for all.

    Rich fits a table by cutting cells, and a number that is cut reads as another number. Here only names and
    words bend, and a line below the table names the columns that are left out.
    """

    def __init__(self, columns: Sequence[Column], title: str | None = None) -> None:
        self._columns = tuple(columns)
        self._title = title
        self._rows: list[tuple[list[Text], str, bool]] = []

    def add(self, cells: Iterable[str | Text], *, style: str = "", end_section: bool = False) -> None:
        """Add a row with a cell for each column."""
        row = [cell if isinstance(cell, Text) else Text(cell) for cell in cells]
        for column, cell in zip(self._columns, row, strict=True):
            if column.kind is ColumnKind.NAME:
                cell.plain = shortened(cell.plain)
        self._rows.append((row, style, end_section))

    @property
    def natural_width(self) -> int:
        """The width at which no cell is folded or wrapped, and no column left out."""
        return _total(map(self._natural, range(len(self._columns))))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least = {place: self._least(place) for place in range(len(self._columns))}
        while _total(least.values()) > options.max_width:
            # `max` takes the first of equals, so columns without an order go from left to right.
            place = max(least, key=lambda place: self._columns[place].leave_out)
            if not self._columns[place].leave_out:
                break
            del least[place]
        fits = _total(map(self._natural, least)) <= options.max_width
        table = Table(
            title=self._title,
            title_justify="left",
            title_style="bold",
            header_style="",
            box=SIMPLE_HEAD,
            pad_edge=False,
        )
        for place, width in least.items():
            column = self._columns[place]
            table.add_column(
                column.head,
                justify="right" if column.kind is ColumnKind.NUMBER else "left",
                vertical="bottom",
                width=None if fits or column.bends else width,
                overflow="fold",
            )
        for cells, style, end_section in self._rows:
            table.add_row(*(cells[place] for place in least), style=style, end_section=end_section)
        yield table
        left_out = [each.label or each.head for place, each in enumerate(self._columns) if place not in least]
        if left_out:
            words = f"Columns left out: {'; '.join(left_out)}. A wider terminal or --json shows them."
            yield Padding(Text(words, style="dim"), (0, 0, 1, 1))

    def _least(self, place: int) -> int:
        column, widest = self._columns[place], self._widest(place)
        if column.kind is ColumnKind.NAME:
            widest = min(widest, max(_SHORT_NAME, min((widest + 1) // 2, _WIDE_NAME)))
        elif column.kind is ColumnKind.WORDS:
            widest = min(widest, _NARROW_WORDS)
        return max(widest, *map(cell_len, column.head.split()))

    def _natural(self, place: int) -> int:
        return max(cell_len(self._columns[place].head), self._widest(place))

    def _widest(self, place: int) -> int:
        return max((cells[place].cell_len for cells, _, _ in self._rows), default=0)


def _total(widths: Iterable[int]) -> int:
    widths = list(widths)
    return sum(widths) + _BETWEEN * (len(widths) - 1) + _EDGES
