"""Consumers against R-score and against lateness, as an SVG drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.autoscaling.results import Row

__all__ = ["draw", "front"]

SHOWN = ("latency", "uniform, 5 %", "uniform, 15 %", "uniform, 25 %")
_PUBLISHED, _AS_MANY, _OURS = "#c2410c", "#7aa5d2", "#1d4f8c"
_MARKS = {"published": ("o", _PUBLISHED), "as many": ("v", _AS_MANY), "ours": ("D", _OURS)}
_GUARDED = " above 1.33 C"
"""Part of a contestant's name; the picture shows an asterisk instead."""
_LABELS = {
    "published": "published heuristics",
    "as many": "weighted within C, with the consumers of each",
    "ours": "ours, by number",
}


def draw(by_trace: Mapping[str, Sequence[Row]], file: Path) -> None:
    """A column for each trace: R-score above, p99 below. The same figures give the same bytes.

    Next fit is left out: it needs so many consumers that the other points would overlap.
    """
    shown = [trace for trace in SHOWN if trace in by_trace]
    with mpl.rc_context({"svg.hashsalt": "autoscaling", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(2.9 * len(shown), 5.6), layout="constrained")
        panels = figure.subplots(2, len(shown), squeeze=False, sharex="col")
        for column, trace in enumerate(shown):
            rows = [
                row for row in by_trace[trace] if row.kind in _MARKS and "NF" not in (row.name, row.beside)
            ]
            _panel(panels[0, column], rows, lambda row: row.r_score)
            _panel(panels[1, column], rows, lambda row: row.p99_s)
            panels[0, column].set_title(trace, loc="left", fontsize=9, fontweight="bold")
            panels[1, column].set_xlabel("consumers, mean")
        panels[0, 0].set_ylabel("R-score, mean")
        panels[1, 0].set_ylabel("p99 lateness, s (a move pauses 5 s)")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
        figure.savefig(file, metadata={"Date": None, "Creator": None})


def front(rows: Sequence[Row], figure_of: Callable[[Row], float]) -> list[Row]:
    """The rows that no other row beats in both figures, fewest consumers first."""
    best: list[Row] = []
    for row in sorted(rows, key=lambda row: (row.consumers, figure_of(row))):
        if not best or figure_of(row) < figure_of(best[-1]):
            best.append(row)
    return best


def _panel(panel: Axes, rows: Sequence[Row], figure_of: Callable[[Row], float]) -> None:
    for kind, (mark, colour) in _MARKS.items():
        of_kind = [row for row in rows if row.kind == kind]
        panel.scatter(
            [row.consumers for row in of_kind],
            [figure_of(row) for row in of_kind],
            marker=mark,
            color=colour,
            s=22,
            label=_LABELS[kind],
            zorder=3,
        )
    ours = [row.name for row in rows if row.kind == "ours"]
    for row in rows:
        if row.kind != "as many":
            text = str(ours.index(row.name) + 1) if row.kind == "ours" else row.name.replace(_GUARDED, "*")
            panel.annotate(
                text,
                (row.consumers, figure_of(row)),
                xytext=(3, 3),
                textcoords="offset points",
                fontsize=6,
                color=_MARKS[row.kind][1],
            )
    for kinds, colour in ((("published",), _PUBLISHED), (("as many", "ours"), _OURS)):
        best = front([row for row in rows if row.kind in kinds], figure_of)
        panel.step(
            [row.consumers for row in best],
            [figure_of(row) for row in best],
            where="post",
            color=colour,
            linewidth=0.8,
            alpha=0.6,
        )
    panel.set_ylim(bottom=0)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
