"""The join of each peer, as a lane of one picture (`benchmarks.see_picture`)."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from benchmarks.pause.figures import Recording, deliveries_by_partition, figures
from benchmarks.see_picture import Lane, bars, draw

__all__ = ["joins"]

BEFORE_S = 2.0
PAUSE_S = 0.5
COMMAND = "python -m benchmarks.pause --restore-s 5"


def joins(recordings: Mapping[str, Recording]) -> str:
    """The SVG of the first join of each recording, by its title; those without a join are left out."""
    lanes, seconds, partitions = [], 0.0, 1
    for title, recording in recordings.items():
        number = next((n for n, one in enumerate(recording.occurrences) if one.event == "join"), None)
        if number is None:
            continue
        join, found = recording.occurrences[number], figures(recording)[number]
        began_ns = join.window_begin_ns - int(BEFORE_S * 1e9)
        seconds = (join.window_end_ns - began_ns) / 1e9
        partitions = recording.partitions
        deliveries = sorted(
            (one.at_ns, partition, one.member)
            for partition, every in deliveries_by_partition(recording.rows).items()
            for one in every
            if one.at_ns <= join.window_end_ns
        )
        lanes.append(
            Lane(
                title,
                f"{found.moved} partitions move and stand still for "
                f"{statistics.median(found.delays_ms or [float('nan')]):.0f} ms (median)",
                bars(deliveries, began_ns, seconds, PAUSE_S),
            )
        )
    title = "Consumer groups whose members restore a partition before they consume it, while a member joins"
    return draw(lanes, [(BEFORE_S, "a member joins")], seconds, partitions, title=title, command=COMMAND)
