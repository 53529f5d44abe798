"""`kafka-assignors watch`: follows the groups of a running cluster, for Prometheus and on the terminal."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from kafka_assignors.arguments import UserError
from kafka_assignors_cli import options
from kafka_assignors_cli.console import (
    Column,
    ColumnKind,
    FittedTable,
    ProgressReport,
    counted,
    emit_renderable,
    flush,
    indented,
    note,
    printable,
    sigterm_interrupts,
)
from kafka_assignors_cli.output_files import is_stdout, require_files, write_document, write_file

if TYPE_CHECKING:
    from kafka_assignors_ops.watch.fleet import FleetSnapshot, GroupSnapshot
    from kafka_assignors_ops.watch.metric_table import WatchStatus
    from kafka_assignors_ops.watch.watcher import Watcher

EPILOG = f"""Examples:

kafka-assignors watch --bootstrap-server broker:9092

kafka-assignors watch --bootstrap-server broker:9092 --prometheus :9308 --state watch.json

kafka-assignors watch --bootstrap-server broker:9092 --matching 'orders-*' --once --json -

The records in __consumer_offsets from before the start make the groups known, and only later ones count. \
Brokers compact that topic, so what is left of the past is no measure; --once counts it, too. With --state \
the counts go on where the last run ended, also after a kill: no record counts twice.

{options.CONFIG_EPILOG}

A broker that does not answer, and a right that is missing, are named once and tried again until Ctrl-C or \
SIGTERM ends the watch; a second Ctrl-C ends it at once.

Exit codes: 0 told to end, or --once is done; 2 it cannot run, or --once failed, and one line on \
stderr says why; 130 --once, or the end itself, was interrupted.
"""

_option = functools.partial(typer.Option, rich_help_panel="Watch")
_INTERVAL_S = 5.0
_MOST_ROWS = 200
"""The most rows that the command draws on a terminal; no screen shows more."""

_SHOWN_NOTES = 3
_WAIT_S = 0.2

Prometheus = Annotated[
    str | None,
    options.output_option(
        metavar="[HOST]:PORT", help="Serve metrics to Prometheus here; without HOST on all addresses."
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Read what is there now, show it and end.")]
Matching = Annotated[
    list[str] | None,
    _option(
        metavar="PATTERN",
        help="Only groups whose id matches; * stands for any text, ? for one character. May be repeated.",
    ),
]
MaxGroups = Annotated[int, _option(metavar="N", min=1, help="Follow at most N groups, and count the others.")]
State = Annotated[
    Path | None,
    _option(
        metavar="FILE",
        help="Keep the counts here, and go on from there. One file is of one cluster and one process.",
    ),
]
Interval = Annotated[float, _option(**options.SECONDS, min=0.1, max=1e9, help="The time between two looks.")]


def watch(
    context: typer.Context,
    *,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    prometheus: Prometheus = None,
    once: Once = False,
    json_file: options.JsonFile = None,
    interval: Interval = _INTERVAL_S,
    matching: Matching = None,
    max_groups: MaxGroups = 1_000,
    state: State = None,
) -> None:
    """Follow the groups of a running cluster as they rebalance: causes, moved partitions, balance."""
    address = options.cluster_address(bootstrap_server, command_config, timeout)
    endpoint = None if prometheus is None else parse_endpoint(prometheus)
    if once:
        where = "with --once, which reads what is there and ends"
        options.refuse(context, ("prometheus", "interval"), where)
    require_files(json_file, state)
    with options.require_extra("watch" if endpoint is None else "watch --prometheus", "watch"):
        import confluent_kafka  # noqa: F401

        from kafka_assignors_ops.watch.fleet import FleetLimits
        from kafka_assignors_ops.watch.watcher import Watcher, WatchOptions

        if endpoint is not None:
            import prometheus_client  # noqa: F401
    asked = WatchOptions(
        bootstrap_servers=address.bootstrap_servers,
        client_config=address.config,
        timeout_s=address.timeout_s,
        once=once,
        limits=FleetLimits(max_groups, _matcher(matching)),
        state=state,
    )
    notes: deque[str] = deque(maxlen=_SHOWN_NOTES)
    on_terminal = sys.stdout.isatty() and not once and not is_stdout(json_file)
    watcher = Watcher(asked, notes.append if on_terminal else note)
    with sigterm_interrupts():
        run = _Run(watcher)
        with contextlib.nullcontext() if endpoint is None else _served(*endpoint, watcher):
            if once:
                run.wait_until_caught_up()
                _write(watcher, json_file, write_document)
            else:
                shows = endpoint is None or json_file is not None or sys.stdout.isatty()
                with contextlib.suppress(KeyboardInterrupt):
                    if shows:
                        _follow(run, interval, json_file, notes if on_terminal else None)
                    else:
                        run.wait()
        run.end()
    if not once:
        note(_farewell(watcher.snapshot()))


def parse_endpoint(text: str) -> tuple[str, int]:
    """The host and the port in `[HOST]:PORT`; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise UserError(f"--prometheus {text}: expected [HOST]:PORT, such as :9308 or 127.0.0.1:9308")
    return host or "0.0.0.0", int(port)


