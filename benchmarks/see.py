"""The effect of rebalances on an eager and a cooperative group, side by side in the terminal.

    python -m benchmarks.see                           # a minute of aiokafka; what it needs: `make see`
    python -m benchmarks.see --client kafka-python
    python -m benchmarks.see --bootstrap-server localhost:9092 --seconds 30
    python -m benchmarks.see --seconds 30 --every 8 --picture docs/rebalance.svg   # an animated SVG

Two groups read the same topic, one of stock consumers with the client's own `sticky`, one of ours. Every ten
seconds a fourth member joins both groups at the same moment, or leaves them. One member of each group learns
late of rebalances, like one with a busy application. Without a terminal, the output is only a line for each
event and the summary. The exit code is 0, 1 if a broker or a member fails, and 130 after Ctrl-C.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from benchmarks.pause.group import Group, GroupError, Settings
from benchmarks.pause.journal import Kind, Row
from benchmarks.pause.peers import PEERS
from benchmarks.see_picture import Lane, bars, draw
from compat_tests.support.jvm import JvmError
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster, KafkaError

PARTITIONS = 12
MEMBERS = ("a", "b", "c")
SLOW = "c"
PAUSE_S = 0.3
"""Each partition has a record every 40 ms; it pauses if nothing is delivered for longer than this."""

_SETTINGS = Settings(
    partitions=PARTITIONS,
    interval_ms=40,
    fetch_wait_ms=25,
    heartbeat_interval_ms=500,
    slow_heartbeat_ms=2500,
    session_timeout_ms=10_000,
)
_SETTLES_WITHIN_S = 90.0
"""Long enough for a busy machine; a group has settled when each partition has a delivery within 0.5 s."""


@dataclass(slots=True)
class Watch:
    """The deliveries and pauses of one group, read from its journals as they grow."""

    title: str
    group: Group
    began_ns: int
    seen: dict[str, int] = field(default_factory=dict)
    last_ns: dict[int, int] = field(default_factory=dict)
    records: set[tuple[int, int]] = field(default_factory=set)
    deliveries: list[tuple[int, int, str]] = field(default_factory=list)
    pauses: int = 0
    paused_s: float = 0.0
    longest_s: float = 0.0
    revoked: int = 0
    twice: int = 0

    def update(self) -> None:
        self.group.read()
        new = []
        for member, rows in self.group.rows.items():
            new += [(row, member) for row in rows[self.seen.get(member, 0) :]]
            self.seen[member] = len(rows)
        for row, member in sorted(new):
            self._take(row, member)

    def _take(self, row: Row, member: str) -> None:
        if row.kind == Kind.DELIVERED:
            before_ns = self.last_ns.get(row.partition)
            if row.at_ns >= self.began_ns and before_ns is not None:
                self._pause((row.at_ns - max(before_ns, self.began_ns)) / 1e9)
            self.last_ns[row.partition] = max(row.at_ns, before_ns or 0)
            self.deliveries.append((row.at_ns, row.partition, member))
            self.twice += (row.partition, row.offset) in self.records
            self.records.add((row.partition, row.offset))
        elif row.kind == Kind.REVOKED and row.at_ns >= self.began_ns:
            self.revoked += 1

    def _pause(self, gap_s: float) -> None:
        self.longest_s = max(self.longest_s, gap_s)
        if gap_s > PAUSE_S:
            self.pauses += 1
            self.paused_s += gap_s

    def paused_now(self) -> int:
        now_ns = time.monotonic_ns()
        return sum(now_ns - at_ns > PAUSE_S * 1e9 for at_ns in self.last_ns.values())


def summary(watches: list[Watch], title: str, *, live: bool = False) -> Table:
    """The figures of both groups so far; those of a moment only if the run is `live`."""
    table = Table(title=title)
    table.add_column("")
    for watch in watches:
        table.add_column(watch.title, justify="right")
    now: tuple[tuple[str, Callable[[Watch], str]], ...] = (
        ("members", lambda watch: " ".join(watch.group.live)),
        ("partitions that pause now", lambda watch: f"{watch.paused_now()} of {PARTITIONS}"),
    )
    so_far: tuple[tuple[str, Callable[[Watch], str]], ...] = (
        (f"pauses of a partition over {PAUSE_S:g} s", lambda watch: str(watch.pauses)),
        ("partition-seconds in them", lambda watch: f"{watch.paused_s:.1f}"),
        ("the longest gap of a partition, in s", lambda watch: f"{watch.longest_s:.2f}"),
        ("partitions revoked", lambda watch: str(watch.revoked)),
        ("records delivered", lambda watch: str(len(watch.records))),
        ("records delivered twice", lambda watch: str(watch.twice)),
    )
    for name, cell in (*now, *so_far) if live else so_far:
        table.add_row(name, *(cell(watch) for watch in watches))
    return table


def as_picture(watches: list[Watch], events: list[tuple[float, str]], seconds: float) -> str:
    """The run as an SVG."""
    lanes = []
    for watch in watches:
        result = f"{watch.pauses} pauses of a partition, {watch.paused_s:.1f} partition-seconds"
        found = bars(sorted(watch.deliveries), watch.began_ns, seconds, PAUSE_S)
        lanes.append(Lane(watch.title, result, found))
    title = "Two consumer groups, one eager and one cooperative, while a member joins and leaves"
    return draw(lanes, events, seconds, PARTITIONS, title=title, command="make see-picture")


def run(
    kafka: Kafka, client: str, seconds: float, every_s: float, console: Console, file: Path | None = None
) -> None:
    eager, ours = PEERS[f"{client}-sticky"], PEERS[f"{client}-ours"]
    joining = [f"d{number}" for number in range(1, 2 + int(seconds / every_s / 2))]
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(Group(kafka, eager, _SETTINGS))
        second = stack.enter_context(Group(kafka, ours, _SETTINGS, topic=first.topic))
        console.print("starting two groups of three members …")
        for group in (first, second):
            group.stand_by([*MEMBERS, *joining], slow=[SLOW])
        for group in (first, second):
            for name in MEMBERS:
                group.join(name)
        first.start_producer()
        for peer, group in ((eager, first), (ours, second)):
            if not group.settle(_SETTLES_WITHIN_S):
                delivering = {name: len(rows) for name, rows in group.rows.items()}
                said = "\n".join(map(group.log, MEMBERS))
                raise GroupError(
                    f"{peer.label}: the group has not settled; rows of members: {delivering}\n{said}"
                )
        titles = (f"eager: stock {client}, sticky", f"cooperative: {client} with kafka-assignors")
        began_ns = time.monotonic_ns()
        watches = [
            Watch(title, group, began_ns) for title, group in zip(titles, (first, second), strict=True)
        ]
        live = Live(console=console, refresh_per_second=4)
        events = schedule(joining, every_s)
        happened: list[tuple[float, str]] = []
        with live if console.is_terminal else contextlib.nullcontext():
            headline, next_event = "three members in each group", next(events)
            if not console.is_terminal:
                console.print(headline)
            while (now_s := (time.monotonic_ns() - began_ns) / 1e9) < seconds:
                if now_s >= next_event[0]:
                    _, verb, name = next_event
                    for group in (first, second):
                        group.join(name) if verb == "joins" else group.ask_to_leave(name)
                    headline = f"{now_s:3.0f} s: {name} {verb} both groups"
                    happened.append((now_s, f"a member {verb}"))
                    if not console.is_terminal:
                        console.print(headline)
                    next_event = next(events, (float("inf"), "", ""))
                for watch in watches:
                    watch.update()
                    watch.group.check()
                if console.is_terminal:
                    title = f"{headline}   ({seconds - now_s:.0f} s left)"
                    live.update(summary(watches, title, live=True))
                time.sleep(0.1)
        every_ms = _SETTINGS.interval_ms
        title = f"{seconds:.0f} s, {PARTITIONS} partitions with a record every {every_ms} ms each"
        console.print(summary(watches, title))
        if file is not None:
            file.write_text(as_picture(watches, happened, seconds), encoding="utf-8")


def schedule(joining: list[str], every_s: float) -> Iterator[tuple[float, str, str]]:
    """(seconds, event, member) of each event."""
    times = itertools.count(1)
    for name in joining:
        yield next(times) * every_s, "joins", name
        yield next(times) * every_s, "leaves", name


def main(
    client: Annotated[Literal["aiokafka", "kafka-python"], typer.Option()] = "aiokafka",
    seconds: Annotated[float, typer.Option(min=1, max=600, help="How long it lasts.")] = 60,
    every: Annotated[float, typer.Option(min=1, help="Seconds from one event to the next.")] = 10,
    bootstrap_server: Annotated[str, typer.Option(help="Instead of a broker of its own.")] = "",
    picture: Annotated[Path | None, typer.Option(help="Write the run into this file, as an SVG.")] = None,
) -> None:
    """Watch an eager and a cooperative group while members join and leave."""
    console = Console()
    # SIGTERM ends the processes and the broker as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if bootstrap_server:
            given = Kafka(bootstrap_server)
            given.check(3)
            run(given, client, seconds, every, console, picture)
        else:
            console.print("starting a broker …")
            with KafkaCluster() as kafka:
                run(kafka, client, seconds, every, console, picture)
    except KeyboardInterrupt:
        console.print("stopped")
        raise typer.Exit(130) from None
    except (GroupError, KafkaError, JvmError) as error:
        Console(stderr=True).print(str(error), markup=False)
        raise typer.Exit(1) from None


if __name__ == "__main__":
    typer.run(main)
