"""The figures of the report, as the plain values that plotly.js draws.

They are built without plotly's Python classes: a figure is data, and importing the classes costs a
second. Names of groups and strategies are untrusted text, and plotly reads a subset of HTML in text, so
every name is escaped here.

`names` are the strategies in the order in which all figures list them, so that each has one colour
throughout. Colours are those of Okabe and Ito, which stay apart for colour-blind readers; dashes and
marker shapes tell the strategies apart without any colour. `INK` and `FAINT` stand for colours of the
page's theme, put in when drawn.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from itertools import accumulate, pairwise
from typing import Any

from kafka_assignors_spark.options import RECORDED
from kafka_assignors_spark.report.findings import GroupFinding, StrategyTotal
from kafka_assignors_spark.result import GroupSummary, OwnershipSpan, TimelineRow, Verdict

__all__ = [
    "balance_over_time",
    "generations",
    "moved_by_group",
    "moved_in_total",
    "moved_over_time",
    "owner_changes",
    "ownership",
]

Figure = dict[str, Any]

INK, FAINT = "INK", "FAINT"

# Okabe and Ito, "Color Universal Design" (2008), without the yellow that vanishes on white.
_COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00")
_GREY = "#8a929b"
_DASHES = ("dash", "dot", "dashdot", "longdash", "longdashdot", "5px,2px")
_HATCHING = ("", "/", "x", ".", "-", "+")
_LABELLED = 40
_MOST_IN_LEGEND = 12
_SYMBOLS = ("square", "diamond", "triangle-up", "x", "star", "pentagon")


def moved_in_total(totals: Sequence[StrategyTotal]) -> Figure:
    """Bars of moved partitions per strategy over all groups, a stroke for the least possible across each."""
    names = [total.strategy for total in totals]
    style = _styles(names)
    ticks = list(range(len(names)))
    return {
        "data": [
            {
                "type": "bar",
                "name": "moved",
                "x": ticks,
                "y": [total.moved for total in totals],
                "text": [f"{total.moved:,}" for total in totals],
                "textposition": "auto",
                "insidetextanchor": "start",
                "insidetextfont": {"color": "#111111"},
                "textangle": 0,
                "cliponaxis": False,
                "width": 0.6,
                "marker": {"color": [style[name]["color"] for name in names]},
                "hovertemplate": "%{y:,} partitions moved<extra></extra>",
            },
            _least_marker("x", ticks, [total.least_moved for total in totals], size=46),
        ],
        "layout": {
            "height": 360,
            "showlegend": False,
            "xaxis": {
                "tickvals": ticks,
                "ticktext": [_name(name) for name in names],
                "showgrid": False,
                "zeroline": False,
            },
            "yaxis": {"title": {"text": "moved partitions"}, "rangemode": "tozero"},
        },
    }


def moved_by_group(
    findings: Sequence[GroupFinding], verdicts: Sequence[Verdict], names: Sequence[str]
) -> Figure:
    """Horizontal bars of moved partitions, a row for each finding's group and a bar for each strategy."""
    rows = {finding.group: row for row, finding in enumerate(reversed(findings))}
    by_strategy: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        if verdict.group in rows:
            by_strategy[verdict.strategy].append(verdict)
    style = _styles(names)
    bar = 0.8 / max(len(names), 1)
    data: list[dict[str, Any]] = []
    least_at: list[float] = []
    least: list[int] = []
    for index, name in enumerate(names):
        # From the top of each row downwards, in the order of the legend.
        at = [rows[verdict.group] + 0.4 - bar * (index + 0.5) for verdict in by_strategy[name]]
        least_at += at
        least += [verdict.least_moved for verdict in by_strategy[name]]
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": _name(name),
                "y": at,
                "x": [verdict.moved for verdict in by_strategy[name]],
                "width": bar * 0.9,
                "marker": {"color": style[name]["color"]},
                "customdata": [[_name(v.group), v.least_moved] for v in by_strategy[name]],
                "hovertemplate": "%{customdata[0]}<br>%{x:,} moved, least %{customdata[1]:,}"
                f"<extra>{_name(name)}</extra>",
            }
        )
    data.append(_least_marker("y", least_at, least, size=9))
    return {
        "data": data,
        "layout": {
            "height": 100 + len(rows) * (18 + 13 * len(names)),
            "barmode": "overlay",
            "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
            "xaxis": {"title": {"text": "moved partitions"}, "rangemode": "tozero"},
            "yaxis": {
                "tickvals": list(rows.values()),
                "ticktext": [_name(_shortened(group)) for group in rows],
                "range": [-0.6, len(rows) - 0.4],
                "showgrid": False,
                "zeroline": False,
            },
            "margin": {"l": 220, "t": 45},
        },
    }