def _matcher(patterns: list[str] | None) -> Callable[[str], bool]:
    if not patterns:
        return lambda name: True
    return lambda name: any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


class _Run:
    """Runs the watcher in a thread of its own."""

    def __init__(self, watcher: Watcher) -> None:
        self.watcher = watcher
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        # A daemon, because a second Ctrl-C ends the process at once.
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._thread.start()

    def wait(self, is_over: Callable[[], bool] = lambda: False) -> None:
        """Wait until the thread has ended, or it `is_over`; raises the error that ended the thread."""
        while self._thread.is_alive() and not is_over():
            self._thread.join(_WAIT_S)
        if self._failure is not None:
            raise self._failure

    def pause(self, seconds: float) -> None:
        over_s = time.monotonic() + seconds
        self.wait(lambda: time.monotonic() >= over_s)

    def wait_until_caught_up(self) -> None:
        with ProgressReport("asking the cluster") as progress:

            def caught_up() -> bool:
                progress.update("reading the history", self.watcher.records, detail=" records")
                return self.watcher.status().caught_up

            self.wait(caught_up)

    def end(self) -> None:
        """Tell the watcher to stop, and wait until it has written the state."""
        self._stop.set()
        self.wait()

    def _work(self) -> None:
        try:
            self.watcher.run(self._stop)
        except BaseException as error:
            self._failure = error


@contextlib.contextmanager
def _served(host: str, port: int, watcher: Watcher) -> Iterator[None]:
    from prometheus_client import make_wsgi_app

    from kafka_assignors_ops.watch.exporter import registry, serving
    from kafka_assignors_ops.watch.metric_table import Scrape

    def scrape() -> Scrape:
        # The status comes first, so the snapshot has at least the records that the status says were read.
        status = watcher.status()
        return Scrape(watcher.snapshot(), status)

    with serving(host, port, make_wsgi_app(registry(scrape))) as found:
        shown = f"[{host}]" if ":" in host else host
        note(f"metrics are on http://{shown}:{found}/metrics")
        yield


def _follow(run: _Run, interval_s: float, json_file: Path | None, notes: deque[str] | None) -> None:
    """Show the groups again and again: on a screen with the latest `notes`, else one look after the other."""
    run.wait_until_caught_up()
    watcher = run.watcher
    screen: Live | None = None
    if notes is not None:
        console = Console(file=sys.stdout)
        screen = Live(console=console, auto_refresh=False, vertical_overflow="crop", redirect_stderr=False)
    with screen or contextlib.nullcontext():
        while True:
            if screen is None:
                _write(watcher, json_file, write_file)
            else:
                # At the top, because the screen cuts off the bottom.
                now = time.strftime("%H:%M:%S")
                head = Text(f"{now}  every {interval_s:g} s, Ctrl-C ends it", style="dim")
                fleet = watcher.snapshot()
                tables = watch_tables(fleet, watcher.status(), tuple(notes or ()), _MOST_ROWS)
                screen.update(Group(head, *tables), refresh=True)
                if json_file is not None:
                    write_file(json_file, _json_lines(fleet))
            run.pause(interval_s)


