"""One group of a running cluster: its last generation, and what has been counted since the watch began.

The generations, their causes and the rebalances are those of the replay: the same folds find them, one record
at a time. What the watch adds is a few sums.

Pure Python. The memory is that of a few generations of the group, however many it has had.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.causes import Cause, CauseFinder
from kafka_assignors_spark.folds.kip848 import EpochFold
from kafka_assignors_spark.folds.lives import LifeFold, Record
from kafka_assignors_spark.folds.rebalances import Generation
from kafka_assignors_spark.folds.records import CONSUMER_PROTOCOL_TYPE, DecodedRecord, RecordKind, to_micros
from kafka_assignors_spark.folds.replay import GroupReplay, Replayed, ReplayState
from kafka_assignors_spark.result import Mode

EMPTY, STABLE, HAND_OVER, DEAD, UNKNOWN = "empty", "stable", "hand-over", "dead", "unknown"
STATES = (EMPTY, STABLE, HAND_OVER, DEAD, UNKNOWN)
"""What the records say of a group. The broker's PreparingRebalance and CompletingRebalance write no record.
In a *hand-over* a partition of a live member has no owner yet (cooperative)."""

VALUE, MEMBER = "value", "member"
UNDECODABLE = (VALUE, MEMBER)
"""What of a record does not decode: its value, or one of its members."""


@dataclass(frozen=True, slots=True)
class GroupFigures:
    """The last generation of a group. What its record does not say is None.

    `type` is `classic` or `consumer` (KIP-848), `protocol` the strategy that the members voted for.
    `imbalance` is the greatest number of partitions of a member over the mean, 1.0 at best. `timestamp_s` is
    that of the record, in seconds since 1970.
    """

    generation: int
    timestamp_s: float
    type: str
    protocol_type: str
    protocol: str
    empty: bool
    members: int | None = None
    idle_members: int | None = None
    partitions: int | None = None
    min_load: int | None = None
    max_load: int | None = None
    imbalance: float | None = None


@dataclass(slots=True)
class Counts:
    """What has been counted of a group since `since_s`, in seconds since 1970.

    A *rebalance* is logical: the generations of a cooperative hand-over are one. `moved` counts partitions
    that changed owner between live members, `least_moved` the fewest that any equally balanced assignment
    would have moved; both only of rebalances that can be judged. `skipped` are generations that no record
    shows, which were superseded before the leader's assignment arrived.
    """

    since_s: float
    generations: int = 0
    rebalances: int = 0
    unjudged: int = 0
    moved: int = 0
    least_moved: int = 0
    skipped: int = 0
    clock_back: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    undecodable: Counter[str] = field(default_factory=Counter)

    def copy(self) -> Counts:
        return replace(self, causes=self.causes.copy(), undecodable=self.undecodable.copy())


@dataclass(slots=True)
class Step:
    """What a record says: generations with their causes, the rebalances that it completes, and what in it
    does not decode."""

    generations: list[tuple[Generation, tuple[Cause, ...]]] = field(default_factory=list)
    rebalances: list[Replayed] = field(default_factory=list)
    undecodable: str | None = None

    def __bool__(self) -> bool:
        return bool(self.generations or self.rebalances or self.undecodable)


@dataclass(slots=True)
class WatchedGroup:
    """Follows one group: `fold` each of its records in order, and `count` the steps.

    The fields, without the catalogue, are its whole state.
    """

    name: str
    life: LifeFold
    causes: CauseFinder
    counts: Counts
    replay: ReplayState = field(default_factory=ReplayState)
    last: GroupFigures | None = None
    state: str = UNKNOWN

    @classmethod
    def of(cls, name: str, catalogue: Catalogue, since_s: float) -> WatchedGroup:
        life = LifeFold(EpochFold(catalogue), torn=False)
        return cls(name, life, CauseFinder(catalogue), Counts(since_s))

    def fold(self, record: Record, event: DecodedRecord, catalogue: Catalogue) -> Step:
        """What the record says of the group. It takes up to a second for thousands of members."""
        step = Step()
        if event.kind is RecordKind.UNDECODABLE:
            step.undecodable = VALUE
        elif event.reason is not None:
            step.undecodable = MEMBER
        replay = GroupReplay(catalogue, {}, (Mode.ONE_STEP,), state=self.replay)
        for generation in self.life.feed(record, event):
            causes: tuple[Cause, ...] = ()
            if generation.is_of_consumers:
                causes = self.causes.feed(generation)
                step.rebalances += replay.feed(generation)
            step.generations.append((generation, causes))
        return step

    def show(self, step: Step) -> None:
        """Keep the figures of the last generation, and the state of the group after it."""
        if step.generations:
            self.last = _figures(step.generations[-1][0])
        if self.life.last is not None and self.life.last[1] is None:
            self.state = DEAD
        elif self.last is None:
            self.state = UNKNOWN
        elif self.replay.rebalances.open is not None:
            self.state = HAND_OVER
        else:
            self.state = EMPTY if self.last.empty else STABLE

    def count(self, step: Step) -> None:
        counts = self.counts
        for generation, causes in step.generations:
            counts.generations += 1
            counts.skipped += generation.skipped
            counts.clock_back += generation.clock_back
            counts.causes.update(cause.value for cause in causes)
        for row in step.rebalances:
            counts.rebalances += 1
            if row.moved is None or row.least_moved is None:
                counts.unjudged += 1
            else:
                counts.moved += row.moved
                counts.least_moved += row.least_moved
        if step.undecodable is not None:
            counts.undecodable[step.undecodable] += 1


def _figures(generation: Generation) -> GroupFigures:
    said = GroupFigures(
        generation=generation.generation,
        timestamp_s=to_micros(generation.timestamp) / 1e6,
        type=generation.type,
        protocol_type=generation.protocol_type or "",
        protocol=generation.protocol,
        empty=generation.empty,
    )
    if generation.empty:
        loads = []
    elif generation.protocol_type == CONSUMER_PROTOCOL_TYPE and generation.decodes:
        loads = [sum(map(len, member.assigned.values())) for member in generation.members.values()]
    else:
        return said  # members are not known
    total = sum(loads)
    return replace(
        said,
        members=len(loads),
        idle_members=loads.count(0),
        partitions=total,
        min_load=min(loads, default=None),
        max_load=max(loads, default=None),
        imbalance=max(loads) * len(loads) / total if total else None,
    )