def generations(rows: Sequence[TimelineRow], groups: Sequence[GroupSummary]) -> Figure:
    """When which group rebalanced, from the recorded rows: a dot each, larger the more partitions moved."""
    at = {summary.group: row for row, summary in enumerate(reversed(groups))}
    recorded = [row for row in rows if row.group in at]
    most = max((row.moved for row in recorded), default=0) or 1
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "markers",
                "cliponaxis": False,
                "x": [_time(row.timestamp) for row in recorded],
                "y": [at[row.group] for row in recorded],
                "marker": {
                    "size": [7 + 13 * (row.moved / most) ** 0.5 for row in recorded],
                    "color": ["#D55E00" if row.moved else FAINT for row in recorded],
                    "symbol": ["circle" if row.moved else "circle-open" for row in recorded],
                    "opacity": 0.75,
                },
                "customdata": [
                    [_name(row.group), row.generation, row.members, row.partitions, row.moved]
                    for row in recorded
                ],
                "hovertemplate": (
                    "%{customdata[0]}<br>generation %{customdata[1]}, %{x}<br>%{customdata[2]} members, "
                    "%{customdata[3]} partitions, %{customdata[4]} moved<extra></extra>"
                ),
            }
        ],
        "layout": {
            "height": 90 + 28 * len(at),
            "xaxis": {"type": "date", "title": {"text": "end of the join (UTC)"}},
            "yaxis": {
                "tickvals": list(at.values()),
                "ticktext": [_name(_shortened(group)) for group in at],
                "range": [-0.7, len(at) - 0.3],
                "zeroline": False,
            },
            "margin": {"l": 220},
        },
    }


def moved_over_time(rows: Sequence[TimelineRow], names: Sequence[str]) -> Figure:
    """One group: moved partitions summed up over time, by strategy, and the least from what ran."""
    data = []
    for name, own, style in _by_strategy(rows, names):
        data.append(
            _line(name, own, list(accumulate(row.moved for row in own)), style, "%{y:,} moved so far")
        )
        if name == RECORDED:
            least = _line(
                "least possible",
                own,
                list(accumulate(row.least_moved for row in own)),
                {**style, "color": INK},
                "%{y:,} needed so far",
            )
            data.append({**least, "mode": "lines"})
    return {"data": data, "layout": _over_time("moved partitions, summed")}


def balance_over_time(rows: Sequence[TimelineRow], names: Sequence[str]) -> Figure:
    """One group: the load of the fullest member as a multiple of the mean, a line for each strategy."""
    data = [
        _line(name, own, [row.max_over_mean for row in own], style, "%{y:.2f} times the mean")
        for name, own, style in _by_strategy(rows, names)
    ]
    return {"data": data, "layout": _over_time("fullest member / mean", "normal")}


def ownership(spans: Sequence[OwnershipSpan]) -> Figure:
    """One group: a row for each partition, a bar for each time that a member owned it, a stroke where it went
    to another.

    Members are told apart by colour and by hatching; there may be more of them than of both.
    """
    rows = {
        place: row for row, place in enumerate(sorted({(s.topic, s.partition) for s in spans}, reverse=True))
    }
    by_member: dict[str, list[OwnershipSpan]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.begin):
        by_member[span.member].append(span)
    data = [_bars_of(member, own, index, rows) for index, (member, own) in enumerate(by_member.items())]
    changes = owner_changes(spans)
    data.append(
        {
            "type": "scatter",
            "mode": "markers",
            "name": "changed hands",
            "x": [_time(after.begin) for _, after in changes],
            "y": [rows[after.topic, after.partition] for _, after in changes],
            "marker": {"symbol": "line-ns-open", "size": 11, "color": INK, "line": {"width": 2.5}},
            "hoverinfo": "skip",
        }
    )
    labelled = [
        row for row in rows.values() if len(rows) <= _LABELLED or row % (len(rows) // _LABELLED + 1) == 0
    ]
    names = {row: f"{topic}-{partition}" for (topic, partition), row in rows.items()}
    return {
        "data": data,
        "layout": {
            "height": 130 + max(6, 160 // max(len(rows), 8)) * len(rows) + 60,
            "barmode": "overlay",
            "showlegend": len(by_member) <= _MOST_IN_LEGEND,
            "legend": {"orientation": "h", "y": 1.01, "yanchor": "bottom", "x": 0},
            "xaxis": {"type": "date", "title": {"text": "UTC"}},
            "yaxis": {
                "tickvals": labelled,
                "ticktext": [_name(_shortened(names[row])) for row in labelled],
                "range": [-0.7, len(rows) - 0.3],
                "showgrid": False,
                "zeroline": False,
            },
            "margin": {"l": 160, "t": 45},
        },
    }


def _bars_of(
    member: str, own: Sequence[OwnershipSpan], index: int, rows: Mapping[tuple[str, int], int]
) -> dict[str, Any]:
    """The bars of the `index`th member: a colour, and hatching once all colours are taken."""
    looks, hatching = index % len(_COLOURS), index // len(_COLOURS) % len(_HATCHING)
    return {
        "type": "bar",
        "orientation": "h",
        "name": _name(_shortened(member)),
        "y": [rows[span.topic, span.partition] for span in own],
        "base": [_time(span.begin) for span in own],
        "x": [(span.end - span.begin).total_seconds() * 1000 for span in own],
        "width": 0.8,
        "marker": {
            "color": _COLOURS[looks],
            "pattern": {
                "shape": _HATCHING[hatching],
                "fillmode": "overlay",
                "fgcolor": "#111111",
                "size": 6,
                "solidity": 0.2,
            },
        },
        "customdata": [
            [_name(f"{span.topic}-{span.partition}"), _time(span.begin)[:-4], _time(span.end)[:-4]]
            for span in own
        ],
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]} to %{customdata[2]}"
        f"<extra>{_name(member)}</extra>",
    }


