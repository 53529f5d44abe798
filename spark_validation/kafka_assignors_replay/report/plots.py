"""The geometry of the report's plots, which `plots.html.j2` draws as plain HTML and SVG, without a script.

Horizontal positions are thousandths of the plot's width. Times that fall into one thousandth are drawn as
one, so that the size of a plot is bounded. A strategy or member has a `look`, a number that the style sheet
turns into a colour and a dash: 0 is the recorded one, and each strategy has one look in all plots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import NamedTuple

from kafka_assignors_replay.history.measures import Verdict
from kafka_assignors_replay.report.findings import grouped
from kafka_assignors_replay.result import RECORDED, GroupSummary, OwnershipSpan, TimelineRow

_WIDTH = 1000
_LOOKS = 6
_STRIPES = 4
_SMALLEST_DOT, _LARGEST_DOT = 3.0, 9.0
"""Radius in pixels."""


class Bar(NamedTuple):
    """Moved partitions under one strategy; `width` and `least_at` are thousandths of the longest bar."""

    verdict: Verdict
    look: int
    width: int
    least_at: int


class Period(NamedTuple):
    """The time span of a plot's width."""

    begin: datetime
    end: datetime

    @property
    def middle(self) -> datetime:
        return self.begin + (self.end - self.begin) / 2

    def at(self, timestamp: datetime) -> int:
        length = (self.end - self.begin) / timedelta(microseconds=1)
        passed = (timestamp - self.begin) / timedelta(microseconds=1)
        return round(_WIDTH * min(max(passed / length, 0), 1)) if length else 0


class Dot(NamedTuple):
    """The rebalances of one thousandth of the period; `radius` is in pixels."""

    at: int
    radius: float
    moved: int
    title: str


class Strip(NamedTuple):
    group: str
    dots: tuple[Dot, ...]


class Line(NamedTuple):
    """A step line as SVG path; the y axis points downwards, and ends at 1000."""

    name: str
    look: int
    path: str


class LinePlot(NamedTuple):
    """Lines over a period; `ticks` label the top, the middle and the bottom of the y axis."""

    period: Period
    ticks: tuple[str, str, str]
    lines: tuple[Line, ...]


class Owner(NamedTuple):
    """The partitions of one member as SVG path: a horizontal line for each span, in the middle of its row.
    Members of one look have different stripes."""

    member: str
    look: int
    stripe: int
    path: str


class OwnershipPlot(NamedTuple):
    """A row for each partition, of height 1 in terms of the paths."""

    period: Period
    partitions: tuple[str, ...]
    owners: tuple[Owner, ...]


def _looks(names: Sequence[str]) -> dict[str, int]:
    """The look of each strategy; `names` are all strategies, in the order in which the report lists them."""
    others = (name for name in names if name != RECORDED)
    return {RECORDED: 0} | {name: 1 + index % _LOOKS for index, name in enumerate(others)}


def bars(figures: Sequence[Verdict], names: Sequence[str]) -> tuple[Bar, ...]:
    """Bars of moved partitions with the fewest possible, on one scale."""
    longest = max((max(each.moved, each.least_moved) for each in figures), default=0) or 1
    look = _looks(names)
    return tuple(
        Bar(
            each,
            look[each.strategy],
            round(_WIDTH * each.moved / longest),
            round(_WIDTH * each.least_moved / longest),
        )
        for each in figures
    )


def timeline(
    rows: Sequence[TimelineRow], groups: Sequence[GroupSummary]
) -> tuple[Period | None, tuple[Strip, ...]]:
    """When each group rebalanced, from the recorded rows: dots, larger the more partitions moved."""
    by_group = grouped(sorted(rows, key=attrgetter("timestamp")), attrgetter("group"))
    shown = {summary.group: by_group[summary.group] for summary in groups if summary.group in by_group}
    period = _period([row for own in shown.values() for row in own])
    if period is None:
        return None, ()
    place = period.at
    merged = {group: grouped(own, lambda row: place(row.timestamp)) for group, own in shown.items()}
    most = max(_moved(at) for places in merged.values() for at in places.values()) or 1
    return period, tuple(
        Strip(group, tuple(_dot(at, own, most) for at, own in places.items()))
        for group, places in merged.items()
    )


def _moved(rows: Sequence[TimelineRow]) -> int:
    return sum(row.measures.moved for row in rows)


def _dot(at: int, rows: Sequence[TimelineRow], most: int) -> Dot:
    moved = _moved(rows)
    radius = _SMALLEST_DOT + (_LARGEST_DOT - _SMALLEST_DOT) * math.sqrt(moved / most)
    first, last = rows[0].generation, rows[-1].generation
    generations = f"generation {first}" if first == last else f"generations {first} to {last}"
    return Dot(at, round(radius, 1), moved, f"{generations}: {moved:,} moved")


