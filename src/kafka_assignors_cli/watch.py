"""Shows a state of the cluster once, or repeatedly as it changes (`--watch`)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

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

__all__ = ["Snapshot", "show"]


@dataclass(slots=True)
class Snapshot:
    """One look: tables, or lines of data. `problem` says why it is incomplete, if it is."""

    tables: Sequence[RenderableType] = ()
    lines: Sequence[str] = field(default=())
    problem: str | None = None

    def emit(self) -> None:
        for line in self.lines:
            emit(line)
        if self.tables:
            emit_renderable(*self.tables)
        flush()


Read = Callable[[ProgressReport], Snapshot]


def show(read: Read, *, interval_s: float | None, count: int | None) -> None:
    """Show one snapshot of `read` if `interval_s` is None, else one every `interval_s` seconds.

    A watch ends after `count` snapshots, or never if it is None. A single snapshot with a problem raises
    `CannotRun`. In a watch only the first read must succeed: later failures are shown, and the next look
    tries again. Ctrl-C ends a watch without an error.
    """
    if interval_s is None:
        with _progress() as progress:
            snapshot = read(progress)
        snapshot.emit()
        if snapshot.problem:
            raise CannotRun(snapshot.problem)
        return
    try:
        with _progress() as progress:
            snapshot = read(progress)
        if sys.stdout.isatty() and snapshot.tables:
            _watch_on_terminal(read, snapshot, interval_s, count)
        else:
            _watch_as_lines(read, snapshot, interval_s, count)
    except KeyboardInterrupt:
        return


def _watch_as_lines(read: Read, snapshot: Snapshot | None, interval_s: float, count: int | None) -> None:
    shown = 0
    while True:
        if snapshot is not None:
            snapshot.emit()
            if snapshot.problem:
                note(snapshot.problem)
        shown += 1
        if shown == count:
            return
        time.sleep(interval_s)
        with _progress() as progress:
            snapshot, trouble = _try(read, progress)
        if trouble:
            note(f"{trouble}; trying again")


def _watch_on_terminal(read: Read, snapshot: Snapshot, interval_s: float, count: int | None) -> None:
    shown = 0
    with Live(
        console=Console(file=sys.stdout), auto_refresh=False, vertical_overflow="crop", redirect_stderr=False
    ) as live:
        live.update(_framed(snapshot, None, interval_s), refresh=True)
        while True:
            shown += 1
            if shown == count:
                return
            time.sleep(interval_s)
            # This progress is never started: the terminal belongs to the tables.
            newer, trouble = _try(read, _progress())
            snapshot = newer or snapshot
            live.update(_framed(snapshot, trouble, interval_s), refresh=True)


def _framed(snapshot: Snapshot, trouble: str | None, interval_s: float) -> Group:
    now = time.strftime("%H:%M:%S")
    if trouble:
        head = Text(printable(f"{now}  {trouble}; what is shown is older; trying again"), style="bold red")
    else:
        head = Text(f"{now}  every {interval_s:g} s, Ctrl-C ends it", style="dim")
    # At the top, because the screen cuts off the bottom.
    return Group(head, *snapshot.tables)


def _progress() -> ProgressReport:
    return ProgressReport("asking the cluster")


def _try(read: Read, progress: ProgressReport) -> tuple[Snapshot | None, str | None]:
    try:
        return read(progress), None
    except CannotRun as error:
        return None, str(error)