def owner_changes(spans: Sequence[OwnershipSpan]) -> list[tuple[OwnershipSpan, OwnershipSpan]]:
    """Each span of a partition with the next one, of another member; the oldest change first."""
    by_place: dict[tuple[str, int], list[OwnershipSpan]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.begin):
        by_place[span.topic, span.partition].append(span)
    changes = [
        (before, after)
        for own in by_place.values()
        for before, after in pairwise(own)
        if before.member != after.member
    ]
    return sorted(changes, key=lambda change: (change[1].begin, change[1].topic, change[1].partition))


def _by_strategy(
    rows: Sequence[TimelineRow], names: Sequence[str]
) -> list[tuple[str, list[TimelineRow], dict[str, str]]]:
    by_strategy: dict[str, list[TimelineRow]] = defaultdict(list)
    for row in rows:
        by_strategy[row.strategy].append(row)
    style = _styles(names)
    return [
        (name, sorted(by_strategy[name], key=lambda row: row.timestamp), style[name])
        for name in names
        if name in by_strategy
    ]


def _line(
    name: str, rows: Sequence[TimelineRow], values: Sequence[float], style: dict[str, str], hover: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": _name(name),
        "x": [_time(row.timestamp) for row in rows],
        "y": list(values),
        "customdata": [[row.generation, row.members] for row in rows],
        "line": {"color": style["color"], "dash": style["dash"], "shape": "hv", "width": 2},
        "marker": {"color": style["color"], "symbol": style["symbol"], "size": 6},
        "hovertemplate": f"{hover}<br>generation %{{customdata[0]}}, %{{customdata[1]}} members",
    }


def _over_time(title: str, rangemode: str = "tozero") -> dict[str, Any]:
    return {
        "height": 320,
        "margin": {"t": 40},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": {"type": "date"},
        "yaxis": {"title": {"text": title}, "rangemode": rangemode},
    }


def _least_marker(across: str, at: Sequence[float], least: Sequence[int], *, size: int) -> dict[str, Any]:
    """A stroke across each bar where the least possible lies; the bars stand along the `across` axis."""
    along = "y" if across == "x" else "x"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "least possible",
        across: list(at),
        along: list(least),
        "marker": {
            "symbol": "line-ew-open" if across == "x" else "line-ns-open",
            "size": size,
            "line": {"width": 2.5},
            "color": INK,
        },
        "hovertemplate": f"least possible: %{{{along}:,}}<extra></extra>",
    }


def _styles(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Colour, dash and marker by strategy; what was recorded is grey."""
    styles = {RECORDED: {"color": _GREY, "dash": "solid", "symbol": "circle"}}
    for index, name in enumerate(name for name in names if name != RECORDED):
        at = index % len(_COLOURS)
        styles[name] = {"color": _COLOURS[at], "dash": _DASHES[at], "symbol": _SYMBOLS[at]}
    return styles


def _time(timestamp: datetime) -> str:
    return timestamp.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _name(text: str) -> str:
    return escape(text, quote=False)


def _shortened(text: str, width: int = 30) -> str:
    return text if len(text) <= width else f"{text[: width // 2 - 1]}…{text[-(width // 2) :]}"
