"""The tables of docs/autoscaling.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from benchmarks.autoscaling.results import Row

__all__ = ["no_worse", "table", "verdict"]

_HEAD = """\
| contestant | consumers | p99, s | p99.9, s | p99 of our pauses, s | R-score | moved | overloaded, % |
|---|--:|--:|--:|--:|--:|--:|--:|"""


def table(rows: Sequence[Row]) -> str:
    """A line for each contestant of one trace; moved partitions and R-score are means per measurement."""
    return "\n".join([_HEAD, *map(_line, rows)])


def _line(row: Row) -> str:
    name = row.name if row.kind in ("published", "equal") else f"**{row.name}**"
    cells = (
        name,
        f"{row.consumers:.1f}",
        f"{row.p99_s:.2f}",
        f"{row.p999_s:.2f}",
        f"{row.modelled_p99_s:.2f}",
        f"{row.r_score:.2f}",
        f"{row.moved:.1f}",
        f"{row.overloaded:.1f}",
    )
    return f"| {' | '.join(cells)} |"


def no_worse(ours: Row, other: Row) -> bool:
    """Whether R-score and p99 are both no greater."""
    return ours.r_score <= other.r_score and ours.p99_s <= other.p99_s


def dominates(ours: Row, other: Row) -> bool:
    """Whether consumers, R-score and p99 are all no greater, and at least one is less."""
    pairs = [
        (ours.consumers, other.consumers),
        (ours.r_score, other.r_score),
        (ours.p99_s, other.p99_s),
    ]
    return all(mine <= theirs for mine, theirs in pairs) and any(mine < theirs for mine, theirs in pairs)


def verdict(by_trace: Mapping[str, Sequence[Row]]) -> str:
    """Each published heuristic over all traces, compared with ours with as many and any consumers."""
    names = dict.fromkeys(row.name for rows in by_trace.values() for row in rows if row.kind == "published")
    return "\n".join(
        [
            "| published | R-score, p99 | ours with as many consumers | no worse on | dominated on |",
            "|---|---|---|---|---|",
            *(_verdict(name, list(by_trace.values())) for name in names),
        ]
    )


def _verdict(name: str, traces: Sequence[Sequence[Row]]) -> str:
    published = [next(row for row in rows if row.name == name) for rows in traces]
    as_many = [row for rows in traces for row in rows if row.kind == "as many" and row.beside == name]
    no_worse_on = sum(map(no_worse, as_many, published))
    dominated_on = sum(
        any(dominates(row, other) for row in rows if row.kind == "ours")
        for rows, other in zip(traces, published, strict=True)
    )
    cells = (
        name,
        _means(published),
        _means(as_many) if as_many else "",
        f"{no_worse_on} of {len(as_many)}" if as_many else "",
        f"{dominated_on} of {len(traces)}",
    )
    return f"| {' | '.join(cells)} |"


def _means(rows: Sequence[Row]) -> str:
    return f"{fmean(row.r_score for row in rows):.2f}, {fmean(row.p99_s for row in rows):.2f} s"
