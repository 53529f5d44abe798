"""The groups of `kafka-assignors watch` as a table and as JSON objects, those that need attention first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from kafka_assignors_cli.console import Column, ColumnKind, FittedTable, counted, indented, printable

if TYPE_CHECKING:
    from kafka_assignors_spark.watch.fleet import FleetSnapshot, GroupSnapshot
    from kafka_assignors_spark.watch.metrics import WatchStatus

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
    from kafka_assignors_spark.result import to_json

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
    """A line about the watch, its latest `notes`, and the table, of at most so many groups."""
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
