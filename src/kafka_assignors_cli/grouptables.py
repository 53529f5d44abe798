"""Running groups on a terminal. Whatever a cluster or a member named is shown as text, never as markup."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from kafka_assignors.livegroup import LiveGroup
from kafka_assignors.outlook import Outlook, Prospect
from kafka_assignors_cli.console import printable
from kafka_assignors_cli.fitted import Column, FittedTable, Kind
from kafka_assignors_cli.groupfigures import assumptions, member_lag, problems_of, rack_misses, summarize

__all__ = ["description", "group_list"]

_UNKNOWN = "–"

_GROUP_COLUMNS = (
    Column("group", Kind.NAME),
    Column("type", Kind.TOKEN, leave_out=4),
    Column("state", Kind.TOKEN, leave_out=1),
    Column("assignor", Kind.TOKEN, leave_out=2),
    Column("members"),
    Column("idle"),
    Column("partitions", leave_out=3),
    Column("fullest/mean"),
    Column("lag"),
)
_MEMBER_COLUMNS = (
    Column("member", Kind.NAME),
    Column("instance", Kind.NAME, leave_out=4),
    Column("client", Kind.NAME, leave_out=5),  # a member id mostly begins with it
    Column("host", Kind.NAME, leave_out=3),
    Column("rack", Kind.NAME, leave_out=2),
    Column("partitions"),
    Column("rack misses", leave_out=1),
    Column("lag"),
)
_STRATEGY_COLUMNS = (
    Column("strategy", Kind.NAME),
    Column("moved"),
    Column("without owner"),
    Column("fullest/mean"),
    Column("fewest–most", leave_out=1),
    Column("rack misses"),
)


def group_list(groups: Sequence[LiveGroup], problems: Sequence[str] = ()) -> list[RenderableType]:
    """A row for each group."""
    if not groups:
        return [Text("no groups"), *_lines(problems)]
    table = FittedTable(_GROUP_COLUMNS)
    for live in groups:
        summary = summarize(live)
        table.add(
            [
                _name(summary.group),
                summary.type,
                Text(summary.state, style="" if summary.state in ("Stable", "Empty") else "bold yellow"),
                _name(summary.protocol),
                f"{summary.members:,}",
                Text(_count(summary.idle), style="bold yellow" if summary.idle else ""),
                _count(summary.partitions),
                _UNKNOWN if summary.max_over_mean is None else f"{summary.max_over_mean:.2f}",
                _count(summary.lag),
            ]
        )
    own = [f"{live.id}: {problem}" for live in groups for problem in problems_of(live)]
    return [table, *_lines([*problems, *own])]


def description(live: LiveGroup, outlook: Outlook | None) -> list[RenderableType]:
    """All about one group; `outlook` is None while it rebalances, and while a topic of it is hidden."""
    parts: list[RenderableType] = [_head(live)]
    if live.members:
        parts.append(_members(live))
    if outlook is not None and live.members:
        parts += _strategies(outlook)
    if not live.settled:
        parts.append(Text("The group is rebalancing: what its members own is not known now."))
    return [*parts, *_lines([*assumptions(live), *problems_of(live)]), Text()]


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


def _members(live: LiveGroup) -> FittedTable:
    table = FittedTable(_MEMBER_COLUMNS)
    for member in live.members:
        idle = member.load == 0
        table.add(
            [
                _name(member.id),
                _name(member.instance_id),
                _name(member.client_id),
                _name(member.host),
                _name(member.rack),
                "idle" if idle else _count(member.load),
                _count(rack_misses(live, member)),
                _count(member_lag(live, member)),
            ],
            style="bold yellow" if idle else "",
        )
    return table


def _strategies(outlook: Outlook) -> list[RenderableType]:
    table = FittedTable(
        _STRATEGY_COLUMNS,
        f"What each strategy would move now (the best balance needs {outlook.least_moved:,} moves)",
    )
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
        table.add([_name(prospect.strategy), *cells], style=style)
    problems = [f"{each.strategy}: {each.problem}" for each in outlook.prospects if each.problem]
    return [table, *_lines(problems)]


def _lines(sentences: Sequence[str]) -> list[RenderableType]:
    return [Padding(Text(printable(sentence)), (0, 0, 0, 2)) for sentence in sentences]


def _name(name: str | None) -> Text:
    return Text(printable(name) if name else _UNKNOWN)


def _count(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,}"
