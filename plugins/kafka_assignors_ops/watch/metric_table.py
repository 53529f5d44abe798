"""The metrics of the watch: names, units, meaning, and the samples of each. Plain data, without Prometheus.

Names follow Prometheus: base units, `_total` for a counter alone, the unit at the end. The documentation's
table is made from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from kafka_assignors_ops.watch.fleet import KINDS, STATES, UNDECODABLE, FleetSnapshot, GroupSnapshot
from kafka_assignors_replay.history.rebalances import Cause

Sample = tuple[tuple[str, ...], float]
"""The values of the labels without `group`, and the value of the sample."""


@dataclass(frozen=True, slots=True)
class WatchStatus:
    """The state of the watch itself.

    `up` says that it reads, `caught_up` that it has read all records that were there at its start. `lag` is
    the number of offsets up to the end of the topic.
    """

    up: bool
    caught_up: bool
    lag: int
    errors: int


@dataclass(frozen=True, slots=True)
class Scrape:
    fleet: FleetSnapshot
    status: WatchStatus


Shown = TypeVar("Shown")


@dataclass(frozen=True, slots=True)
class WatchedMetric(Generic[Shown]):
    """A metric, and the function that reads its samples from a group or from the watch."""

    name: str
    help: str
    samples: Callable[[Shown], Iterable[Sample]]
    labels: tuple[str, ...] = ()

    @property
    def kind(self) -> Literal["counter", "gauge"]:
        """Prometheus' type of the metric."""
        return "counter" if self.name.endswith("_total") else "gauge"


def _one(figure: str) -> Callable[[Any], Iterator[Sample]]:
    """One sample, of the attribute at this path; none if the record lacks the figure."""

    def samples(shown: Any) -> Iterator[Sample]:
        for name in figure.split("."):
            shown = None if shown is None else getattr(shown, name)
        if shown is not None:
            yield (), shown

    return samples


def _each(
    names: Iterable[str], read: Callable[[Shown], Mapping[str, int]]
) -> Callable[[Shown], Iterator[Sample]]:
    """A sample for each name, which is the value of the label; 0 if it was not counted."""

    def samples(shown: Shown) -> Iterator[Sample]:
        counts = read(shown)
        for name in names:
            yield (name,), counts.get(name, 0)

    return samples


def _info(group: GroupSnapshot) -> Iterator[Sample]:
    if group.last is not None:
        yield (group.last.type, group.last.protocol_type, group.last.protocol), 1


GROUP_METRICS: tuple[WatchedMetric[GroupSnapshot], ...] = (
    WatchedMetric(
        "kafka_assignors_group_info",
        "1, with the group's protocol in labels: type is classic or consumer (KIP-848), protocol_type is "
        "consumer for consumer groups, protocol is the strategy of the last generation.",
        _info,
        ("type", "protocol_type", "protocol"),
    ),
    WatchedMetric(
        "kafka_assignors_group_state",
        "1 for the state that the records show, 0 for all others: empty, stable, hand-over (a partition of a "
        "live member has no owner yet), dead (deleted), unknown.",
        _each(STATES, lambda group: {group.state: 1}),
        ("state",),
    ),
    WatchedMetric(
        "kafka_assignors_group_generation",
        "The number of the last generation, or the epoch of a KIP-848 group.",
        _one("last.generation"),
    ),
    WatchedMetric(
        "kafka_assignors_group_last_generation_timestamp_seconds",
        "When the last generation was recorded, by the broker's clock, in seconds since 1970.",
        _one("last.timestamp_s"),
    ),
    WatchedMetric("kafka_assignors_group_members", "Members.", _one("last.members")),
    WatchedMetric(
        "kafka_assignors_group_idle_members", "Members without a partition.", _one("last.idle_members")
    ),
    WatchedMetric(
        "kafka_assignors_group_assigned_partitions",
        "Partitions that the members are assigned.",
        _one("last.partitions"),
    ),
    WatchedMetric(
        "kafka_assignors_group_imbalance_ratio",
        "Partitions of the member that has the most over the mean of all members: 1 is even.",
        _one("last.imbalance"),
    ),
    WatchedMetric(
        "kafka_assignors_group_generations_total", "Recorded generations.", _one("counts.generations")
    ),
    WatchedMetric(
        "kafka_assignors_group_generations_skipped_total",
        "Generations that were never recorded: the next join superseded them before the leader's assignment.",
        _one("counts.skipped"),
    ),
    WatchedMetric(
        "kafka_assignors_group_generation_causes_total",
        "Recorded generations by cause. A generation may have several causes.",
        _each([cause.value for cause in Cause], lambda group: group.counts.causes),
        ("cause",),
    ),
    WatchedMetric(
        "kafka_assignors_group_rebalances_total",
        "Rebalances. The generations of one cooperative hand-over are one.",
        _one("counts.rebalances"),
    ),
    WatchedMetric(
        "kafka_assignors_group_rebalances_unjudged_total",
        "Rebalances that lack a fact, so that moved partitions are not counted: the records before are lost, "
        "or a member does not decode.",
        _one("counts.unjudged"),
    ),
    WatchedMetric(
        "kafka_assignors_group_moved_partitions_total",
        "Partitions that a rebalance took from a member that stayed.",
        _one("counts.moved"),
    ),
    WatchedMetric(
        "kafka_assignors_group_least_moved_partitions_total",
        "The fewest partitions that the same rebalances could have moved for the best balance.",
        _one("counts.least_moved"),
    ),
    WatchedMetric(
        "kafka_assignors_group_undecodable_records_total",
        "Records that do not decode, by part: the value of a record, or a member in it.",
        _each(UNDECODABLE, lambda group: group.counts.undecodable),
        ("part",),
    ),
)
"""All have the label `group`. Counters begin at 0 when the group is first seen, all labels included."""


WATCH_METRICS: tuple[WatchedMetric[Scrape], ...] = (
    WatchedMetric(
        "kafka_assignors_watch_up",
        "1 while the records are read, 0 while no broker answers or a right is missing.",
        _one("status.up"),
    ),
    WatchedMetric(
        "kafka_assignors_watch_caught_up",
        "1 once all records from before the start are read. Groups are shown from then on.",
        _one("status.caught_up"),
    ),
    WatchedMetric(
        "kafka_assignors_watch_lag_records",
        "Offsets up to the end of the topic that are not read yet.",
        _one("status.lag"),
    ),
    WatchedMetric(
        "kafka_assignors_watch_groups",
        "Groups that are followed.",
        lambda scrape: [((), len(scrape.fleet.groups))],
    ),
    WatchedMetric(
        "kafka_assignors_watch_groups_left_out",
        "Groups that are not followed because of --max-groups; at most 100000 are told apart.",
        _one("fleet.beyond_limit"),
    ),
    WatchedMetric(
        "kafka_assignors_watch_records_total",
        "Records that were read, by kind, without those of groups that are left out.",
        _each(KINDS, lambda scrape: scrape.fleet.records),
        ("kind",),
    ),
    WatchedMetric(
        "kafka_assignors_watch_read_errors_total",
        "Failures to read: no answer, a missing right, an offset that is gone, a state file that cannot be "
        "written.",
        _one("status.errors"),
    ),
)