def _write(watcher: Watcher, json_file: Path | None, write: Callable[[Path, str], None]) -> None:
    """Write the groups as they are now, without a screen; `write` writes the JSON file."""
    fleet = watcher.snapshot()
    if is_stdout(json_file):
        write_document(json_file, _json_lines(fleet))
    else:
        emit_renderable(*watch_tables(fleet, watcher.status(), (), None))
        if json_file is not None:
            write(json_file, _json_lines(fleet))
    flush()


def _farewell(fleet: FleetSnapshot) -> str:
    generations = sum(group.counts.generations for group in fleet.groups)
    return f"ended: {counted(len(fleet.groups), 'group')}, {counted(generations, 'generation')} counted"


# ---- the groups as a table and as JSON objects, those that need attention first

_NONE = "–"
_SHOWN_CAUSES = 3

_COLUMNS = (
    Column("group", ColumnKind.NAME),
    Column("state", ColumnKind.TOKEN),
    Column("last 10 min"),
    Column("moved"),
    Column("least"),
    Column("members", leave_out=2),
    Column("idle", leave_out=3),
    Column("max/mean", leave_out=1),
    Column("causes", ColumnKind.WORDS, leave_out=4),
    Column("rebalances", leave_out=5),
    Column("generation", leave_out=6),
    Column("undecodable", leave_out=7),
    Column("strategy", ColumnKind.NAME, leave_out=8),
)


def in_order_of_attention(groups: Sequence[GroupSnapshot]) -> list[GroupSnapshot]:
    """The groups with the most generations in the last ten minutes first, then those with records that do not
    decode, with a hand-over that has no end yet, with the most needless moves, with the worst balance."""

    def place(each: GroupSnapshot) -> tuple[Any, ...]:
        imbalance = each.last.imbalance if each.last is not None else None
        return (
            -each.recent,
            -each.counts.undecodable.total(),
            each.state != "hand-over",
            each.counts.least_moved - each.counts.moved,
            -(imbalance or 0),
            each.group,
        )

    return sorted(groups, key=place)


def _json_lines(fleet: FleetSnapshot) -> str:
    return "".join(f"{json.dumps(group_json(group))}\n" for group in in_order_of_attention(fleet.groups))


def group_json(group: GroupSnapshot) -> dict[str, Any]:
    """The figures of the last generation, which may be null, and the counts."""
    from kafka_assignors_replay.result import to_json

    return {
        "group": group.group,
        "state": group.state,
        "recent_generations": group.recent,
        "last": to_json(group.last),
        "counts": to_json(group.counts),
    }


def watch_tables(
    fleet: FleetSnapshot, status: WatchStatus, notes: Sequence[str], most_rows: int | None
) -> list[RenderableType]:
    """A line about the watch, its latest `notes`, and the table of at most `most_rows` groups."""
    groups = in_order_of_attention(fleet.groups)
    shown = groups if most_rows is None else groups[:most_rows]
    table = FittedTable(_COLUMNS)
    for group in shown:
        table.add(_cells(group), style="bold" if group.recent else "")
    parts = [counted(len(groups), "group")]
    if fleet.beyond_limit:
        parts.append(f"{fleet.beyond_limit:,} more left out by --max-groups")
    if not status.up:
        parts.append("not reading now")
    elif status.lag:
        parts.append(f"{counted(status.lag, 'record')} behind")
    tables: list[RenderableType] = [Text("; ".join(parts)), *indented(notes), table]
    if len(shown) < len(groups):
        tables.append(Text(f"and {counted(len(groups) - len(shown), 'group')} below; --matching shows fewer"))
    return tables


def _cells(group: GroupSnapshot) -> list[str]:
    last, counts = group.last, group.counts
    causes = [f"{cause}×{count}" for cause, count in counts.causes.most_common(_SHOWN_CAUSES)]
    return [
        printable(group.group),
        group.state,
        str(group.recent),
        str(counts.moved),
        str(counts.least_moved),
        _shown(None if last is None else last.members),
        _shown(None if last is None else last.idle_members),
        _NONE if last is None or last.imbalance is None else f"{last.imbalance:.2f}",
        ", ".join(causes) or _NONE,
        str(counts.rebalances),
        _shown(None if last is None else last.generation),
        str(counts.undecodable.total()),
        printable(last.protocol) if last is not None and last.protocol else _NONE,
    ]


def _shown(value: int | None) -> str:
    return _NONE if value is None else str(value)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(watch)
