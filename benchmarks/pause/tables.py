"""The tables, in Markdown."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.pause.summary import EventSummary, PeerSummary, Spread, middle

__all__ = ["Sheet", "markdown", "tables"]

Cells = Sequence[str]

EVENT_NAMES = {
    "none": "no event",
    "join": "join",
    "leave": "leave",
    "kill": "kill",
    "refill": "refill",
    "rolling": "rolling restart",
    "slow": "join with a slow peer",
}
ORDER = ("join", "leave", "kill", "refill", "rolling", "slow")


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table without formatting."""

    title: str
    columns: Cells
    rows: Sequence[Cells]


def tables(summaries: Sequence[PeerSummary], labels: Mapping[str, str]) -> list[Sheet]:
    """All tables of a run; `labels` has the name of each peer."""
    found = []
    for partitions in dict.fromkeys(one.partitions for one in summaries):
        peers = [one for one in summaries if one.partitions == partitions]
        of_events = functools.partial(_of_events, peers, labels, f"{partitions} partitions")
        found += [
            of_events(
                "the longest gap of each partition that stays, in ms: median / p99 / max "
                "(median and p99 over the same without an event)",
                lambda event: _beside(event.gap, event.quiet_gap),
                quiet=lambda event: _spread(event.gap),
            ),
            of_events(
                "from the end at the old owner to the first record at the new one, of each partition that "
                "moves, in ms: median / p99 / max",
                lambda event: _spread(event.delay),
            ),
            of_events("partitions moved (least)", lambda event: f"{_count(event.moved)} ({event.least})"),
            of_events("partitions revoked", lambda event: _count(event.revoked)),
            of_events("records delivered twice, all rounds", lambda event: str(event.duplicates)),
            _cpu(peers, labels, f"{partitions} partitions"),
        ]
    return [sheet for sheet in found if sheet.rows]


def markdown(sheets: Sequence[Sheet]) -> str:
    blocks = []
    for sheet in sheets:
        lines = [
            f"**{sheet.title}**",
            "",
            "| " + " | ".join(sheet.columns) + " |",
            "|---" + "|---:" * (len(sheet.columns) - 1) + "|",
            *("| " + " | ".join(row) + " |" for row in sheet.rows),
        ]
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"


def _of_events(
    peers: Sequence[PeerSummary],
    labels: Mapping[str, str],
    size: str,
    title: str,
    cell: Callable[[EventSummary], str],
    quiet: Callable[[EventSummary], str] | None = None,
) -> Sheet:
    """A line for each peer, a column for each event, and with `quiet` a column for no event."""
    names = [name for name in ORDER if any(_named(peer, name) for peer in peers)]
    columns = dict.fromkeys(names, cell)
    if quiet is not None:
        columns = {"none": quiet, **columns}
    rows = [
        [
            labels[peer.peer],
            *(show(event) if (event := _named(peer, name)) else "–" for name, show in columns.items()),
        ]
        for peer in peers
    ]
    return Sheet(f"{size}: {title}", ["", *(EVENT_NAMES[name] for name in columns)], rows if names else [])


def _cpu(peers: Sequence[PeerSummary], labels: Mapping[str, str], size: str) -> Sheet:
    rows = [
        [labels[peer.peer], *(_number(middle(peer.cpu[what])) for what in ("steady", "rest"))]
        for peer in peers
        if any(peer.cpu.values())
    ]
    return Sheet(f"{size}: CPU of a member, in ms per second", ["", "with records", "without records"], rows)


def _named(peer: PeerSummary, event: str) -> EventSummary | None:
    return next((one for one in peer.events if one.event == event), None)


def _beside(spread: Spread, quiet: Spread) -> str:
    if math.isnan(quiet.median) or math.isnan(spread.median):
        return _spread(spread)
    return f"{_spread(spread)} ({spread.median / quiet.median:.2f}, {spread.p99 / quiet.p99:.2f})"


def _spread(spread: Spread) -> str:
    if math.isnan(spread.median):
        return "–"
    return " / ".join(f"{value:.0f}" for value in (spread.median, spread.p99, spread.longest))


def _count(of_rounds: Sequence[int]) -> str:
    """The median of the rounds, and their range if they differ."""
    if not of_rounds:
        return "–"
    if min(of_rounds) == max(of_rounds):
        return str(of_rounds[0])
    return f"{middle(of_rounds):g} [{min(of_rounds)}–{max(of_rounds)}]"


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1f}"
