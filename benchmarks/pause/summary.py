"""All rounds of a run combined, as values that can be stored as JSON."""

from __future__ import annotations

import collections
import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.pause.figures import (
    EventFigures,
    Recording,
    deliveries_by_partition,
    figures,
    lost_records,
    percentile,
)

__all__ = ["EventSummary", "PeerSummary", "Samples", "Spread", "Timeline", "middle", "summarise", "timeline"]

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds over all partitions and rounds; NaN if there are none."""

    median: float
    p99: float
    longest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(*(round(percentile(values, share), 1) for share in (0.5, 0.99, 1.0)))

    @classmethod
    def from_json(cls, data: Mapping[str, float | None]) -> Spread:
        return cls(**{name: math.nan if value is None else value for name, value in data.items()})


@dataclass(frozen=True, slots=True)
class EventSummary:
    """One event of one peer.

    Attributes:
        gap, late, delay: see `EventFigures`.
        quiet_gap, quiet_late: the same in windows of the same length without an event, in the same rounds.
        moved, revoked, generations: one number for each round.
        least: from the first round.
        duplicates: over all rounds.
        unsettled: in how many rounds some partitions were not being delivered again at the end.
    """

    event: str
    gap: Spread
    quiet_gap: Spread
    late: Spread
    quiet_late: Spread
    delay: Spread
    moved: tuple[int, ...]
    least: int
    revoked: tuple[int, ...]
    generations: tuple[int, ...]
    duplicates: int
    unsettled: int


@dataclass(frozen=True, slots=True)
class PeerSummary:
    """One peer at one number of partitions. `cpu` has a value for each round, see `Recording.cpu`."""

    peer: str
    partitions: int
    rounds: int
    events: tuple[EventSummary, ...]
    cpu: Mapping[str, tuple[float, ...]]
    lost: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PeerSummary:
        spreads = ("gap", "quiet_gap", "late", "quiet_late", "delay")
        events = [
            EventSummary(**{**one, **{name: Spread.from_json(one[name]) for name in spreads}})
            for one in data["events"]
        ]
        return cls(**{**data, "events": tuple(events)})


@dataclass(frozen=True, slots=True)
class Samples:
    """The figures of one recording, without its rows."""

    peer: str
    partitions: int
    events: tuple[EventFigures, ...]
    cpu: Mapping[str, float]
    lost: int

    @classmethod
    def of(cls, recording: Recording) -> Samples:
        lost = lost_records(deliveries_by_partition(recording.rows))
        return cls(recording.peer, recording.partitions, tuple(figures(recording)), recording.cpu, lost)


def summarise(rounds: Iterable[Samples]) -> list[PeerSummary]:
    """One summary for each peer and number of partitions, in the order of their first appearance."""
    by_peer: dict[tuple[str, int], list[Samples]] = collections.defaultdict(list)
    for samples in rounds:
        by_peer[samples.peer, samples.partitions].append(samples)
    found = []
    for (peer, partitions), all_of_it in by_peer.items():
        names = dict.fromkeys(one.event for samples in all_of_it for one in samples.events)
        names.pop("none twice", None)
        names.pop("preparation", None)
        found.append(
            PeerSummary(
                peer,
                partitions,
                len(all_of_it),
                tuple(_event(name, all_of_it) for name in names),
                {
                    what: tuple(round(samples.cpu[what], 2) for samples in all_of_it if what in samples.cpu)
                    for what in ("steady", "rest")
                },
                sum(samples.lost for samples in all_of_it),
            )
        )
    return found


def _event(name: str, rounds: Sequence[Samples]) -> EventSummary:
    of_rounds = [own for samples in rounds if (own := [one for one in samples.events if one.event == name])]
    every = [one for own in of_rounds for one in own]
    quiet_name = "none twice" if name == "slow" else "none"
    quiet = [one for samples in rounds for one in samples.events if one.event == quiet_name]
    generations = [
        sum(one.generations for one in own if one.generations is not None)
        for own in of_rounds
        if all(one.generations is not None for one in own)
    ]
    return EventSummary(
        event=name,
        gap=Spread.of([gap for one in every for gap in one.gaps_ms]),
        quiet_gap=Spread.of([gap for one in quiet for gap in one.gaps_ms]),
        late=Spread.of([late for one in every for late in one.late_ms]),
        quiet_late=Spread.of([late for one in quiet for late in one.late_ms]),
        delay=Spread.of([delay for one in every for delay in one.delays_ms]),
        moved=tuple(sum(one.moved for one in own) for own in of_rounds),
        least=sum(one.least for one in of_rounds[0]),
        revoked=tuple(sum(one.revoked for one in own) for own in of_rounds),
        generations=tuple(generations),
        duplicates=sum(one.duplicates for one in every),
        unsettled=sum(not one.settled for one in every),
    )


def middle(counts: Sequence[float]) -> float:
    """The median of the rounds; NaN if there is none."""
    return statistics.median(counts) if counts else float("nan")


@dataclass(frozen=True, slots=True)
class Timeline:
    """The rolling restart of one round, for the plot; times are milliseconds since its start.

    Attributes:
        step_ms: the length of a step of `records`, which has the records delivered in each step.
        pauses: partition, begin and end of each time without a delivery that is longer than `pause_ms`.
    """

    peer: str
    partitions: int
    begin_ms: float
    step_ms: float
    records: tuple[int, ...]
    restarts_ms: tuple[float, ...]
    pause_ms: float
    pauses: tuple[tuple[int, float, float], ...]


def timeline(
    recording: Recording, *, pause_ms: float, step_ms: float = 100.0, before_ms: float = 1000.0
) -> Timeline | None:
    """From a second before the first restart to the end of the last one; None if there was none."""
    restarts = [one for one in recording.occurrences if one.event == "rolling"]
    if not restarts:
        return None
    zero_ns = restarts[0].begin_ns
    end_ms = (restarts[-1].window_end_ns - zero_ns) / _NS_PER_MS
    counts = [0] * int((end_ms + before_ms) / step_ms)
    pauses = []
    for partition, deliveries in deliveries_by_partition(recording.rows).items():
        times_ms = [(one.at_ns - zero_ns) / _NS_PER_MS for one in deliveries]
        for at_ms in times_ms:
            step = int((at_ms + before_ms) // step_ms)
            if 0 <= step < len(counts):
                counts[step] += 1
        pauses += [
            (partition, round(earlier, 1), round(later, 1))
            for earlier, later in itertools.pairwise(times_ms)
            if later - earlier > pause_ms and later > -before_ms and earlier < end_ms
        ]
    return Timeline(
        peer=recording.peer,
        partitions=recording.partitions,
        begin_ms=-before_ms,
        step_ms=step_ms,
        records=tuple(counts),
        restarts_ms=tuple(round((one.begin_ns - zero_ns) / _NS_PER_MS, 1) for one in restarts),
        pause_ms=pause_ms,
        pauses=tuple(sorted(pauses)),
    )
