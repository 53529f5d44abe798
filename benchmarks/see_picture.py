"""A run of `benchmarks.see` as an animated SVG: one lane for each group, one row for each partition.

A bar is a time in which the partition is delivered, in the colour of its owner; a red bar is a pause. The
picture needs no script and no font, follows the reader's light or dark theme, and does not move if the reader
prefers reduced motion. The same run gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Bar", "Lane", "bars", "draw"]

WIDTH = 900
LEFT, RIGHT = 16, 16
ROWS = 108
"""Height of all rows of a lane."""
HEAD, GAP, FOOT = 58, 30, 40
HOLD_S, REVEAL_S = 8, 6
"""The complete run is shown for `HOLD_S`, and then appears from left to right within `REVEAL_S`."""

OWNER_COLOURS = ("#3b82f6", "#10b981", "#8b5cf6", "#f59e0b", "#84cc16")
"""For the first members of a group; all members that join later share the last colour."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A time in which one partition is delivered by `owner`, or is paused (`owner` is empty).

    `begin_s` and `end_s` are seconds since the run began.
    """

    partition: int
    owner: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One group: its title, what the run measured of it, and its bars."""

    title: str
    result: str
    bars: Sequence[Bar]


def bars(
    deliveries: Iterable[tuple[int, int, str]], began_ns: int, seconds: float, pause_s: float
) -> list[Bar]:
    """The bars of one group.

    Args:
        deliveries: time in nanoseconds, partition and owner of each record, ordered by time.
        began_ns: the beginning of the run, by the same clock; earlier deliveries count as made then.
        seconds: the length of the run.
        pause_s: a longer gap between two deliveries of a partition is a pause.
    """
    found: list[Bar] = []
    open_bars: dict[int, Bar] = {}
    for at_ns, partition, owner in deliveries:
        at_s = min(max(0.0, (at_ns - began_ns) / 1e9), seconds)
        bar = open_bars.get(partition)
        paused = bar is not None and at_s - bar.end_s > pause_s
        if bar is None or paused or bar.owner != owner:
            if bar is not None:
                found.append(bar)
                if paused:
                    found.append(Bar(partition, "", bar.end_s, at_s))
            begin_s = bar.end_s if bar is not None and not paused else at_s
            open_bars[partition] = Bar(partition, owner, begin_s, at_s)
        else:
            open_bars[partition] = Bar(partition, owner, bar.begin_s, at_s)
    for partition, bar in open_bars.items():
        found.append(bar)
        if seconds - bar.end_s > pause_s:
            found.append(Bar(partition, "", bar.end_s, seconds))
    return sorted(found, key=lambda each: (each.partition, each.begin_s))


def draw(
    lanes: Sequence[Lane],
    events: Sequence[tuple[float, str]],
    seconds: float,
    partitions: int,
    *,
    title: str,
    command: str,
) -> str:
    """The SVG. `events` are the times of the events in seconds, and their names."""
    lane_height = HEAD + ROWS
    height = len(lanes) * (lane_height + GAP) - GAP + FOOT
    parts = [_head(height, title), f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>']
    for number, lane in enumerate(lanes):
        parts.append(_lane(lane, number * (lane_height + GAP), events, seconds, partitions))
    parts.append(
        f'<text class="small" x="{LEFT}" y="{height - 14}">{seconds:.0f} seconds of a real run, {partitions} '
        f"partitions. A row is a partition, a colour its owner, red a pause. By: {escape(command)}</text>"
    )
    return "\n".join([*parts, "</svg>", ""])


def _head(height: int, title: str) -> str:
    still = 100 * HOLD_S / (HOLD_S + REVEAL_S)
    rules = f"""
.page {{ fill: #ffffff }} text {{ font: 14px system-ui, sans-serif; fill: #1f2937 }}
.title {{ font-weight: 600; font-size: 16px }} .small {{ font-size: 12px; fill: #6b7280 }}
.event {{ stroke: #9ca3af; stroke-dasharray: 2 3 }} .pause {{ fill: #ef4444 }}
.cover {{ transform-box: fill-box; transform-origin: right; transform: scaleX(0); fill: #ffffff;
  animation: reveal {HOLD_S + REVEAL_S}s linear infinite }}
@keyframes reveal {{
  0%, {still:.2f}% {{ transform: scaleX(0) }} {still + 0.01:.2f}% {{ transform: scaleX(1) }}
  100% {{ transform: scaleX(0) }} }}
@media (prefers-color-scheme: dark) {{ .page, .cover {{ fill: #0d1117 }} text {{ fill: #e5e7eb }}
  .small {{ fill: #9ca3af }} }}
@media (prefers-reduced-motion: reduce) {{ .cover {{ animation: none }} }}"""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{rules}\n</style>"
    )


def _lane(lane: Lane, top: int, events: Sequence[tuple[float, str]], seconds: float, partitions: int) -> str:
    scale, row = (WIDTH - LEFT - RIGHT) / seconds, ROWS / partitions
    first_row = top + HEAD
    bottom = first_row + ROWS
    owners = sorted({bar.owner for bar in lane.bars if bar.owner})
    colours = {owner: OWNER_COLOURS[min(n, len(OWNER_COLOURS) - 1)] for n, owner in enumerate(owners)}
    parts = [
        f'<text class="title" x="{LEFT}" y="{top + 24}">{escape(lane.title)}</text>',
        f'<text x="{WIDTH - RIGHT}" y="{top + 24}" text-anchor="end">{escape(lane.result)}</text>',
    ]
    for bar in lane.bars:
        paint = f'fill="{colours[bar.owner]}"' if bar.owner else 'class="pause"'
        parts.append(
            f'<rect {paint} x="{LEFT + bar.begin_s * scale:.1f}" y="{first_row + bar.partition * row:g}" '
            f'width="{max(0.5, (bar.end_s - bar.begin_s) * scale):.1f}" height="{row - min(2, row / 4):g}"/>'
        )
    parts.append(
        f'<rect class="cover" x="{LEFT}" y="{first_row - 1}" width="{WIDTH - LEFT - RIGHT}" '
        f'height="{ROWS + 1}"/>'
    )
    for at_s, what in events:
        x = LEFT + at_s * scale
        parts.append(f'<line class="event" x1="{x:.1f}" x2="{x:.1f}" y1="{first_row - 4}" y2="{bottom}"/>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{first_row - 8}">{escape(what)}</text>')
    return "\n".join(parts)
