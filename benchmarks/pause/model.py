"""The pause model compared with the measurements, and the source of its defaults.

    python -m benchmarks.pause.model benchmarks/pause/results/60.json              # or 600.json, or both
    python -m benchmarks.pause.model benchmarks/pause/results/60.json --markdown   # as tables

The defaults are taken from the first file. They are means over clients and events, so the model differs from
single clients and events as the tables show.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from benchmarks.pause.result_files import Results
from benchmarks.pause.summary import EventSummary, PeerSummary
from benchmarks.pause.tables import EVENT_NAMES, ORDER, Sheet, markdown, show
from kafka_assignors_replay.folds.pause_model import Consumption, PauseModel

__all__ = ["modelled_ms", "resume_s", "second_rounds", "sheets"]

_JOINS = ("join", "refill")
"""Events in which no member leaves, and all heartbeats are in step."""

_LEAVES = ("leave", "kill", "rolling")


def consumption_of(peer: str) -> Consumption:
    """How a peer of `benchmarks.pause.peers` consumes during a rebalance."""
    if peer.endswith("-kip848"):
        return Consumption.BROKER_ASSIGNED
    cooperative = peer.endswith(("-ours", "-cooperative"))
    return Consumption.COOPERATIVE if cooperative else Consumption.EAGER


def resume_s(results: Results) -> float:
    """The part of a pause in which no member waits for another: eager peers, when a member joins.

    The result is the median over peers and events of the medians over partitions, in seconds.
    """
    delays_ms = [
        event.delay.median
        for peer in results.summaries
        if consumption_of(peer.peer) is Consumption.EAGER
        for event in peer.events
        if event.event in _JOINS
    ]
    return statistics.median(delays_ms) / 1000


def second_rounds(results: Results) -> dict[str, float]:
    """How many heartbeat intervals a moving partition waits for the second round, by cooperative peer."""
    interval_s = _setting(results, "heartbeat_interval_ms") / 1000
    return {
        peer.peer: statistics.fmean(
            (event.delay.median / 1000 - resume_s(results)) / interval_s
            for event in peer.events
            if event.event in _JOINS
        )
        for peer in results.summaries
        if consumption_of(peer.peer) is Consumption.COOPERATIVE
    }


def modelled_ms(event: EventSummary, peer: str, settings: Any) -> float:
    """The modelled pause of most moved partitions in this event of a peer, in milliseconds.

    The settings are those of the run, all other parameters are the defaults. After a kill the pause begins
    when the session expires, which is on average half a heartbeat interval earlier than a full session after
    the kill.
    """
    slow = event.event == "slow"
    consumption = consumption_of(peer)
    waits_for_slow = slow and consumption is Consumption.EAGER
    interval_s = settings["slow_heartbeat_ms" if waits_for_slow else "heartbeat_interval_ms"] / 1000
    model = PauseModel(
        heartbeat_interval_s=interval_s,
        heartbeats_in_step=not waits_for_slow,
        broker_heartbeat_interval_s=settings["heartbeat_interval_ms"] / 1000,
    )
    members = 5 if event.event in ("join", "slow") else 3 if event.event in ("leave", "kill") else 4
    vacated = event.least if event.event in _LEAVES else 0
    if statistics.fmean(event.moved) - vacated >= vacated:
        return 1000 * model.pause_s(consumption, members)
    left_ms = 1000 * model.vacancy_s(consumption, members)
    if event.event == "kill":
        left_ms += settings["session_timeout_ms"] - settings["heartbeat_interval_ms"] / 2
    return left_ms


def sheets(runs: Sequence[Results]) -> list[Sheet]:
    """The source of the defaults, and a table for each run."""
    first = runs[0]
    waits = second_rounds(first)
    found = [
        Sheet(
            "Where the defaults come from",
            ("", "measured", "default"),
            [
                (
                    "`resume_s`: eager, join and refill, median",
                    f"{resume_s(first):.3f}",
                    _default("resume_s"),
                ),
                *(
                    (f"wait for the second round, in heartbeats: {first.labels[peer]}", f"{wait:.2f}", "")
                    for peer, wait in waits.items()
                ),
                (
                    "`second_round_heartbeats`: their mean",
                    f"{statistics.fmean(waits.values()):.2f}",
                    _default("second_round_heartbeats"),
                ),
            ],
        )
    ]
    for run in runs:
        for partitions in dict.fromkeys(one.partitions for one in run.summaries):
            peers = [one for one in run.summaries if one.partitions == partitions]
            title = f"{partitions} partitions: the pause of a partition that moves, in ms"
            found.append(_table(f"{title}: measured, median / modelled", peers, run, _moving))
            title = f"{partitions} partitions: the pause of one that stays, in ms"
            what = "the gap above that without an event, median / modelled"
            found.append(_table(f"{title}: {what}", peers, run, _staying))
    return found


def _table(title: str, peers: Sequence[PeerSummary], run: Results, cell: Any) -> Sheet:
    rows = []
    for peer in sorted(peers, key=lambda one: list(Consumption).index(consumption_of(one.peer))):
        events = {event.event: event for event in peer.events}
        cells = [cell(events[name], peer.peer, _settings(run)) if name in events else "–" for name in ORDER]
        rows.append((run.labels[peer.peer], consumption_of(peer.peer).value, *cells))
    return Sheet(title, ("", "", *(EVENT_NAMES[name] for name in ORDER)), rows)


def _moving(event: EventSummary, peer: str, settings: Any) -> str:
    if math.isnan(event.delay.median):
        return "–"
    return f"{event.delay.median:.0f} / {modelled_ms(event, peer, settings):.0f}"


def _staying(event: EventSummary, peer: str, settings: Any) -> str:
    if math.isnan(event.gap.median):
        return "–"
    modelled = 0.0
    if consumption_of(peer) is Consumption.EAGER:
        in_step = event.event != "slow"
        interval = settings["heartbeat_interval_ms" if in_step else "slow_heartbeat_ms"] / 1000
        model = PauseModel(heartbeat_interval_s=interval, heartbeats_in_step=in_step)
        modelled = 1000 * model.pause_s(Consumption.EAGER, 5 if event.event in ("join", "slow") else 4)
    return f"{event.gap.median - event.quiet_gap.median:.0f} / {modelled:.0f}"


def _default(name: str) -> str:
    return f"{getattr(PauseModel(), name)}"


def _settings(run: Results) -> Any:
    (settings,) = run.about["settings"]
    return settings


def _setting(run: Results, name: str) -> float:
    return float(_settings(run)[name])


def main(
    files: Annotated[list[Path], typer.Argument(exists=True)],
    as_markdown: Annotated[bool, typer.Option("--markdown")] = False,
) -> None:
    found = sheets([Results.read(file) for file in files])
    if as_markdown:
        print(markdown(found), end="")
    else:
        show(found, Console())


if __name__ == "__main__":
    typer.run(main)
