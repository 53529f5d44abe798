"""The metrics of the watch: names, units, meaning, and the samples of each. Plain data, without Prometheus.

Names follow Prometheus: base units, `_total` for what only grows, the unit at the end. The documentation's
table is made from here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from kafka_assignors_spark.folds.causes import Cause
from kafka_assignors_spark.watch.fleet import (
    EVICTIONS,
    KINDS,
    LEFT_OUT,
    FleetSnapshot,
    GroupSnapshot,
)
from kafka_assignors_spark.watch.group import STATES, UNDECODABLE, GroupFigures

__all__ = [
    "GROUP_METRICS",
    "WATCH_METRICS",
    "MetricKind",
    "Sample",
    "Scrape",
    "WatchStatus",
    "WatchedMetric",
]

Sample = tuple[tuple[str, ...], float]
"""The values of the labels, without that of `group`, and the value."""


class MetricKind(str, enum.Enum):
    """Prometheus' type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """The state of the watch itself.

    `up` says that it reads, `caught_up` that it has read all that was there at its start. `lag` are the
    offsets between what is read and the end of the topic. `started_s` is when the watch, or its state file,
    was begun, in seconds since 1970.
    """

    up: bool
    caught_up: bool
    lag: int
    started_s: float
    errors: int


@dataclass(frozen=True, slots=True)
class Scrape:
    """What is shown at one moment."""

    fleet: FleetSnapshot
    status: WatchStatus


Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True)
class WatchedMetric(Generic[Shown]):
    """A metric, and the function that reads its samples from a group or from the watch."""

    name: str
    kind: MetricKind
    help: str
    samples: Callable[[Shown], Iterable[Sample]]
    labels: tuple[str, ...] = ()


def _last(read: Callable[[GroupFigures], float | None]) -> Callable[[GroupSnapshot], Iterator[Sample]]:
    """One sample of the last generation, none if its record does not have the figure."""

    def samples(group: GroupSnapshot) -> Iterator[Sample]:
        value = None if group.last is None else read(group.last)
        if value is not None:
            yield (), value

    return samples


def _one(read: Callable[[Shown], float]) -> Callable[[Shown], Iterator[Sample]]:
    def samples(shown: Shown) -> Iterator[Sample]:
        yield (), read(shown)

    return samples


def _info(group: GroupSnapshot) -> Iterator[Sample]:
    if group.last is not None:
        yield (group.last.type, group.last.protocol_type, group.last.protocol), 1


def _states(group: GroupSnapshot) -> Iterator[Sample]:
    for state in STATES:
        yield (state,), float(group.state == state)


def _causes(group: GroupSnapshot) -> Iterator[Sample]:
    for cause in Cause:
        yield (cause.value,), group.counts.causes[cause.value]


def _undecodable(group: GroupSnapshot) -> Iterator[Sample]:
    for what in UNDECODABLE:
        yield (what,), group.counts.undecodable[what]


_GAUGE, _COUNTER = MetricKind.GAUGE, MetricKind.COUNTER
_GROUP = "kafka_assignors_group_"

GROUP_METRICS: tuple[WatchedMetric[GroupSnapshot], ...] = (
    WatchedMetric(
        f"{_GROUP}info",
        _GAUGE,
        "1, with the group's protocol in labels: type is classic or consumer (KIP-848), protocol_type is "
        "consumer for consumer groups, protocol is the strategy of the last generation.",
        _info,
        ("type", "protocol_type", "protocol"),
    ),
    WatchedMetric(
        f"{_GROUP}state",
        _GAUGE,
        "1 for the state that the records show, 0 for all others: empty, stable, hand-over (a partition of a "
        "live member has no owner yet), dead (deleted), unknown.",
        _states,
        ("state",),
    ),
    WatchedMetric(
        f"{_GROUP}generation",
        _GAUGE,
        "The number of the last generation, or the epoch of a KIP-848 group.",
        _last(lambda last: last.generation),
    ),
    WatchedMetric(
        f"{_GROUP}last_generation_timestamp_seconds",
        _GAUGE,
        "When the last generation was recorded, by the broker's clock, in seconds since 1970.",
        _last(lambda last: last.timestamp_s),
    ),
    WatchedMetric(f"{_GROUP}members", _GAUGE, "Members.", _last(lambda last: last.members)),
    WatchedMetric(
        f"{_GROUP}idle_members", _GAUGE, "Members without a partition.", _last(lambda last: last.idle_members)
    ),
    WatchedMetric(
        f"{_GROUP}assigned_partitions",
        _GAUGE,
        "Partitions that the members are assigned.",
        _last(lambda last: last.partitions),
    ),
    WatchedMetric(
        f"{_GROUP}member_partitions_min",
        _GAUGE,
        "Partitions of the member that has the fewest.",
        _last(lambda last: last.min_load),
    ),
    WatchedMetric(
        f"{_GROUP}member_partitions_max",
        _GAUGE,
        "Partitions of the member that has the most.",
        _last(lambda last: last.max_load),
    ),
    WatchedMetric(
        f"{_GROUP}imbalance_ratio",
        _GAUGE,
        "Partitions of the member that has the most over the mean of all members: 1 is even.",
        _last(lambda last: last.imbalance),
    ),
    WatchedMetric(
        f"{_GROUP}counted_since_timestamp_seconds",
        _GAUGE,
        "When the counters of the group began at 0, in seconds since 1970.",
        _one(lambda group: group.counts.since_s),
    ),
    WatchedMetric(
        f"{_GROUP}generations_total",
        _COUNTER,
        "Recorded generations.",
        _one(lambda group: group.counts.generations),
    ),
    WatchedMetric(
        f"{_GROUP}generations_skipped_total",
        _COUNTER,
        "Generations that were never recorded: the next join superseded them before the leader's assignment.",
        _one(lambda group: group.counts.skipped),
    ),
    WatchedMetric(
        f"{_GROUP}generation_causes_total",
        _COUNTER,
        "Recorded generations by cause. A generation may have several causes.",
        _causes,
        ("cause",),
    ),
    WatchedMetric(
        f"{_GROUP}rebalances_total",
        _COUNTER,
        "Rebalances. The generations of one cooperative hand-over are one.",
        _one(lambda group: group.counts.rebalances),
    ),
    WatchedMetric(
        f"{_GROUP}rebalances_unjudged_total",
        _COUNTER,
        "Rebalances that lack a fact, so that moved partitions are not counted: the records before are lost, "
        "or a member does not decode.",
        _one(lambda group: group.counts.unjudged),
    ),
    WatchedMetric(
        f"{_GROUP}moved_partitions_total",
        _COUNTER,
        "Partitions that a rebalance took from a member that stayed.",
        _one(lambda group: group.counts.moved),
    ),
    WatchedMetric(
        f"{_GROUP}least_moved_partitions_total",
        _COUNTER,
        "The fewest partitions that the same rebalances could have moved for the best balance.",
        _one(lambda group: group.counts.least_moved),
    ),
    WatchedMetric(
        f"{_GROUP}undecodable_records_total",
        _COUNTER,
        "Records that do not decode, by part: the value of a record, or a member in it.",
        _undecodable,
        ("part",),
    ),
    WatchedMetric(
        f"{_GROUP}clock_back_total",
        _COUNTER,
        "Generations with an earlier time than the one before: the clocks of the coordinators differ.",
        _one(lambda group: group.counts.clock_back),
    ),
)
"""All have the label `group`. Counters begin at 0 when the group is first seen, all labels included."""


def _counted(
    read: Callable[[Scrape], dict[str, int]], names: Iterable[str]
) -> Callable[[Scrape], Iterator[Sample]]:
    def samples(scrape: Scrape) -> Iterator[Sample]:
        counts = read(scrape)
        for name in names:
            yield (name,), counts.get(name, 0)

    return samples


_WATCH = "kafka_assignors_watch_"

WATCH_METRICS: tuple[WatchedMetric[Scrape], ...] = (
    WatchedMetric(
        f"{_WATCH}up",
        _GAUGE,
        "1 while the records are read, 0 while no broker answers or a right is missing.",
        _one(lambda scrape: scrape.status.up),
    ),
    WatchedMetric(
        f"{_WATCH}caught_up",
        _GAUGE,
        "1 since all is read that was there at the start. Groups are shown from then on.",
        _one(lambda scrape: scrape.status.caught_up),
    ),
    WatchedMetric(
        f"{_WATCH}lag_records",
        _GAUGE,
        "Offsets between what is read and the end of the topic.",
        _one(lambda scrape: scrape.status.lag),
    ),
    WatchedMetric(
        f"{_WATCH}started_timestamp_seconds",
        _GAUGE,
        "When the watch, or its state file, was begun, in seconds since 1970.",
        _one(lambda scrape: scrape.status.started_s),
    ),
    WatchedMetric(
        f"{_WATCH}groups",
        _GAUGE,
        "Groups that are followed.",
        _one(lambda scrape: len(scrape.fleet.groups)),
    ),
    WatchedMetric(
        f"{_WATCH}groups_left_out",
        _GAUGE,
        "Groups that are not followed because of --max-groups; at most 100000 are told apart.",
        _one(lambda scrape: scrape.fleet.beyond_limit),
    ),
    WatchedMetric(
        f"{_WATCH}groups_evicted_total",
        _COUNTER,
        "Groups that were forgotten: dead (deleted) or empty for longer than --forget-empty.",
        _counted(lambda scrape: scrape.fleet.counts.evicted, EVICTIONS),
        ("reason",),
    ),
    WatchedMetric(
        f"{_WATCH}records_total",
        _COUNTER,
        "Records that were read, by kind. Those of groups that are left out are counted there.",
        _counted(lambda scrape: scrape.fleet.counts.records, KINDS),
        ("kind",),
    ),
    WatchedMetric(
        f"{_WATCH}records_left_out_total",
        _COUNTER,
        "Records of groups that are not followed, by the option that leaves them out.",
        _counted(lambda scrape: scrape.fleet.counts.left_out, LEFT_OUT),
        ("option",),
    ),
    WatchedMetric(
        f"{_WATCH}read_errors_total",
        _COUNTER,
        "Failures to read: no answer, a missing right, an offset that is gone, a state file that cannot be "
        "written.",
        _one(lambda scrape: scrape.status.errors),
    ),
    WatchedMetric(
        f"{_WATCH}fold_errors_total",
        _COUNTER,
        "Groups that were followed anew after an internal error; stderr names each.",
        _one(lambda scrape: scrape.fleet.counts.fold_errors),
    ),
)
