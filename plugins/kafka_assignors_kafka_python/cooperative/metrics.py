"""The metrics of a consumer's coordinator, in kafka-python's own registry: `consumer.metrics()`.

kafka-python's coordinator registers a part of the metrics of Java's, with its names and units. This class
feeds these sensors, and adds the missing metrics. Names, descriptions and the events that count are those of
`AbstractCoordinator`, `ConsumerCoordinatorMetrics` and `RebalanceCallbackMetricsManager` of Kafka 4. Times
are in milliseconds unless a name says otherwise.
"""

from __future__ import annotations

import time
from typing import Any

from kafka.metrics import AnonMeasurable
from kafka.metrics.measurable_stat import AbstractMeasurableStat
from kafka.metrics.stats import Avg, Count, Max, Rate, Total
from kafka.metrics.stats.rate import TimeUnit

from kafka_assignors.rebalance.events import Partitions
from kafka_assignors.rebalance.observer import RebalanceObserver, RebalanceOutcome, WarmUpOutcome

__all__ = ["CoordinatorMetrics"]


class CoordinatorMetrics(RebalanceObserver):
    """Feeds the metrics of one consumer's coordinator."""

    def __init__(self, metrics: Any, sensors: Any, consumer_sensors: Any) -> None:
        """`sensors` has the sensors of heartbeats and joins, `consumer_sensors` the sensor of commits."""
        self._metrics = metrics
        self._group = sensors.metric_group_name
        self._heartbeat = sensors.heartbeat_latency
        self._join, self._sync = sensors.join_latency, sensors.sync_latency
        self._commit = consumer_sensors.commit_latency
        self._rebalanced_at: float | None = None
        totals = {
            "heartbeat": (self._heartbeat, "heartbeats"),
            "join": (self._join, "group joins"),
            "sync": (self._sync, "group syncs"),
            "commit": (self._commit, "commit calls"),
        }
        for name, (sensor, what) in totals.items():
            self._add(sensor, f"{name}-total", f"The total number of {what}", _CumulativeCount())
        self._rebalance = metrics.sensor("rebalance-latency")
        self._add_avg_and_max(self._rebalance, "rebalance-latency", "for a group to complete a rebalance")
        self._add(
            self._rebalance,
            "rebalance-latency-total",
            "The total time spent in successful rebalances",
            Total(),
        )
        self._add_counts(self._rebalance, "rebalance", "successful rebalances")
        self._failed = metrics.sensor("failed-rebalance")
        self._add_counts(self._failed, "failed-rebalance", "failed rebalances")
        self._callbacks = {
            name: metrics.sensor(f"partition-{name}-latency") for name in ("assigned", "revoked", "lost")
        }
        for name, sensor in self._callbacks.items():
            self._add_avg_and_max(
                sensor, f"partition-{name}-latency", f"by a callback of the listener for partitions {name}"
            )
        self._warm_up = metrics.sensor("warm-up-latency")
        self._add_avg_and_max(self._warm_up, "warm-up-latency", "by a warm-up of partitions")
        self._cold = metrics.sensor("failed-warm-up")
        self._add_counts(self._cold, "failed-warm-up", "warm-ups that failed or took too long")
        self._warming = 0
        metrics.add_metric(
            self._name("warming-partitions", "The partitions that are warming"),
            AnonMeasurable(lambda _, __: float(self._warming)),
        )
        metrics.add_metric(
            self._name(
                "last-rebalance-seconds-ago",
                "The seconds since the last successful rebalance, -1 before the first",
            ),
            AnonMeasurable(self._seconds_since_rebalance),
        )

    def _name(self, name: str, description: str) -> Any:
        return self._metrics.metric_name(name, self._group, description)

    def _add(self, sensor: Any, name: str, description: str, stat: Any) -> None:
        sensor.add(self._name(name, description), stat)

    def _add_avg_and_max(self, sensor: Any, name: str, what: str) -> None:
        self._add(sensor, f"{name}-avg", f"The average time taken {what}", Avg())
        self._add(sensor, f"{name}-max", f"The max time taken {what}", Max())

    def _add_counts(self, sensor: Any, name: str, what: str) -> None:
        rate = Rate(time_unit=TimeUnit.HOURS, sampled_stat=Count())
        self._add(sensor, f"{name}-rate-per-hour", f"The number of {what} per hour", rate)
        self._add(sensor, f"{name}-total", f"The total number of {what}", _CumulativeCount())

    def _seconds_since_rebalance(self, _: object, now_ms: float) -> float:
        return -1.0 if self._rebalanced_at is None else now_ms / 1000 - self._rebalanced_at

    # ---- events

    def joined(self, *, seconds: float, **_: Any) -> None:
        self._join.record(seconds * 1000)

    def synced(self, *, seconds: float, **_: Any) -> None:
        self._sync.record(seconds * 1000)

    def rebalance_ended(self, *, seconds: float, outcome: RebalanceOutcome, **_: Any) -> None:
        if outcome is RebalanceOutcome.ASSIGNED:
            self._rebalance.record(seconds * 1000)
            self._rebalanced_at = time.monotonic()  # The registry's clock.
        else:  # Java counts the response that gives the member its id, too.
            self._failed.record()

    def heartbeat_answered(self, *, seconds: float, **_: Any) -> None:
        self._heartbeat.record(seconds * 1000)

    def commit_answered(self, *, seconds: float, **_: Any) -> None:
        self._commit.record(seconds * 1000)

    def assigned(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        self._returned("assigned", seconds)

    def revoked(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        self._returned("revoked", seconds)

    def lost(self, *, partitions: Partitions, seconds: float | None, **_: Any) -> None:
        self._returned("lost", seconds)

    def warming(self, *, partitions: Partitions, **_: Any) -> None:
        self._warming += len(partitions)

    def warmed(self, *, partitions: Partitions, seconds: float, outcome: WarmUpOutcome, **_: Any) -> None:
        self._warming -= len(partitions)
        self._warm_up.record(seconds * 1000)
        if outcome in (WarmUpOutcome.FAILED, WarmUpOutcome.TIMED_OUT):
            self._cold.record()

    def _returned(self, name: str, seconds: float | None) -> None:
        if seconds is not None:
            self._callbacks[name].record(seconds * 1000)


class _CumulativeCount(AbstractMeasurableStat):  # type: ignore[misc]  # kafka-python has no types
    """How often a value was recorded. kafka-python's `Count` forgets values older than its samples."""

    def __init__(self) -> None:
        self._count = 0

    def record(self, config: object, value: float, time_ms: float) -> None:
        """Count a value."""
        self._count += 1

    def measure(self, config: object, now: float) -> float:
        return float(self._count)
