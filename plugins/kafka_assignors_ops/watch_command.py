"""`kafka-assignors watch`: follows the groups of a running cluster, for Prometheus and on the terminal."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from kafka_assignors.arguments import UserError
from kafka_assignors_cli import options
from kafka_assignors_cli.console import (
    Column,
    ColumnKind,
    FittedTable,
    ProgressReport,
    counted,
    indented,
    note,
    printable,
    sigterm_interrupts,
)
from kafka_assignors_cli.looks import Looks, Snapshot, show
from kafka_assignors_cli.output_files import is_stdout, require_json_file, require_writable
from kafka_assignors_ops.troubles import Troubles

if TYPE_CHECKING:
    from kafka_assignors_ops.watch.fleet import FleetSnapshot, GroupSnapshot
    from kafka_assignors_ops.watch.metric_table import WatchStatus
    from kafka_assignors_ops.watch.watcher import Watcher, WatchOptions

EPILOG = f"""Examples:

kafka-assignors watch --bootstrap-server broker:9092

kafka-assignors watch --bootstrap-server broker:9092 --prometheus :9308 --state watch.json

kafka-assignors watch --bootstrap-server broker:9092 --matching 'orders-*' --once --json -

The records in __consumer_offsets from before the start make the groups known, and only later ones count. \
Brokers compact that topic, so what is left of the past is no measure; --once and --count-history count it, \
too. With --state the counts go on where the last run ended, also after a kill: no record counts twice.

{options.CONFIG_EPILOG}

A broker that does not answer, and a right that is missing, are named once and tried again until Ctrl-C or \
SIGTERM ends the watch; a second Ctrl-C ends it at once.

Exit codes: 0 told to end, or --once or --count is done; 2 it cannot run, or --once failed, and one line on \
stderr says why; 130 --once, or the end itself, was interrupted.
"""

_option = functools.partial(typer.Option, rich_help_panel="Watch")
_INTERVAL_S = 5.0
_MOST_ROWS = 200
"""The most rows that the command draws on a terminal; no screen shows more."""

_WITHOUT_EFFECT_ONCE = ("prometheus", "interval", "count", "from_now", "count_history", "state_interval")
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
ForgetEmpty = Annotated[
    float,
    _option(metavar="SECONDS", min=1.0, help="Forget a group without members and records for this long."),
]
FromNow = Annotated[
    bool,
    _option("--from-now", help="Do not read older records: a group is known from its next generation on."),
]
CountHistory = Annotated[
    bool, _option("--count-history", help="Count the records from before the start, too.")
]
State = Annotated[
    Path | None,
    _option(
        metavar="FILE",
        help="Keep the counts here, and go on from there. One file is of one cluster and one process.",
    ),
]
StateInterval = Annotated[
    float, _option(metavar="SECONDS", min=0.1, help="The time between two writes of --state.")
]
Interval = Annotated[float, _option(metavar="SECONDS", min=0.1, help="The time between two looks.")]
Count = Annotated[int | None, _option(metavar="N", min=1, help="End after N looks.")]


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
    count: Count = None,
    matching: Matching = None,
    max_groups: MaxGroups = 1_000,
    forget_empty: ForgetEmpty = 86_400.0,
    from_now: FromNow = False,
    count_history: CountHistory = False,
    state: State = None,
    state_interval: StateInterval = 30.0,
) -> None:
    """Follow the groups of a running cluster as they rebalance: causes, moved partitions, balance."""
    address = options.cluster_address(bootstrap_server, command_config, timeout)
    endpoint = None if prometheus is None else parse_endpoint("--prometheus", prometheus)
    if once:
        options.refuse(context, _WITHOUT_EFFECT_ONCE, "with --once, which reads what is there and ends")
    if from_now and count_history:
        raise UserError("--from-now and --count-history exclude each other: the one reads no history")
    require_json_file(json_file)
    if state is None:
        options.refuse(context, ("state_interval",), "without --state")
    else:
        require_writable(state)
    with options.require_extra("watch" if endpoint is None else "watch --prometheus", "watch"):
        import confluent_kafka  # noqa: F401

        from kafka_assignors_ops.watch.fleet import FleetLimits
        from kafka_assignors_ops.watch.watcher import WatchOptions

        if endpoint is not None:
            import prometheus_client  # noqa: F401
    asked = WatchOptions(
        bootstrap_servers=address.bootstrap_servers,
        client_config=address.config,
        timeout_s=address.timeout_s,
        from_now=from_now,
        limits=FleetLimits(max_groups, _matcher(matching), forget_empty, once or count_history),
        state=state,
        state_interval_s=state_interval,
    )
    looks = Looks(None if once else interval, count, json_file)
    notes: deque[str] = deque(maxlen=_SHOWN_NOTES)
    on_terminal = sys.stdout.isatty() and not once and not is_stdout(json_file)
    with _running(asked, notes.append if on_terminal else note, once=once) as run:
        with contextlib.nullcontext() if endpoint is None else _served(*endpoint, run):
            if endpoint is not None and json_file is None and count is None and not sys.stdout.isatty():
                run.wait()
            else:
                show(lambda progress: _look(run, progress, notes, cut=on_terminal), looks, Troubles(note))
        run.end()
    if not once:
        note(run.farewell())


def parse_endpoint(option: str, text: str, default_host: str = "0.0.0.0") -> tuple[str, int]:
    """The host and the port in `[HOST]:PORT`, the value of `option`; an IPv6 address is in brackets."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise UserError(f"{option} {text}: expected [HOST]:PORT, such as :9308 or 127.0.0.1:9308")
    return host or default_host, int(port)


