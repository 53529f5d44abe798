"""The CPU cost of an event: without an observer, with one, and with each metrics library.

    python -m benchmarks.observers

The event is a heartbeat response, which an idle consumer gets every `heartbeat_interval_ms`. The output shows
the least time of seven runs, and its share of the CPU of an idle consumer (`benchmarks.at_rest`: 3.9 ms a
second) with the default interval of three seconds.
"""

from __future__ import annotations

import logging
import timeit
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from kafka.coordinator.base import GroupCoordinatorMetrics
from kafka.coordinator.consumer import ConsumerCoordinatorMetrics
from kafka.coordinator.heartbeat import Heartbeat
from kafka.metrics import Metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from kafka_assignors.rebalance.observer import Observers, RebalanceObserver
from kafka_assignors_kafka_python.cooperative.metrics import CoordinatorMetrics
from kafka_assignors_opentelemetry import OpenTelemetryObserver

TIMES, RUNS = 20_000, 7
AT_REST_US_PER_S, HEARTBEAT_S = 3_900.0, 3.0


class Counting(RebalanceObserver):
    count = 0

    def heartbeat_answered(self, *, seconds: float, ok: bool, **_: Any) -> None:
        self.count += 1


def telling(observer: RebalanceObserver | None) -> Callable[[], None]:
    """The call that a session makes for each heartbeat response."""
    observers = None if observer is None else Observers([observer], "g", logging.getLogger(__name__))

    def tell() -> None:
        if observers is not None:
            observers.tell("heartbeat_answered", seconds=0.1, ok=True)

    return tell


def contestants() -> Mapping[str, Callable[[], None]]:
    registry = Metrics()
    stock = GroupCoordinatorMetrics(Heartbeat(), registry, "consumer")
    commits = ConsumerCoordinatorMetrics(registry, "consumer", SimpleNamespace(assigned_partitions=tuple))
    meter = MeterProvider(metric_readers=[InMemoryMetricReader()]).get_meter(__name__)
    return {
        "no observer": telling(None),
        "an observer without this event": telling(RebalanceObserver()),
        "an observer that counts": telling(Counting()),
        "kafka-python's sensor, as the stock consumer feeds it": lambda: stock.heartbeat_latency.record(
            100.0
        ),
        "the same, as ours feeds it": telling(CoordinatorMetrics(registry, stock, commits)),
        "OpenTelemetry": telling(OpenTelemetryObserver("g", meter=meter)),
    }


def main() -> None:
    for name, tell in contestants().items():
        cost_us = min(timeit.repeat(tell, number=TIMES, repeat=RUNS)) / TIMES * 1e6
        part = cost_us / HEARTBEAT_S / AT_REST_US_PER_S
        print(f"{name:54} {cost_us:7.2f} us {part:8.3%}")


if __name__ == "__main__":
    main()