def moved_over_time(rows: Sequence[TimelineRow], names: Sequence[str]) -> LinePlot | None:
    """One group: moved partitions, summed up over time, a line for each strategy."""
    return _line_plot(rows, names, lambda own: [*accumulate(row.measures.moved for row in own)], 0, "{:,.0f}")


def balance_over_time(rows: Sequence[TimelineRow], names: Sequence[str]) -> LinePlot | None:
    """One group: the load of the fullest member as a multiple of the mean, a line for each strategy."""
    return _line_plot(rows, names, lambda own: [row.measures.max_over_mean for row in own], 1, "{:.1f}")


def _line_plot(
    rows: Sequence[TimelineRow],
    names: Sequence[str],
    values_of: Callable[[Sequence[TimelineRow]], Sequence[float]],
    bottom: int,
    label: str,
) -> LinePlot | None:
    period = _period(rows)
    if period is None:
        return None
    by_strategy = grouped(sorted(rows, key=attrgetter("timestamp")), attrgetter("strategy"))
    series = {name: values_of(by_strategy[name]) for name in names if name in by_strategy}
    height = _round_up(max(max(values) for values in series.values()) - bottom)
    look = _looks(names)
    lines = []
    for name, values in series.items():
        # The greatest of the values in one thousandth: the sum so far, or the worst balance.
        at: dict[int, float] = {}
        for row, value in zip(by_strategy[name], values, strict=True):
            place = period.at(row.timestamp)
            at[place] = max(value, at.get(place, value))
        points = [(place, round(_WIDTH * (1 - (value - bottom) / height))) for place, value in at.items()]
        lines.append(Line(name, look[name], _steps(points)))
    top, middle, low = (label.format(bottom + height * share) for share in (1, 0.5, 0))
    return LinePlot(period, (top, middle, low), tuple(lines))


def _steps(points: Sequence[tuple[int, int]]) -> str:
    """A step line: to the right, then up or down, without repeated points."""
    x, y = points[0]
    path = f"M{x} {y}"
    for at, height in points[1:]:
        if height != y:
            path, y = f"{path}H{at}V{height}", height
    return f"{path}H{points[-1][0]}"


def _round_up(value: float) -> float:
    """The next number that reads well together with its half."""
    if value <= 0:
        return 1
    magnitude: float = 10 ** math.floor(math.log10(value))
    return next(step * magnitude for step in (1, 2, 4, 6, 8, 10) if step * magnitude >= value)


def ownership(spans: Sequence[OwnershipSpan]) -> OwnershipPlot | None:
    """One group: which member owned which partition, and when."""
    if not spans:
        return None
    period = Period(min(span.begin for span in spans), max(span.end for span in spans))
    places = sorted({(span.topic, span.partition) for span in spans})
    rows = {place: row for row, place in enumerate(places)}
    by_member = grouped(sorted(spans, key=attrgetter("begin")), attrgetter("member"))
    owners = (
        Owner(member, 1 + index % _LOOKS, index // _LOOKS % _STRIPES, _span_path(own, rows, period))
        for index, (member, own) in enumerate(by_member.items())
    )
    return OwnershipPlot(period, tuple(f"{topic}-{number}" for topic, number in places), tuple(owners))


def _span_path(spans: Sequence[OwnershipSpan], rows: Mapping[tuple[str, int], int], period: Period) -> str:
    path = ""
    for span in spans:
        begin, end = period.at(span.begin), period.at(span.end)
        # A gap marks where the owner changed; the shortest span still shows.
        path += f"M{begin} {rows[span.topic, span.partition]}.5h{max(end - begin - 2, 1)}"
    return path


def owner_changes(spans: Sequence[OwnershipSpan]) -> list[tuple[OwnershipSpan, OwnershipSpan]]:
    """Each span of a partition with the next one, of another member; the oldest change first."""
    by_place = grouped(sorted(spans, key=attrgetter("begin")), attrgetter("topic", "partition"))
    changes = [
        (before, after)
        for own in by_place.values()
        for before, after in pairwise(own)
        if before.member != after.member
    ]
    return sorted(changes, key=lambda change: (change[1].begin, change[1].topic, change[1].partition))


def shortened(text: str, width: int = 30) -> str:
    """`text` with its middle left out; half as many characters where they may be wide."""
    width = width if text.isascii() else width // 2
    return text if len(text) <= width else f"{text[: width // 2 - 1]}…{text[-(width // 2) :]}"


def _period(rows: Sequence[TimelineRow]) -> Period | None:
    times = [row.timestamp for row in rows]
    return Period(min(times), max(times)) if times else None
