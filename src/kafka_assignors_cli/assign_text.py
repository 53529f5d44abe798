"""The answer of `assign` as a table and sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from kafka_assignors.group import Group, pairs
from kafka_assignors_cli.console import Column, ColumnKind, FittedTable, counted, indented, printable

_COLUMNS = (
    Column("member", ColumnKind.NAME),
    Column("partitions"),
    Column("gains", leave_out=2),
    Column("gives up", leave_out=1),
    Column("assigned", ColumnKind.WORDS, leave_out=3),
)
_SHOWN_RANGES = 12


def answer_renderables(
    where: str, strategy: str, group: Group, answer: Mapping[str, Any]
) -> list[RenderableType]:
    """The answer for a group, `where` in the input, given its JSON form: who has what, then its measures."""
    table = FittedTable(_COLUMNS, printable(f"{where}: {strategy}"))
    prior = {member: {*pairs(owned)} for member, owned in group.claims.owners.items()}
    for member, topics in answer["assignment"].items():
        now, before = {*pairs(topics)}, prior.get(member, set())
        cells = (f"{len(now):,}", f"{len(now - before):,}", f"{len(before - now):,}", _assigned(topics))
        table.add([printable(member), *cells])
    return [table, *indented(_sentences(answer))]


def _assigned(topics: Mapping[str, Sequence[int]]) -> str:
    return "; ".join(f"{printable(topic)} {_ranges(partitions)}" for topic, partitions in topics.items())


def _ranges(partitions: Sequence[int]) -> str:
    """`0–2, 5`, of ascending numbers; at most `_SHOWN_RANGES` of them."""
    ranges: list[list[int]] = []
    for partition in partitions:
        if ranges and ranges[-1][1] == partition - 1:
            ranges[-1][1] = partition
        else:
            ranges.append([partition, partition])
    shown = [str(low) if low == high else f"{low}–{high}" for low, high in ranges[:_SHOWN_RANGES]]
    more = ["and more"] if len(ranges) > _SHOWN_RANGES else []
    return ", ".join(shown + more)


def _sentences(answer: Mapping[str, Any]) -> Iterator[str]:
    quality = answer["quality"]
    yield (
        f"{counted(quality['partitions'], 'partition')} on {counted(quality['members'], 'member')}: "
        f"{quality['min_load']:,} to {quality['max_load']:,} each; {quality['moved']:,} moved, "
        f"{quality['kept']:,} kept, {quality['forced']:,} had no owner"
    )
    if waiting := sum(len({*pairs(topics)}) for topics in answer.get("withheld", {}).values()):
        yield f"{counted(waiting, 'partition')} wait until the present owner has revoked them"
    if dropped := answer.get("dropped_claims"):
        yield f"{counted(len(dropped), 'claim')} of faulty members dropped: --json names them"
    findings = answer.get("findings", ())
    yield from findings
    if "loads" in answer:
        yield _about_loads(answer["loads"])
        unknown = answer["loads"]["unknown_weights"]
        if unknown and not any("weight" in said for said in findings):  # `weighted` has said it.
            yield f"{counted(unknown, 'unknown weight')}: a median stands in"
    if "settle" in answer:
        moves = len(answer["settle"]["moves"])
        yield (
            f"not settled: a second run from this result moves {counted(moves, 'partition')}"
            if moves
            else "settled: a second run from this result moves nothing"
        )


def _about_loads(loads: Mapping[str, Any]) -> str:
    """One sentence about the loads by weight, given their JSON form."""
    return (
        f"by weight: the greatest load is {loads['makespan']}, and no assignment has less than "
        f"{loads['lower_bound']}: at most {_above(loads['ratio'])} times the optimum"
    )


def _above(number: float) -> str:
    """Two decimal places, rounded up: rounding must not improve a bound."""
    return f"{math.ceil(number * 100 - 1e-9) / 100:.2f}"
