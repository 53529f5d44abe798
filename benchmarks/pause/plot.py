"""The rolling restart as an SVG that GitHub shows, drawn with matplotlib.

Each peer has two panels: on top the records delivered to the group, and below a bar for each time in which a
partition has no delivery.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

from benchmarks.pause.summary import Timeline

__all__ = ["draw"]

_CONSUMPTION = "#2563a8"
_PAUSE = "#c2410c"
_RESTART = "#777777"


def draw(timelines: Sequence[Timeline], labels: Mapping[str, str], file: Path) -> None:
    """Draw one row of two panels for each of `timelines`; the same data give the same bytes."""
    with mpl.rc_context({"svg.hashsalt": "pause", "svg.fonttype": "none", "font.size": 8}):
        figure = Figure(figsize=(9, 1.9 * len(timelines) + 0.4), layout="constrained")
        panels = figure.subplots(
            2 * len(timelines), 1, sharex=True, squeeze=False, height_ratios=[1, 1.1] * len(timelines)
        )[:, 0]
        for number, line in enumerate(timelines):
            _records(panels[2 * number], line, labels[line.peer].replace("**", ""))
            _pauses(panels[2 * number + 1], line)
        panels[-1].set_xlabel("seconds since the first member was told to leave; dotted: a member restarts")
        figure.savefig(file, metadata={"Date": None, "Creator": None})


def _records(panel: Axes, line: Timeline, title: str) -> None:
    steps = [line.begin_ms / 1000 + number * line.step_ms / 1000 for number in range(len(line.records) + 1)]
    per_second = [count * 1000 / line.step_ms for count in line.records]
    panel.stairs(per_second, steps, fill=True, color=_CONSUMPTION)
    panel.set_title(title, loc="left", fontsize=9, fontweight="bold")
    panel.set_ylabel("records/s")
    # After a pause a group gets many records at once; the plot cuts them off, since it is about the pauses.
    panel.set_ylim(0, 3000)
    _restarts(panel, line)


def _pauses(panel: Axes, line: Timeline) -> None:
    # One path for all bars: one SVG element for each bar would make the file twenty times as large.
    bars = [
        Outline(
            [
                (begin, partition),
                (begin, partition + 0.9),
                (end, partition + 0.9),
                (end, partition),
                (begin, partition),
            ],
            closed=True,
        )
        for partition, begin, end in ((p, b / 1000, e / 1000) for p, b, e in line.pauses)
    ]
    if bars:
        panel.add_patch(PathPatch(Outline.make_compound_path(*bars), color=_PAUSE, linewidth=0))
    panel.set_ylim(0, line.partitions)
    panel.set_xlim(line.begin_ms / 1000, (line.begin_ms + len(line.records) * line.step_ms) / 1000)
    panel.set_ylabel("partitions\npaused")
    panel.set_yticks([])
    _restarts(panel, line)


def _restarts(panel: Axes, line: Timeline) -> None:
    for at_ms in line.restarts_ms:
        panel.axvline(at_ms / 1000, color=_RESTART, linewidth=0.7, linestyle=":")
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
