"""All rounds of a run combined, as values that can be stored as JSON."""

from __future__ import annotations

import collections
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

__all__ = ["EventSummary", "PeerSummary", "Samples", "Spread", "middle", "summarise"]


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
        gap, delay: see `EventFigures`.
        quiet_gap: the same in windows of the same length without an event, in the same rounds.
        moved, revoked: one number for each round.
        least: from the first round.
        duplicates: over all rounds.
        unsettled: in how many rounds some partitions were not being delivered again at the end.
    """

    event: str
    gap: Spread
    quiet_gap: Spread
    delay: Spread
    moved: tuple[int, ...]
    least: int
    revoked: tuple[int, ...]
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
        spreads = ("gap", "quiet_gap", "delay")
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
    return EventSummary(
        event=name,
        gap=Spread.of([gap for one in every for gap in one.gaps_ms]),
        quiet_gap=Spread.of([gap for one in quiet for gap in one.gaps_ms]),
        delay=Spread.of([delay for one in every for delay in one.delays_ms]),
        moved=tuple(sum(one.moved for one in own) for own in of_rounds),
        least=sum(one.least for one in of_rounds[0]),
        revoked=tuple(sum(one.revoked for one in own) for own in of_rounds),
        duplicates=sum(one.duplicates for one in every),
        unsettled=sum(not one.settled for one in every),
    )


def middle(counts: Sequence[float]) -> float:
    """The median of the rounds; NaN if there is none."""
    return statistics.median(counts) if counts else float("nan")
