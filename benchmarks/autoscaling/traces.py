"""Streams of measurements: the speed at which each partition is written, interval by interval.

From the papers: the speed of a partition is its previous speed plus a uniform random step of at most `delta`
hundredths of C, the capacity up to which a heuristic fills consumers. Streams have 500 measurements. The
first speeds are uniform from 0 to C, or 0, or C/2, or C for all partitions.

From the authors' program, because the papers do not say it: speeds and steps are whole hundredths of C, a
speed stays from 0 to C, there are 200 partitions, an interval lasts 30 seconds, and a consumer carries 133
hundredths of C before it falls behind. Their comparison of latencies has 32 partitions, 100 measurements, and
a `delta` of 5.

Assumed: the seeds. The authors published only the stream of the latencies, which `--stream FILE` runs; for
the others they published only the results. Our figures agree with these as well as another random draw can.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "CAPACITY",
    "CONSUMER_CAPACITY",
    "INTERVAL_S",
    "LATE",
    "Trace",
    "random_walk",
    "read_stream",
    "traces",
]

CAPACITY = 100
"""C: a heuristic gives a consumer no more than this. The unit of all speeds is a hundredth of C."""

CONSUMER_CAPACITY = 133
"""What a consumer processes at most."""

MEASUREMENTS = 100
"""The tables use the first 100 of 500 measurements of the streams with 200 partitions, to save time."""

LATE = frozenset({"latency", "uniform, 25 %"})
"""The traces on which contestants also decide on the previous measurement."""

INTERVAL_S = 30.0
"""From one measurement to the next."""


@dataclass(frozen=True, slots=True)
class Trace:
    """`speeds`: for each measurement, the speed of each partition in hundredths of C."""

    name: str
    speeds: Sequence[Sequence[int]]


def random_walk(
    name: str, *, partitions: int, measurements: int, delta: int, start: int | None, seed: int
) -> Trace:
    """A random stream as in the papers. `start` is the first speed of all partitions; None draws each."""
    rng = random.Random(seed)
    now = [rng.randint(0, CAPACITY) if start is None else start for _ in range(partitions)]
    speeds = [now]
    for _ in range(measurements - 1):
        now = [min(max(speed + rng.randint(-delta, delta), 0), CAPACITY) for speed in now]
        speeds.append(now)
    return Trace(name, speeds)


def read_stream(file: Path) -> Trace:
    """A stream in the authors' form: for each measurement the speeds by topic and partition."""
    measurements = json.loads(file.read_text())
    partitions = sorted(
        (topic, int(number)) for topic, speeds in measurements[0].items() for number in speeds
    )
    return Trace(
        file.name,
        [[speeds[topic][str(number)] for topic, number in partitions] for speeds in measurements],
    )


def traces(measurements: int = MEASUREMENTS, *, small: bool = False) -> list[Trace]:
    """The streams of the tables. `small` cuts them to a tenth of the partitions and ten measurements.

    Streams whose partitions start at the same speed differ only at the beginning. The papers find the same in
    all their streams, and show those with uniform starts.
    """
    if small:
        measurements = 10
    wide = 20 if small else 200
    found = [random_walk("latency", partitions=32, measurements=measurements, delta=5, start=None, seed=100)]
    for delta in (0, 5, 10, 15, 20, 25):
        name = f"uniform, {delta} %"
        found.append(
            random_walk(name, partitions=wide, measurements=measurements, delta=delta, start=None, seed=delta)
        )
    for start in (0, 100):
        name = f"from {start} %, 5 %"
        found.append(
            random_walk(
                name, partitions=wide, measurements=measurements, delta=5, start=start, seed=1000 + start
            )
        )
    return found
