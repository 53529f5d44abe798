"""OpenTelemetry metrics of a cooperative consumer, of aiokafka or kafka-python.

    from kafka_assignors_opentelemetry import OpenTelemetryObserver

    observer = OpenTelemetryObserver("billing")
    consumer = CooperativeAIOKafkaConsumer("orders", group_id="billing", observer=observer)

It needs the API alone (the extra `otel`); without an SDK in the process nothing is recorded. All instruments
are in docs/monitoring.md. Commits are `messaging.client.operation.duration` of OpenTelemetry's semantic
conventions, and so are the attributes that begin with `messaging.`; there is no convention for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.metrics import Histogram, Meter, get_meter

from kafka_assignors.rebalance.events import Partitions
from kafka_assignors.rebalance.observer import RebalanceObserver

__all__ = ["OpenTelemetryObserver"]

MOST_REASONS = 32
"""Each value of an attribute is a time series for ever, and applications give reasons of their own."""

_OTHER = "_OTHER"
"""What the conventions say for a value that is not told."""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The boundaries that the conventions give for `messaging.client.operation.duration`."""

_LONG_SECONDS = (*_SECONDS, 30, 60, 120, 300, 600)
"""A rebalance may wait for the slowest member for `max_poll_interval_ms`."""


class OpenTelemetryObserver(RebalanceObserver):
    """Records the rebalances, heartbeats and commits of one consumer.

    Several consumers of a process need one each.
    """

    def __init__(self, group_id: str, *, client_id: str | None = None, meter: Meter | None = None) -> None:
        """`group_id` and `client_id` are those of the consumer, and become attributes.

        `meter` is by default that of the process, `kafka_assignors`. TypeError for an id that is no str.
        """
        for name, value in (("group_id", group_id), ("client_id", client_id)):
            if not isinstance(value, str) and (value is not None or name == "group_id"):
                raise TypeError(f"{name} must be a str, not {value!r}")
        self._attributes: Mapping[str, str] = {
            "messaging.system": "kafka",
            "messaging.consumer.group.name": group_id,
            **({"messaging.client.id": client_id} if client_id is not None else {}),
        }
        self._reasons: set[str] = set()
        meter = get_meter("kafka_assignors") if meter is None else meter
        self._begun = meter.create_counter(
            "kafka.consumer.rebalance.begun", "{rebalance}", "JoinGroup requests, by their reason."
        )
        self._rebalance = _histogram(
            meter,
            "kafka.consumer.rebalance.duration",
            "From the first attempt to the end of each.",
            _LONG_SECONDS,
        )
        self._join = _histogram(
            meter, "kafka.consumer.join.duration", "Of accepted JoinGroup requests.", _LONG_SECONDS
        )
        self._sync = _histogram(
            meter, "kafka.consumer.sync.duration", "Of accepted SyncGroup requests.", _LONG_SECONDS
        )
        self._heartbeat = _histogram(
            meter, "kafka.consumer.heartbeat.duration", "Of answered Heartbeat requests.", _SECONDS
        )
        self._operation = _histogram(
            meter,
            "messaging.client.operation.duration",
            "Duration of messaging operation initiated by a producer or consumer client.",
            _SECONDS,
        )
        self._owned = meter.create_up_down_counter(
            "kafka.consumer.assigned_partitions", "{partition}", "Partitions that the consumer owns."
        )
        self._changed = meter.create_counter(
            "kafka.consumer.partition.changes", "{partition}", "Partitions assigned, revoked and lost."
        )
        self._listener = _histogram(
            meter, "kafka.consumer.listener.duration", "Of calls of the rebalance listener.", _LONG_SECONDS
        )
        self._decision = _histogram(
            meter,
            "kafka.consumer.leader.decision.duration",
            "From JoinGroup's response to the assignment of all members.",
            _LONG_SECONDS,
        )
        self._of_leader = {
            name: meter.create_counter(f"kafka.consumer.leader.{name}", "{partition}", description)
            for name, description in (
                ("moved", "Partitions that changed their owner, which could have kept them."),
                ("least_moved", "The fewest moves to the best balance."),
                ("withheld", "Partitions that waited until their owner had revoked them."),
            )
        }

        load = "kafka.consumer.leader.load"
        self._load = meter.create_gauge(load, "1", "The greatest load, in the unit of the weights.")
        self._bound = meter.create_gauge(f"{load}_bound", "1", "What no greatest load is below.")
        self._acted = meter.create_counter(f"{load}_rebalances", "{rebalance}", "Those that it has caused.")

    def rebalance_begun(self, *, reason: str, **_: Any) -> None:
        """Count it by its reason: of the first 32 reasons each, and then all others together."""
        if len(self._reasons) < MOST_REASONS:
            self._reasons.add(reason)
        told = reason if reason in self._reasons else _OTHER
        self._begun.add(1, {**self._attributes, "kafka.consumer.rebalance.reason": told})

    def joined(self, *, seconds: float, **_: Any) -> None:
        self._join.record(seconds, self._attributes)

    def synced(self, *, seconds: float, **_: Any) -> None:
        self._sync.record(seconds, self._attributes)

    def rebalance_ended(self, *, seconds: float, failed: bool, **_: Any) -> None:
        self._rebalance.record(seconds, self._with_error(failed))

    def heartbeat_answered(self, *, seconds: float, ok: bool, **_: Any) -> None:
        self._heartbeat.record(seconds, self._with_error(not ok))

    def commit_answered(self, *, seconds: float, ok: bool, **_: Any) -> None:
        operation = {"messaging.operation.name": "commit", "messaging.operation.type": "settle"}
        self._operation.record(seconds, {**self._with_error(not ok), **operation})

    def assigned(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        self._partitions("assigned", len(partitions), seconds)

    def revoked(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        self._partitions("revoked", len(partitions), seconds)

    def lost(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        self._partitions("lost", len(partitions), seconds)

    def decided(
        self,
        *,
        strategy: str,
        seconds: float,
        moved: int | None,
        least_moved: int | None,
        withheld: int,
        **_: Any,
    ) -> None:
        attributes = {**self._attributes, "kafka.consumer.strategy": strategy}
        self._decision.record(seconds, attributes)
        for name, count in (("moved", moved), ("least_moved", least_moved), ("withheld", withheld)):
            if count is not None:
                self._of_leader[name].add(count, attributes)

    def load_judged(self, *, strategy: str, greatest: int, bound: int, acts: bool, **_: Any) -> None:
        attributes = {**self._attributes, "kafka.consumer.strategy": strategy}
        self._load.set(greatest, attributes)
        self._bound.set(bound, attributes)
        self._acted.add(int(acts), attributes)

    def _partitions(self, change: str, count: int, seconds: float | None) -> None:
        attributes = {**self._attributes, "kafka.consumer.partition.change": change}
        self._owned.add(count if change == "assigned" else -count, self._attributes)
        self._changed.add(count, attributes)
        if seconds is not None:
            self._listener.record(seconds, attributes)

    def _with_error(self, failed: bool) -> Mapping[str, str]:
        return {**self._attributes, "error.type": _OTHER} if failed else self._attributes


def _histogram(meter: Meter, name: str, description: str, boundaries: Sequence[float]) -> Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=boundaries)
