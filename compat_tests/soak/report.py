"""The result of a soak, as a table and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from compat_tests.soak.counts import MEASURES
from compat_tests.soak.growth import Growth, Series, growing, growth_of, read
from compat_tests.soak.members import member
from compat_tests.soak.run import CLIENTS, ROLES, name_of

__all__ = ["Judged", "judge", "table", "write_json"]


LONGEST_LIST = 8


@dataclass(frozen=True, slots=True)
class Judged:
    """One consumer after a soak.

    Attributes:
        growth: of all measures.
        growing: of the measures and types that grow beyond their tolerance; for stock consumers they are
            reported, but do not fail the soak.
    """

    client: str
    consumer: str
    role: str
    series: Series
    growth: dict[str, Growth]
    growing: dict[str, Growth]

    @property
    def is_ours(self) -> bool:
        return self.consumer != member.STOCK

    @property
    def broken(self) -> bool:
        return self.is_ours and bool(self.growing)


def judge(folder: Path) -> list[Judged]:
    """Judge all consumers that have samples."""
    return [
        _judge_one(client, consumer, role, file)
        for client in CLIENTS
        for consumer, roles in ROLES.items()
        for role in roles
        if (file := folder / f"{name_of(client, consumer, role)}.jsonl").exists()
    ]


def _judge_one(client: str, consumer: str, role: str, file: Path) -> Judged:
    series = read(file)
    try:
        growth = {name: growth_of(series.times, series.measures[name]) for name in MEASURES}
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from None
    return Judged(client, consumer, role, series, growth, growing(series))


def table(found: list[Judged]) -> str:
    """A Markdown table: the level of each measure, and its growth per hour."""
    shown = ("callbacks", "futures", "tasks", "threads", "fds", "objects", "traced_bytes", "rss_bytes")
    lines = [
        "| client | consumer | role | hours | turns | callbacks | futures | tasks | threads | fds | objects "
        "| traced kB | RSS MB | grows |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for one in found:
        cells = [_cell(name, one.growth[name]) for name in shown]
        grows = _names(one.growing)
        lines.append(
            f"| {one.client.replace('_', '-')} | {one.consumer} | {one.role} | {one.series.hours:.2f} "
            f"| {one.series.last['turns']:.0f} | {' | '.join(cells)} | {grows} |"
        )
    return "\n".join(lines)


def _names(growing: dict[str, Growth]) -> str:
    """The growing names. Measures come first, so that a long list is cut off in the types."""
    names = list(growing)
    return ", ".join(names[:LONGEST_LIST]) + (", …" if len(names) > LONGEST_LIST else "") or "–"


def _cell(name: str, growth: Growth) -> str:
    unit, digits = {"traced_bytes": (1024, 1), "rss_bytes": (1024**2, 2)}.get(name, (1, 0))
    per_hour = growth.per_hour / unit
    gained = f"{per_hour:+.{digits}f}" if abs(per_hour) >= 0.5 * 10**-digits else "0"
    return f"{growth.level / unit:.{digits}f} ({gained})"


def write_json(found: list[Judged], file: Path) -> None:
    def growth(of: dict[str, Growth]) -> dict[str, dict[str, float]]:
        return {name: asdict(one) for name, one in of.items()}

    results = [
        {
            "client": one.client,
            "consumer": one.consumer,
            "role": one.role,
            "hours": one.series.hours,
            "turns": one.series.last["turns"],
            "growth": growth(one.growth),
            "growing": growth(one.growing),
        }
        for one in found
    ]
    file.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
