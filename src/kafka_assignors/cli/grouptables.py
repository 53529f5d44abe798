"""Running groups on a terminal. Whatever a cluster or a member named is shown as text, never as markup."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kafka_assignors.cli.console import printable
from kafka_assignors.cli.groupfigures import assumptions, member_lag, rack_misses, summarize
from kafka_assignors.livegroup import LiveGroup
from kafka_assignors.outlook import Outlook, Prospect

__all__ = ["description", "group_list"]

_UNKNOWN = "–"


def group_list(groups: Sequence[LiveGroup], problems: Sequence[str] = ()) -> list[RenderableType]:
    """A row for each group."""
    if not groups:
        return [Text("no groups"), *_lines(problems)]
    table = _table()
    table.add_column("group", overflow="fold")
    for head in ("type", "state", "assignor"):
        table.add_column(head, no_wrap=True)
    for head in ("members", "idle", "partitions", "fullest/mean", "lag"):
        table.add_column(head, justify="right", no_wrap=True)
    for live in groups:
        summary = summarize(live)
        table.add_row(
            _name(summary.group),
            summary.type,
            Text(summary.state, style="" if summary.state in ("Stable", "Empty") else "bold yellow"),
            _name(summary.protocol),
            f"{summary.members:,}",
            Text(_count(summary.idle), style="bold yellow" if summary.idle else ""),
            _count(summary.partitions),
            _UNKNOWN if summary.max_over_mean is None else f"{summary.max_over_mean:.2f}",
            _count(summary.lag),
        )
    own = [f"{live.id}: {problem}" for live in groups for problem in live.problems]
    return [table, *_lines([*problems, *own])]


def description(live: LiveGroup, outlook: Outlook | None) -> list[RenderableType]:
    """All about one group; `outlook` is None where there is none, as of a group that rebalances."""
    parts: list[RenderableType] = [_head(live)]
    if live.members:
        parts.append(_members(live))
    if outlook is not None and live.members:
        parts.append(_strategies(outlook))
    if not live.settled:
        parts.append(Text("The group is rebalancing: what its members own is not known now."))
    return [*parts, *_lines([*assumptions(live), *live.problems]), Text()]


def _head(live: LiveGroup) -> RenderableType:
    summary = summarize(live)
    text = Text(printable(live.id), style="bold")
    facts = [f"{summary.type}, {summary.state}"]
    if summary.protocol:
        facts.append(f"assignor {printable(summary.protocol)}")
    if live.coordinator is not None:
        node = live.coordinator
        facts.append(f"coordinator {node.id} ({printable(node.host)}:{node.port})")
    facts.append(f"{summary.members:,} members ({_count(summary.idle)} idle)")
    facts.append(f"{_count(summary.partitions)} partitions")
    facts.append(f"lag {_count(summary.lag)}")
    return text.append(f": {', '.join(facts)}", style="not bold")


def _members(live: LiveGroup) -> Table:
    table = _table()
    table.add_column("member", overflow="fold")
    for head in ("instance", "client", "host", "rack"):
        table.add_column(head, overflow="fold")
    for head in ("partitions", "rack misses", "lag"):
        table.add_column(head, justify="right")
    for member in live.members:
        idle = member.load == 0
        table.add_row(
            _name(member.id),
            _name(member.instance_id),
            _name(member.client_id),
            _name(member.host),
            _name(member.rack),
            "idle" if idle else _count(member.load),
            _count(rack_misses(live, member)),
            _count(member_lag(live, member)),
            style="bold yellow" if idle else "",
        )
    return table


def _strategies(outlook: Outlook) -> Table:
    table = _table(
        f"What each strategy would move now (the best balance needs {outlook.least_moved:,} moves)"
    )
    table.add_column("strategy", no_wrap=True)
    for head in ("moved", "without owner", "fullest/mean", "fewest–most", "rack misses"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("")
    for prospect in (Prospect("as it is", outlook.now), *outlook.prospects):
        quality = prospect.quality
        if quality is None:
            cells = [_UNKNOWN] * 5
        else:
            cells = [
                f"{quality.moved:,}",
                f"{quality.forced:,}",
                f"{quality.max_over_mean:.2f}",
                f"{quality.min_load:,}–{quality.max_load:,}",
                _count(quality.rack_misses),
            ]
        style = "dim" if prospect.strategy == "as it is" else ""
        table.add_row(_name(prospect.strategy), *cells, _name(prospect.problem or " "), style=style)
    return table


def _table(title: str | None = None) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )


def _lines(sentences: Sequence[str]) -> list[RenderableType]:
    return [Padding(Text(printable(sentence)), (0, 0, 0, 2)) for sentence in sentences]


def _name(name: str | None) -> Text:
    return Text(printable(name) if name else _UNKNOWN)


def _count(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,}"
