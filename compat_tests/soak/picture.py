"""The curves of a soak: a row for each role, a column for each measure, stock consumers and ours together."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from compat_tests.soak.members import member
from compat_tests.soak.report import Judged

__all__ = ["draw"]

COLUMNS = (
    ("callbacks", "callbacks", 1),
    ("futures", "futures", 1),
    ("objects", "objects (thousands)", 1000),
    ("traced_bytes", "traced memory (kB)", 1024),
    ("rss_bytes", "RSS (MB)", 1024**2),
)
COLOURS = {member.COOPERATIVE: "#d1495b", member.EAGER: "#edae49", member.STOCK: "#7a8a99"}
STYLES: dict[str, Literal["-", "--"]] = {"aiokafka": "-", "kafka_python": "--"}
POINTS = 40
LEAST_SPAN = 0.2
"""The least span of a scale, as a share of its greatest value, so that noise of a flat curve looks small."""


def _medians(numbers: Sequence[float]) -> list[float]:
    """At most `POINTS` medians, each of a few neighbouring numbers."""
    size = -(-len(numbers) // POINTS)
    return [statistics.median(numbers[begin : begin + size]) for begin in range(0, len(numbers), size)]


def draw(found: Sequence[Judged], file: Path) -> None:
    """Write an SVG. Each axis begins at 0, except RSS and objects, which begin below the least value."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update(
        {"svg.hashsalt": "soak", "svg.fonttype": "none", "font.size": 7, "axes.linewidth": 0.4}
    )
    from matplotlib import pyplot
    from matplotlib.lines import Line2D

    roles = list(dict.fromkeys(one.role for one in found))
    figure, axes = pyplot.subplots(
        len(roles), len(COLUMNS), figsize=(12, 1.35 * len(roles) + 0.6), squeeze=False, layout="constrained"
    )
    for row, role in zip(axes, roles, strict=True):
        for axis, (measure, title, unit) in zip(row, COLUMNS, strict=True):
            top = bottom = None
            for one in found:
                if one.role != role:
                    continue
                times = _medians(one.series.times)
                numbers = [number / unit for number in _medians(one.series.measures[measure])]
                axis.plot(
                    [at / 60 for at in times],
                    numbers,
                    STYLES[one.client],
                    color=COLOURS[one.consumer],
                    linewidth=0.7,
                )
                top = max(numbers) if top is None else max(top, *numbers)
                bottom = min(numbers) if bottom is None else min(bottom, *numbers)
            if top is not None and bottom is not None:
                floor = min(bottom, top * (1 - LEAST_SPAN)) if measure in ("objects", "rss_bytes") else 0
                axis.set_ylim(floor * 0.98, top * 1.08 or 1)
            axis.tick_params(length=2, width=0.4)
            axis.spines[["top", "right"]].set_visible(False)
            if role == roles[0]:
                axis.set_title(title, fontsize=8)
            if role == roles[-1]:
                axis.set_xlabel("minutes")
        row[0].set_ylabel(role, fontsize=8)
    lines = [
        Line2D([], [], color=COLOURS[consumer], linestyle=style, linewidth=1.2)
        for style in STYLES.values()
        for consumer in COLOURS
    ]
    names = [f"{client.replace('_', '-')}, {consumer}" for client in STYLES for consumer in COLOURS]
    figure.legend(lines, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=8)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
