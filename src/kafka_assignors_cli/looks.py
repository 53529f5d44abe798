"""How a command shows what changes: once, or repeatedly (`--watch`), on a terminal, as lines, in a file."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from kafka_assignors.arguments import UserError
from kafka_assignors_cli.console import ProgressReport, emit, emit_renderable, flush, note, printable
from kafka_assignors_cli.output_files import is_stdout, write_document, write_file


@dataclass(slots=True)
class Snapshot:
    """One look: tables, and the same as JSON values. `problem` says why these are incomplete."""

    tables: Sequence[RenderableType]
    values: Sequence[object]
    problem: str | None = None

    @property
    def json_lines(self) -> str:
        return "".join(f"{json.dumps(value)}\n" for value in self.values)


Read = Callable[[ProgressReport], Snapshot]

_PHASE = "asking the cluster"


class Troubles(Protocol):
    """Tells each kind of trouble once, until all is well."""

    def add(self, error: Exception, then: str) -> None: ...

    def clear(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Looks:
    """How often to look: every `interval_s` seconds, once if it is None; `count` times, None for no end.

    The JSON values go to `json_file`, as lines; with several looks a file always holds those of the last one.
    """

    interval_s: float | None
    count: int | None
    json_file: Path | None

    def emit(self, snapshot: Snapshot) -> None:
        """Write what the look has seen, without a terminal."""
        if not is_stdout(self.json_file):
            emit_renderable(*snapshot.tables)
            self.keep(snapshot)
        elif snapshot.values:
            emit(snapshot.json_lines.removesuffix("\n"))
        flush()

    def keep(self, snapshot: Snapshot) -> None:
        """Write the JSON values to the file, if there is one."""
        if self.json_file is not None and self.interval_s is None:
            write_document(self.json_file, snapshot.json_lines)
        elif self.json_file is not None:
            write_file(self.json_file, snapshot.json_lines)


def show(read: Read, looks: Looks, troubles: Troubles) -> None:
    """Show one snapshot of `read`, or several.

    A single snapshot with a problem raises `UserError`. In a watch only the first read must succeed: later
    failures are shown, and the next look tries again. Ctrl-C ends a watch without an error.
    """
    if looks.interval_s is None:
        snapshot = _read(read)
        looks.emit(snapshot)
        if snapshot.problem:
            raise UserError(snapshot.problem)
        return
    with contextlib.suppress(KeyboardInterrupt):
        _watch(read, _read(read), looks, looks.interval_s, troubles)


def _read(read: Read) -> Snapshot:
    with ProgressReport(_PHASE) as progress:
        return read(progress)


def _watch(read: Read, snapshot: Snapshot, looks: Looks, interval_s: float, troubles: Troubles) -> None:
    trouble: UserError | None = None
    screen: Live | None = None
    if sys.stdout.isatty() and not is_stdout(looks.json_file):
        console = Console(file=sys.stdout)
        screen = Live(console=console, auto_refresh=False, vertical_overflow="crop", redirect_stderr=False)
    with screen or contextlib.nullcontext():
        for shown in itertools.count(1):
            if screen is not None:
                screen.update(_framed(snapshot, trouble, interval_s), refresh=True)
                looks.keep(snapshot)
            elif trouble is not None:
                troubles.add(trouble, "trying again")
            else:
                troubles.clear()
                looks.emit(snapshot)
                if snapshot.problem:
                    note(snapshot.problem)
            if shown == looks.count:
                return
            time.sleep(interval_s)
            trouble = None
            try:
                # On a screen the progress is never started: the terminal belongs to the tables.
                snapshot = _read(read) if screen is None else read(ProgressReport(_PHASE))
            except UserError as error:
                trouble = error


def _framed(snapshot: Snapshot, trouble: UserError | None, interval_s: float) -> Group:
    now = time.strftime("%H:%M:%S")
    if trouble:
        head = Text(printable(f"{now}  {trouble}; what is shown is older; trying again"), style="bold red")
    else:
        head = Text(f"{now}  every {interval_s:g} s, Ctrl-C ends it", style="dim")
    # At the top, because the screen cuts off the bottom.
    return Group(head, *snapshot.tables)
