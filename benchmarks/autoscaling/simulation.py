"""One contestant on one trace: the owners, the moves, and the lateness of records.

For each measurement the contestant decides, and then the interval is written at the measured speeds, as in
the authors' program. With `measured_late` it decides on the previous measurement, which is all that a running
autoscaler knows. A partition that changes owner pauses: for 5 s, as the authors measured and simulated, and,
in a second run of the queues, for the time of our pause model with Kafka's default settings: 1.39 s for a
cooperative handover, longer if the owner has left. Under an eager protocol every partition pauses in every
rebalance.

Assumed: a new consumer starts at once, since all contestants would wait for it alike. The first assignment
pauses nothing and counts no moves. After the last measurement nothing is written; the remaining backlog is
processed and counted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks.autoscaling.heuristics import UNASSIGNED, Owners
from benchmarks.autoscaling.queues import Lateness, Queues
from benchmarks.autoscaling.traces import CAPACITY, CONSUMER_CAPACITY, INTERVAL_S, Trace
from kafka_assignors.pause_model import Consumption, PauseModel

__all__ = ["PAPER_PAUSE_S", "Decision", "Result", "Step", "draws", "moved_partitions", "r_score", "simulate"]

PAPER_PAUSE_S = 5.0
"""Two cycles of the authors' consumer."""

_MODEL = PauseModel()


@dataclass(frozen=True, slots=True)
class Decision:
    """The owner of each partition, and all consumers, including those without a partition."""

    owners: Owners
    consumers: frozenset[int]


Step: TypeAlias = Callable[[Sequence[int], Decision], Decision]
"""A contestant: (speeds, present decision) -> next decision."""


@dataclass(frozen=True, slots=True)
class Result:
    """The costs and effects of a contestant.

    Attributes:
        consumers: at each measurement.
        r_scores: at each measurement.
        moved: partitions that changed owner, in total.
        overloaded: the share of intervals and consumers in which more arrived than a consumer carries.
        paper: the lateness if a partition that moves pauses for 5 s.
        modelled: the lateness with the pauses of our model.
    """

    consumers: Sequence[int]
    r_scores: Sequence[float]
    moved: int
    overloaded: float
    paper: Lateness
    modelled: Lateness

    @property
    def mean_consumers(self) -> float:
        return sum(self.consumers) / len(self.consumers)

    @property
    def mean_r_score(self) -> float:
        return sum(self.r_scores) / len(self.r_scores)


def draws() -> random.Random:
    """The source of a contestant's random orders; it is the same for all contestants."""
    return random.Random(0)


def moved_partitions(before: Owners, after: Owners) -> list[int]:
    """The partitions whose owner changes from one consumer to another."""
    return [
        partition
        for partition, (old, new) in enumerate(zip(before, after, strict=True))
        if old not in (UNASSIGNED, new)
    ]


def r_score(speeds: Sequence[int], moved: Sequence[int]) -> float:
    """The speed of the partitions that move, as a multiple of C."""
    return sum(speeds[partition] for partition in moved) / CAPACITY


def simulate(trace: Trace, step: Step, *, eager: bool = False, measured_late: bool = False) -> Result:
    """Run a contestant through all of the trace."""
    partitions = len(trace.speeds[0])
    paper, modelled = (Queues(partitions, CONSUMER_CAPACITY) for _ in range(2))
    now = Decision([UNASSIGNED] * partitions, frozenset())
    consumers: list[int] = []
    r_scores: list[float] = []
    moved_in_all = overloads = 0
    for number, speeds in enumerate(trace.speeds):
        after = step(trace.speeds[max(0, number - 1)] if measured_late else speeds, now)
        moved = moved_partitions(now.owners, after.owners)
        pauses = _pauses(now, after, moved, eager=eager)
        paper.run(INTERVAL_S, speeds, after.owners, dict.fromkeys(pauses, PAPER_PAUSE_S))
        modelled.run(INTERVAL_S, speeds, after.owners, pauses)
        consumers.append(len(after.consumers))
        r_scores.append(r_score(speeds, moved))
        moved_in_all += len(moved)
        overloads += _overloaded(speeds, after.owners)
        now = after
    for queues in (paper, modelled):
        queues.drain(now.owners)
    return Result(
        consumers, r_scores, moved_in_all, overloads / sum(consumers), paper.lateness, modelled.lateness
    )


def _pauses(before: Decision, after: Decision, moved: Sequence[int], *, eager: bool) -> Mapping[int, float]:
    """The pause of each partition in seconds, by our model."""
    if not before.consumers or (not moved and before.consumers == after.consumers):
        return {}
    consumption = Consumption.EAGER if eager else Consumption.COOPERATIVE
    members = len(after.consumers)
    return {
        partition: (
            _MODEL.pause_s(consumption, members)
            if before.owners[partition] in after.consumers
            else _MODEL.vacancy_s(consumption, members)
        )
        for partition in (range(len(before.owners)) if eager else moved)
    }


def _overloaded(speeds: Sequence[int], owners: Owners) -> int:
    loads: dict[int, int] = {}
    for speed, owner in zip(speeds, owners, strict=True):
        loads[owner] = loads.get(owner, 0) + speed
    return sum(load > CONSUMER_CAPACITY for load in loads.values())
