"""The tables of docs/autoscaling.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.autoscaling.results import Row

__all__ = ["no_worse", "table", "verdict"]

_HEAD = """\
| contestant | consumers | p99, s | p99.9, s | p99 of our pauses, s | R-score | moved | overloaded, % |
|---|--:|--:|--:|--:|--:|--:|--:|"""


def table(rows: Sequence[Row]) -> str:
    """One trace, a line for each contestant; moved partitions and R-score at a measurement, in the mean."""
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
    """Whether no figure of consumers, R-score and p99 is greater, and one is less."""
    pairs = [
        (ours.consumers, other.consumers),
        (ours.r_score, other.r_score),
        (ours.p99_s, other.p99_s),
    ]
    return all(mine <= theirs for mine, theirs in pairs) and any(mine < theirs for mine, theirs in pairs)


def verdict(by_trace: Mapping[str, Sequence[Row]]) -> str:
    """For each trace and published heuristic: with as many consumers, and who of ours dominates it."""
    return "\n".join(
        [
            "| trace | published | R-score, p99 | ours with as many consumers | no worse | dominated by |",
            "|---|---|---|---|---|---|",
            *(line for trace, rows in by_trace.items() for line in _verdicts(trace, rows)),
        ]
    )


def _verdicts(trace: str, rows: Sequence[Row]) -> Iterator[str]:
    as_many = {row.beside: row for row in rows if row.kind == "as many"}
    of_ours = [row for row in rows if row.kind == "ours"]
    for other in rows:
        if other.kind != "published":
            continue
        ours = as_many.get(other.name)
        cells = (
            trace,
            other.name,
            f"{other.r_score:.2f}, {other.p99_s:.2f} s",
            "" if ours is None else f"{ours.r_score:.2f}, {ours.p99_s:.2f} s",
            "" if ours is None else "yes" if no_worse(ours, other) else "**no**",
            f"{sum(dominates(row, other) for row in of_ours)} of {len(of_ours)}",
        )
        yield f"| {' | '.join(cells)} |"
