"""Running groups as tables and as JSON objects.

Names from a cluster are shown as text, never as markup.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from kafka_assignors.group import quoted, shortened
from kafka_assignors_cli.console import Column, ColumnKind, FittedTable, counted, indented, printable
from kafka_assignors_cli.group_form import group_to_json
from kafka_assignors_ops.comparison import StrategyComparison, StrategyResult
from kafka_assignors_ops.live_group import CONSUMER, LiveGroup, LiveMember, as_group, as_member


def summary_json(live: LiveGroup) -> dict[str, Any]:
    """The row of a group in the list. Unknown values, such as loads during a rebalance, are null.

    `idle` counts the members without a partition. `max_over_mean` is the greatest load over the mean load; it
    is null also if no member has a partition.
    """
    loads = live.loads
    total = sum(loads) if loads is not None else None
    return {
        "group": live.id,
        "type": live.group_type,
        "state": live.state,
        "protocol": live.protocol,
        "members": len(live.members),
        "idle": None if loads is None else loads.count(0),
        "partitions": total,
        "max_over_mean": max(loads) * len(loads) / total if loads and total else None,
    }


def describe_json(live: LiveGroup, comparison: StrategyComparison) -> dict[str, Any]:
    """The group in the form that `kafka-assignors assign` reads, with everything else under `about`.

    The measures of the current and of other assignments are left out for a group without members.
    """
    about: dict[str, Any] = {
        **summary_json(live),
        "clients": {
            member.id: {
                "client_id": member.client_id,
                "host": member.host,
                "partitions": member.load,
                "rack_misses": _rack_misses(live, member),
            }
            for member in live.members
        },
        "notes": [*_notes(live)],
    }
    if live.members:
        about["now"] = dataclasses.asdict(comparison.now)
        about["least_moved"] = comparison.least_moved
        about["strategies"] = {
            result.strategy: {"problem": result.problem}
            if result.quality is None
            else dataclasses.asdict(result.quality)
            for result in comparison.results
        }
    return {**group_to_json(as_group(live)), "about": about}


def _rack_misses(live: LiveGroup, member: LiveMember) -> int | None:
    """Partitions of the member without a replica in its rack; None where racks are unknown."""
    if member.rack is None or member.assigned is None or live.hidden_topics & member.assigned.keys():
        return None
    known = {name: topic for name, topic in (live.topics or {}).items() if topic.replica_racks is not None}
    misses = [
        len(known[name].rack_misses(member.rack, partitions))
        for name, partitions in member.assigned.items()
        if name in known
    ]
    return sum(misses) if misses else None


def _notes(live: LiveGroup) -> Iterator[str]:
    """What the cluster does not show, and the assumptions of the figures, one sentence each."""
    if live.group_type == CONSUMER:
        yield (
            "KIP-848: the broker assigns and no strategy of a client runs; "
            "what strategies would do is for a group moved back to the classic protocol"
        )
    if undecodable := [member for member in live.members if member.problem is not None]:
        yield (
            f"bytes of {counted(len(undecodable), 'member')} do not decode, the first being "
            f"{quoted(undecodable[0].id)}: {undecodable[0].problem}"
        )
    hidden = sum(member.subscription is None and member.problem is None for member in live.members)
    if hidden and live.loads is not None:
        yield (
            f"subscriptions and racks of {hidden} members are hidden: "
            "they are taken to subscribe to all topics of the group"
        )
    for name, why in live.unknown_topics.items():
        yield f"topic {name!r} is not shown: {why}"
    for member in live.members:
        warmth = as_member(live, member, frozenset()).warmth
        if warmth is not None and (warmth.draining or warmth.warming or warmth.ready):
            listed, ready = (sum(map(len, each.values())) for each in (warmth.warming, warmth.ready))
            drains = " and drains" if warmth.draining else ""
            yield (
                f"member {quoted(member.id)} warmed {counted(listed + ready, 'partition')}, {ready} of them "
                f"ready, when it joined last{drains}"
            )
    yield from live.problems
    if live.unknown_owners:
        yield live.unknown_owners


# ---- tables

_UNKNOWN = "–"

_GROUP_COLUMNS = (
    Column("group", ColumnKind.NAME),
    Column("type", ColumnKind.TOKEN, leave_out=5),
    Column("state", ColumnKind.TOKEN, leave_out=2),
    Column("assignor", ColumnKind.TOKEN, leave_out=3),
    Column("members", leave_out=1),
    Column("idle"),
    Column("partitions", leave_out=4),
    Column("fullest / mean"),
)
_MEMBER_COLUMNS = (
    Column("member", ColumnKind.NAME),
    Column("instance", ColumnKind.NAME, leave_out=4),
    Column("client", ColumnKind.NAME, leave_out=5),  # most member ids start with it
    Column("host", ColumnKind.NAME, leave_out=3),
    Column("rack", ColumnKind.NAME, leave_out=2),
    Column("partitions"),
    Column("rack misses", leave_out=1),
)
_STRATEGY_COLUMNS = (
    Column("strategy", ColumnKind.NAME),
    Column("moved"),
    Column("without owner"),
    Column("fullest / mean"),
    Column("fewest–most", leave_out=1),
    Column("rack misses"),
)


def group_list(groups: Sequence[LiveGroup], problems: Sequence[str] = ()) -> list[RenderableType]:
    """The table of groups, one row each, and the problems of reading them."""
    if not groups:
        return [Text("no groups"), *indented(problems)]
    table = FittedTable(_GROUP_COLUMNS)
    for live in groups:
        row = summary_json(live)
        table.add(
            [
                _name(live.id),
                live.group_type,
                Text(live.state, style="" if live.state in ("Stable", "Empty") else "bold yellow"),
                _name(live.protocol),
                f"{len(live.members):,}",
                Text(_count(row["idle"]), style="bold yellow" if row["idle"] else ""),
                _count(row["partitions"]),
                _UNKNOWN if row["max_over_mean"] is None else f"{row['max_over_mean']:.2f}",
            ]
        )
    own = [f"{shortened(live.id)}: {problem}" for live in groups for problem in live.problems]
    return [table, *indented([*problems, *own])]


def description(live: LiveGroup, comparison: StrategyComparison | None) -> list[RenderableType]:
    """The details of one group; `comparison` is None if the owners of its partitions are not known."""
    parts: list[RenderableType] = [_head(live)]
    if live.members:
        parts.append(_members(live))
    if comparison is not None and live.members:
        parts += _strategies(comparison)
    return [*parts, *indented(_notes(live)), Text()]


def _head(live: LiveGroup) -> RenderableType:
    row = summary_json(live)
    facts = [
        f"{live.group_type}, {live.state}",
        f"assignor {printable(live.protocol)}" if live.protocol else "",
        f"{len(live.members):,} members ({_count(row['idle'])} idle)",
        f"{_count(row['partitions'])} partitions",
    ]
    text = Text(printable(shortened(live.id)), style="bold")
    return text.append(f": {', '.join(filter(None, facts))}", style="not bold")


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
                _count(_rack_misses(live, member)),
            ],
            style="bold yellow" if idle else "",
        )
    return table


def _strategies(comparison: StrategyComparison) -> list[RenderableType]:
    least = counted(comparison.least_moved, "move")
    title = f"What each strategy would move now (the best balance needs {least})"
    table = FittedTable(_STRATEGY_COLUMNS, title)
    for result in (StrategyResult("as it is", comparison.now), *comparison.results):
        quality = result.quality
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
        style = "dim" if result.strategy == "as it is" else ""
        table.add([_name(result.strategy), *cells], style=style)
    problems = [f"{each.strategy}: {each.problem}" for each in comparison.results if each.problem]
    return [table, *indented(problems)]


def _name(name: str | None) -> Text:
    return Text(printable(name) if name else _UNKNOWN)


def _count(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,}"
