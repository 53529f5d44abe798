"""One contestant on one trace: who consumes what, what moves, and how late records are.

For each measurement the contestant decides, and the interval that follows is written at the measured
speeds, as in the authors' program. (`measured_late` has it decide on the measurement before, which is all
that a running autoscaler knows.) A partition that changes hands is not consumed for a while: for 5 s, as
the authors measured and simulated, and, in a second run of the queues, for what our model of pauses says of
a group with Kafka's default settings: 1.39 s for a cooperative handover, longer if the owner has left.
Under an eager protocol every partition pauses in every rebalance.

Assumed: a consumer that is wanted is there at once, since all contestants would wait for it alike. The first
assignment pauses nothing and is no move. After the last measurement nothing is written, and what is left is
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
    """The owner of each partition, and all consumers there are, those without a partition too."""

    owners: Owners
    consumers: frozenset[int]


Step: TypeAlias = Callable[[Sequence[int], Decision], Decision]
"""A contestant: the speeds and what there is now give what there is next."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a contestant needed and caused.

    Attributes:
        consumers: at each measurement.
        r_scores: at each measurement.
        moved: partitions that changed hands, in all.
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
    """Where the random orders of a contestant come from: the same for all."""
    return random.Random(0)


def moved_partitions(before: Owners, after: Owners) -> list[int]:
    """The partitions that had an owner and have another one."""
    return [
        partition
        for partition, (old, new) in enumerate(zip(before, after, strict=True))
        if old not in (UNASSIGNED, new)
    ]


def r_score(speeds: Sequence[int], moved: Sequence[int]) -> float:
    """What is written to partitions that move, as a multiple of what a consumer is filled up to."""
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
    """For how long each partition pauses, by our model."""
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
