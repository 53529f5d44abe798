"""Shows a state of the cluster once, or repeatedly as it changes (`--watch`)."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from kafka_assignors_cli.console import (
    CannotRun,
    ProgressReport,
    emit,
    emit_renderable,
    flush,
    note,
    printable,
)
from kafka_assignors_cli.files import write_file
from kafka_assignors_cli.json_output import is_stdout, write_document

__all__ = ["Looks", "Snapshot", "show"]


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
        if is_stdout(self.json_file):
            if lines := snapshot.json_lines:
                emit(lines.removesuffix("\n"))
        else:
            emit_renderable(*snapshot.tables)
            self.keep(snapshot)
        flush()

    def keep(self, snapshot: Snapshot) -> None:
        """Write the JSON values to the file, if there is one."""
        if self.json_file is None:
            return
        if self.interval_s is None:
            write_document(self.json_file, snapshot.json_lines)
        else:
            write_file(self.json_file, snapshot.json_lines)


def show(read: Read, looks: Looks) -> None:
    """Show one snapshot of `read`, or several.

    A single snapshot with a problem raises `CannotRun`. In a watch only the first read must succeed: later
    failures are shown, and the next look tries again. Ctrl-C ends a watch without an error.
    """
    if looks.interval_s is None:
        with _progress() as progress:
            snapshot = read(progress)
        looks.emit(snapshot)
        if snapshot.problem:
            raise CannotRun(snapshot.problem)
        return
    try:
        with _progress() as progress:
            snapshot = read(progress)
        if sys.stdout.isatty() and not is_stdout(looks.json_file):
            _watch_on_terminal(read, snapshot, looks, looks.interval_s)
        else:
            _watch_as_lines(read, snapshot, looks, looks.interval_s)
    except KeyboardInterrupt:
        return


def _watch_as_lines(read: Read, snapshot: Snapshot | None, looks: Looks, interval_s: float) -> None:
    from kafka_assignors_confluent import Troubles

    shown, troubles = 0, Troubles(note)
    while True:
        if snapshot is not None:
            troubles.clear()
            looks.emit(snapshot)
            if snapshot.problem:
                note(snapshot.problem)
        shown += 1
        if shown == looks.count:
            return
        time.sleep(interval_s)
        with _progress() as progress:
            snapshot, trouble = _try(read, progress)
        if trouble is not None:
            troubles.add(trouble, "trying again")


def _watch_on_terminal(read: Read, snapshot: Snapshot, looks: Looks, interval_s: float) -> None:
    shown = 0
    with Live(
        console=Console(file=sys.stdout), auto_refresh=False, vertical_overflow="crop", redirect_stderr=False
    ) as live:
        live.update(_framed(snapshot, None, interval_s), refresh=True)
        while True:
            looks.keep(snapshot)
            shown += 1
            if shown == looks.count:
                return
            time.sleep(interval_s)
            # This progress is never started: the terminal belongs to the tables.
            newer, trouble = _try(read, _progress())
            snapshot = newer or snapshot
            live.update(_framed(snapshot, trouble, interval_s), refresh=True)


def _framed(snapshot: Snapshot, trouble: CannotRun | None, interval_s: float) -> Group:
    now = time.strftime("%H:%M:%S")
    if trouble:
        head = Text(printable(f"{now}  {trouble}; what is shown is older; trying again"), style="bold red")
    else:
        head = Text(f"{now}  every {interval_s:g} s, Ctrl-C ends it", style="dim")
    # At the top, because the screen cuts off the bottom.
    return Group(head, *snapshot.tables)


def _progress() -> ProgressReport:
    return ProgressReport("asking the cluster")


def _try(read: Read, progress: ProgressReport) -> tuple[Snapshot | None, CannotRun | None]:
    try:
        return read(progress), None
    except CannotRun as error:
        return None, error
