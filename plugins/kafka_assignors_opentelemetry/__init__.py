"""OpenTelemetry metrics of a cooperative consumer, of aiokafka or kafka-python.

    from kafka_assignors_opentelemetry import OpenTelemetryObserver

    observer = OpenTelemetryObserver("billing")
    consumer = CooperativeAIOKafkaConsumer("orders", group_id="billing", observer=observer)

It needs the API alone (the extra `otel`); without an SDK in the process nothing is recorded. All instruments
are in docs/monitoring.md. Commits are recorded as `messaging.client.operation.duration`. This instrument and
the attributes `messaging.*` follow OpenTelemetry's semantic conventions, which define nothing for rebalances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

try:
    from opentelemetry.metrics import Histogram, Meter, get_meter
except ModuleNotFoundError:
    raise ImportError('opentelemetry-api is not installed: pip install "kafka-assignors[otel]"') from None

from kafka_assignors.rebalance.events import Partitions
from kafka_assignors.rebalance.observer import RebalanceObserver, RebalanceOutcome, WarmUpOutcome

__all__ = ["OpenTelemetryObserver"]

MOST_REASONS = 32
"""The most reasons told apart: each is a time series for ever, and applications pass their own reasons."""

_OTHER = "_OTHER"
"""The fallback value of the conventions."""

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The boundaries that the conventions give for `messaging.client.operation.duration`."""

_LONG_SECONDS = (*_SECONDS, 30, 60, 120, 300, 600)
"""A rebalance may wait for the slowest member for `max_poll_interval_ms`."""

_COUNTERS = (
    ("rebalance.begun", "{rebalance}", "JoinGroup requests, by reason."),
    ("partition.changes", "{partition}", "Partitions assigned, revoked and lost."),
    ("leader.moved", "{partition}", "Partitions that changed owner although the old owner could keep them."),
    ("leader.withheld", "{partition}", "Partitions that wait until their owner has revoked them."),
    ("leader.held", "{partition}", "Partitions that wait until their next owner is ready."),
)


class OpenTelemetryObserver(RebalanceObserver):
    """Records the rebalances, heartbeats and commits of one consumer.

    Each consumer of a process needs an observer of its own.
    """

    def __init__(self, group_id: str, *, client_id: str | None = None, meter: Meter | None = None) -> None:
        """`group_id` and `client_id` are those of the consumer, and become attributes.

        `meter` defaults to the process's meter `kafka_assignors`. TypeError for an id that is not a str.
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
        duration = partial(_histogram, meter, _LONG_SECONDS)
        self._rebalance = duration("kafka.consumer.rebalance", "From the first attempt to the end.")
        self._join = duration("kafka.consumer.join", "Duration of accepted JoinGroup requests.")
        self._sync = duration("kafka.consumer.sync", "Duration of accepted SyncGroup requests.")
        self._listener = duration("kafka.consumer.listener", "Duration of rebalance listener calls.")
        self._decision = duration(
            "kafka.consumer.leader.decision", "From the JoinGroup response to the assignment of all members."
        )
        self._heartbeat = _histogram(
            meter, _SECONDS, "kafka.consumer.heartbeat", "Duration of answered Heartbeat requests."
        )
        self._operation = _histogram(
            meter,
            _SECONDS,
            "messaging.client.operation",
            "Duration of messaging operation initiated by a producer or consumer client.",
        )
        self._owned = meter.create_up_down_counter(
            "kafka.consumer.assigned_partitions", "{partition}", "Partitions that the consumer owns."
        )
        self._warm_up = duration("kafka.consumer.warm_up", "Duration of warm-ups.")
        self._warming = meter.create_up_down_counter(
            "kafka.consumer.warming_partitions", "{partition}", "Partitions that are warming."
        )
        self._counters = {
            name: meter.create_counter(f"kafka.consumer.{name}", unit, description)
            for name, unit, description in _COUNTERS
        }

    def rebalance_begun(self, *, reason: str, **_: Any) -> None:
        """Count the rebalance by its reason; reasons after the first 32 are counted together."""
        if len(self._reasons) < MOST_REASONS:
            self._reasons.add(reason)
        told = reason if reason in self._reasons else _OTHER
        self._counters["rebalance.begun"].add(
            1, {**self._attributes, "kafka.consumer.rebalance.reason": told}
        )

    def joined(self, *, seconds: float, **_: Any) -> None:
        self._join.record(seconds, self._attributes)

    def synced(self, *, seconds: float, **_: Any) -> None:
        self._sync.record(seconds, self._attributes)

    def rebalance_ended(self, *, seconds: float, outcome: RebalanceOutcome, **_: Any) -> None:
        attributes = self._with_error(failed=outcome is RebalanceOutcome.FAILED)
        self._rebalance.record(seconds, {**attributes, "kafka.consumer.rebalance.outcome": outcome.value})

    def heartbeat_answered(self, *, seconds: float, ok: bool, **_: Any) -> None:
        self._heartbeat.record(seconds, self._with_error(failed=not ok))

    def commit_answered(self, *, seconds: float, ok: bool, **_: Any) -> None:
        operation = {"messaging.operation.name": "commit", "messaging.operation.type": "settle"}
        self._operation.record(seconds, {**self._with_error(failed=not ok), **operation})

    def assigned(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        self._partitions("assigned", len(partitions), seconds)

    def revoked(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        self._partitions("revoked", len(partitions), seconds)

    def lost(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        self._partitions("lost", len(partitions), seconds)

    def warming(self, *, partitions: Partitions, **_: Any) -> None:
        self._warming.add(len(partitions), self._attributes)

    def warmed(self, *, partitions: Partitions, seconds: float, outcome: WarmUpOutcome, **_: Any) -> None:
        self._warming.add(-len(partitions), self._attributes)
        self._warm_up.record(seconds, {**self._attributes, "kafka.consumer.warm_up.outcome": outcome.value})

    def decided(
        self, *, strategy: str, seconds: float, moved: int, withheld: int, held: int, **_: Any
    ) -> None:
        attributes = {**self._attributes, "kafka.consumer.strategy": strategy}
        self._decision.record(seconds, attributes)
        self._counters["leader.moved"].add(moved, attributes)
        self._counters["leader.withheld"].add(withheld, attributes)
        self._counters["leader.held"].add(held, attributes)

    def _partitions(self, change: str, count: int, seconds: float | None) -> None:
        attributes = {**self._attributes, "kafka.consumer.partition.change": change}
        self._owned.add(count if change == "assigned" else -count, self._attributes)
        self._counters["partition.changes"].add(count, attributes)
        if seconds is not None:
            self._listener.record(seconds, attributes)

    def _with_error(self, *, failed: bool) -> Mapping[str, str]:
        return {**self._attributes, "error.type": _OTHER} if failed else self._attributes


def _histogram(meter: Meter, boundaries: Sequence[float], what: str, description: str) -> Histogram:
    return meter.create_histogram(
        f"{what}.duration", "s", description, explicit_bucket_boundaries_advisory=boundaries
    )
