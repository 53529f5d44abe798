"""The rule of a soak: the counts of a consumer must not grow.

The second half of a run is judged, when caches and pools are full. Its samples are put into bins, and the
median of each bin counts, so that records in flight cause no noise. The *slope* is the median of the slopes
between all pairs of bins (Theil and Sen), which outliers do not change. The *growth* is the slope times the
length of the second half. *Steadiness* is the share of pairs that rise minus that of pairs that fall
(Kendall's tau): 1 for steady growth. For noise it is 0 on average, with the standard deviation of Mann and
Kendall, which is greater for fewer samples.

A measure or a type of object grows if its growth exceeds its tolerance and is steady.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from compat_tests.soak.counts import MEASURES

__all__ = ["TOLERANCES", "Growth", "Series", "Tolerance", "growing", "growth_of", "read"]

BINS = 30
STEADY = 0.5
"""The least steadiness of growth: a single step in the middle of the second half has 0.5, a line 1."""

DEVIATIONS = 3.0
"""The least steadiness in standard deviations of noise."""

MINIMUM_SAMPLES = 8


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The greatest growth that is allowed: a number, or a share of the level if that is greater."""

    number: float
    share: float = 0.0

    def of(self, level: float) -> float:
        return max(self.number, self.share * level)


TOLERANCES = {
    "callbacks": Tolerance(4),
    "most_callbacks": Tolerance(4),
    "futures": Tolerance(4),
    "tasks": Tolerance(2),
    "threads": Tolerance(1),
    "fds": Tolerance(1),
    "objects": Tolerance(100, 0.002),
    "blocks": Tolerance(500, 0.005),
    "traced_bytes": Tolerance(64 * 1024, 0.03),
    "rss_bytes": Tolerance(2 * 1024 * 1024, 0.03),
}
OF_A_TYPE = Tolerance(10, 0.05)


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a count in the second half of a run.

    Attributes:
        level: the median count.
        added: the slope times the length of that half.
        per_hour: the slope.
        steadiness: from -1 to 1; 1 if each bin is above all earlier ones.
        deviations: the steadiness in standard deviations of noise.
    """

    level: float
    added: float
    per_hour: float
    steadiness: float
    deviations: float

    @property
    def is_steady(self) -> bool:
        return self.steadiness >= STEADY and self.deviations >= DEVIATIONS


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one consumer: seconds since the first one, and the counts by measure and by type."""

    times: list[float]
    measures: dict[str, list[float]]
    types: dict[str, list[float]]
    last: dict[str, float]

    @property
    def hours(self) -> float:
        return (self.times[-1] - self.times[0]) / 3600


def read(file: Path) -> Series:
    """Read the series of one consumer. An incomplete last line is ignored."""
    times: list[float] = []
    measures: dict[str, list[float]] = {name: [] for name in MEASURES}
    types: dict[str, list[float]] = {}
    now: dict[str, int] = {}
    last: dict[str, float] = {}
    for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        sample = json.loads(line)
        now.update(sample.pop("types"))
        for name, number in now.items():
            # A type that appears for the first time had no objects before.
            types.setdefault(name, [0.0] * len(times)).append(number)
        times.append(sample["at"])
        for name in MEASURES:
            measures[name].append(sample[name])
        last = sample
    return Series([at - times[0] for at in times], measures, types, last)


def growth_of(times: Sequence[float], numbers: Sequence[float]) -> Growth:
    """The growth in the second half. Raises ValueError if there are too few samples."""
    middle = (times[0] + times[-1]) / 2 if times else 0.0
    half = [(at, number) for at, number in zip(times, numbers, strict=True) if at >= middle]
    if len(half) < MINIMUM_SAMPLES:
        few = f"{len(half)} samples in the second half of the run, {MINIMUM_SAMPLES} are needed"
        raise ValueError(f"{few}: let it run longer, or sample more often")
    size = max(1, len(half) // BINS)
    bins = [half[begin : begin + size] for begin in range(0, len(half), size)]
    points = [
        (statistics.median(at for at, _ in each), statistics.median(number for _, number in each))
        for each in bins
    ]
    pairs = [
        ((late - early), (after - before))
        for (early, before), (late, after) in itertools.combinations(points, 2)
    ]
    slope = statistics.median(rise / seconds for seconds, rise in pairs)
    rising = sum(rise > 0 for _, rise in pairs) - sum(rise < 0 for _, rise in pairs)
    of_noise = math.sqrt(len(points) * (len(points) - 1) * (2 * len(points) + 5) / 18)
    return Growth(
        level=statistics.median(number for _, number in half),
        added=slope * (half[-1][0] - half[0][0]),
        per_hour=slope * 3600,
        steadiness=rising / len(pairs),
        deviations=rising / of_noise,
    )


def growing(series: Series) -> dict[str, Growth]:
    """The measures and the types of objects that grow."""
    tolerated = [(name, numbers, TOLERANCES[name]) for name, numbers in series.measures.items()]
    tolerated += [(name, numbers, OF_A_TYPE) for name, numbers in series.types.items()]
    found = {}
    for name, numbers, tolerance in tolerated:
        if max(numbers) - min(numbers) >= tolerance.number:
            one = growth_of(series.times, numbers)
            if one.added > tolerance.of(one.level) and one.is_steady:
                found[name] = one
    return found