def _matcher(patterns: list[str] | None) -> Callable[[str], bool]:
    if not patterns:
        return lambda name: True
    return lambda name: any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


class _Run:
    """Runs the watcher in a thread of its own. `wait` and `end` raise the error that ended it early."""

    def __init__(self, watcher: Watcher, *, once: bool) -> None:
        self.watcher = watcher
        self._once = once
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        # A daemon, because a second Ctrl-C ends the process at once.
        self._thread = threading.Thread(target=self._work, name="watch", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait for Ctrl-C, SIGTERM or a failure."""
        with contextlib.suppress(KeyboardInterrupt):
            while self._thread.is_alive():
                self._thread.join(_WAIT_S)
        self._raise_failure()

    def wait_until_caught_up(self, progress: ProgressReport) -> None:
        while not self.watcher.status().caught_up and self._thread.is_alive():
            progress.update("reading the history", self.watcher.records, detail=" records")
            time.sleep(_WAIT_S)
        self._raise_failure()

    def end(self) -> None:
        """Tell the watcher to stop, and wait until it has written the state."""
        self._stop.set()
        while self._thread.is_alive():
            self._thread.join(_WAIT_S)
        self._raise_failure()

    def farewell(self) -> str:
        fleet = self.watcher.snapshot()
        generations = sum(group.counts.generations for group in fleet.groups)
        return f"ended: {counted(len(fleet.groups), 'group')}, {counted(generations, 'generation')} counted"

    def _work(self) -> None:
        try:
            self.watcher.run(self._stop, once=self._once)
        except BaseException as error:
            self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


@contextlib.contextmanager
def _running(asked: WatchOptions, on_note: Callable[[str], None], *, once: bool) -> Iterator[_Run]:
    """Start the watch; in the block SIGTERM raises `KeyboardInterrupt`, as Ctrl-C does."""
    from kafka_assignors_ops.watch.watcher import Watcher

    watcher = Watcher(asked, on_note)
    with sigterm_interrupts():
        yield _Run(watcher, once=once)


@contextlib.contextmanager
def _served(host: str, port: int, run: _Run) -> Iterator[None]:
    from prometheus_client import make_wsgi_app

    from kafka_assignors_ops.watch.exporter import registry, serving
    from kafka_assignors_ops.watch.metric_table import Scrape

    def scrape() -> Scrape:
        # The status comes first, so the snapshot has at least the records that the status says were read.
        status = run.watcher.status()
        return Scrape(run.watcher.snapshot(), status)

    with serving(host, port, make_wsgi_app(registry(scrape))) as found:
        shown = f"[{host}]" if ":" in host else host
        note(f"metrics are on http://{shown}:{found}/metrics")
        yield


def _look(run: _Run, progress: ProgressReport, notes: deque[str], *, cut: bool) -> Snapshot:
    run.wait_until_caught_up(progress)
    fleet, status = run.watcher.snapshot(), run.watcher.status()
    tables = watch_tables(fleet, status, [*notes], _MOST_ROWS if cut else None)
    return Snapshot(tables, [group_json(group) for group in in_order_of_attention(fleet.groups)])


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
    Column("unjudged", leave_out=7),
    Column("undecodable", leave_out=8),
    Column("strategy", ColumnKind.NAME, leave_out=9),
    Column("type", ColumnKind.TOKEN, leave_out=10),
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
        str(counts.unjudged),
        str(counts.undecodable.total()),
        printable(last.protocol) if last is not None and last.protocol else _NONE,
        last.type if last is not None else _NONE,
    ]


def _shown(value: int | None) -> str:
    return _NONE if value is None else str(value)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(watch)
