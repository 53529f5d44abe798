"""The OpenTelemetry observer, read through the SDK's own reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from kafka_assignors.rebalance.observer import RebalanceObserver, RebalanceOutcome, WarmUpOutcome
from kafka_assignors_opentelemetry import MOST_REASONS, OpenTelemetryObserver

OF_CONSUMER = {
    "messaging.system": "kafka",
    "messaging.consumer.group.name": "billing",
    "messaging.client.id": "pod-0",
}
ORDERS = frozenset(("orders", number) for number in range(3))


class Recorded:
    """An observer, and the metrics that its reader has collected."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        meter = MeterProvider(metric_readers=[self._reader]).get_meter("tests")
        self.observer = OpenTelemetryObserver("billing", client_id="pod-0", meter=meter)

    def metrics(self) -> Mapping[str, Any]:
        data = self._reader.get_metrics_data()
        assert data is not None
        return {
            metric.name: metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def points(self, name: str) -> list[tuple[Mapping[str, Any], float]]:
        """The recorded points: their attributes except those of the consumer, and their value or sum."""
        found = []
        for point in self.metrics()[name].data.data_points:
            attributes = dict(point.attributes)
            assert OF_CONSUMER.items() <= attributes.items()
            own = {key: value for key, value in attributes.items() if key not in OF_CONSUMER}
            found.append((own, point.sum if hasattr(point, "sum") else point.value))
        return sorted(found, key=repr)


def everything(observer: RebalanceObserver) -> None:
    """Send each event once, and some failures."""
    observer.rebalance_begun(reason="the subscription has changed")
    observer.rebalance_ended(seconds=0.25, outcome=RebalanceOutcome.MEMBER_ID_GIVEN, generation=-1)
    observer.rebalance_begun(reason="the last join failed")
    observer.rebalance_ended(seconds=0.5, outcome=RebalanceOutcome.FAILED, generation=-1)
    observer.rebalance_begun(reason="the last join failed")
    observer.joined(seconds=1.5, generation=1, leads=True)
    observer.synced(seconds=0.5, generation=1)
    observer.rebalance_ended(seconds=2.5, outcome=RebalanceOutcome.ASSIGNED, generation=1)
    observer.assigned(partitions=ORDERS, seconds=0.125)
    observer.heartbeat_answered(seconds=0.25, ok=True)
    observer.heartbeat_answered(seconds=0.5, ok=False)
    observer.commit_answered(seconds=0.25, ok=True)
    observer.commit_answered(seconds=0.75, ok=False)
    observer.decided(strategy="cooperative-sticky", seconds=0.5, moved=4, withheld=2, held=3)
    observer.warming(partitions=ORDERS)
    observer.warmed(partitions=ORDERS, seconds=5.5, outcome=WarmUpOutcome.TIMED_OUT)
    observer.warming(partitions=frozenset({("orders", 7)}))
    observer.revoked(partitions=frozenset({("orders", 0)}), seconds=None)
    observer.lost(partitions=frozenset({("orders", 1)}), seconds=0.25)


def test_every_event_has_its_instrument_with_unit_and_attributes() -> None:
    recorded = Recorded()
    everything(recorded.observer)
    failed = {"error.type": "_OTHER"}
    commit = {"messaging.operation.name": "commit", "messaging.operation.type": "settle"}
    strategy = {"kafka.consumer.strategy": "cooperative-sticky"}
    outcome = "kafka.consumer.rebalance.outcome"
    reason, change = "kafka.consumer.rebalance.reason", "kafka.consumer.partition.change"
    expected: Mapping[str, tuple[str, list[tuple[Mapping[str, str], float]]]] = {
        "kafka.consumer.rebalance.begun": (
            "{rebalance}",
            [({reason: "the last join failed"}, 2), ({reason: "the subscription has changed"}, 1)],
        ),
        "kafka.consumer.rebalance.duration": (
            "s",
            [
                ({outcome: "member_id_given"}, 0.25),
                ({**failed, outcome: "failed"}, 0.5),
                ({outcome: "assigned"}, 2.5),
            ],
        ),
        "kafka.consumer.join.duration": ("s", [({}, 1.5)]),
        "kafka.consumer.sync.duration": ("s", [({}, 0.5)]),
        "kafka.consumer.heartbeat.duration": ("s", [(failed, 0.5), ({}, 0.25)]),
        "messaging.client.operation.duration": ("s", [({**failed, **commit}, 0.75), (commit, 0.25)]),
        "kafka.consumer.assigned_partitions": ("{partition}", [({}, 1)]),
        "kafka.consumer.partition.changes": (
            "{partition}",
            [({change: "assigned"}, 3), ({change: "lost"}, 1), ({change: "revoked"}, 1)],
        ),
        "kafka.consumer.listener.duration": ("s", [({change: "assigned"}, 0.125), ({change: "lost"}, 0.25)]),
        "kafka.consumer.leader.decision.duration": ("s", [(strategy, 0.5)]),
        "kafka.consumer.leader.moved": ("{partition}", [(strategy, 4)]),
        "kafka.consumer.leader.withheld": ("{partition}", [(strategy, 2)]),
        "kafka.consumer.leader.held": ("{partition}", [(strategy, 3)]),
        "kafka.consumer.warming_partitions": ("{partition}", [({}, 1)]),
        "kafka.consumer.warm_up.duration": ("s", [({"kafka.consumer.warm_up.outcome": "timed_out"}, 5.5)]),
    }
    units = {name: metric.unit for name, metric in recorded.metrics().items()}
    assert units == {name: unit for name, (unit, _) in expected.items()}
    for name, (_, points) in expected.items():
        assert recorded.points(name) == sorted(points, key=repr), name


def test_an_application_with_a_new_reason_each_time_makes_no_series_without_end() -> None:
    recorded = Recorded()
    for number in range(1000):
        recorded.observer.rebalance_begun(reason=f"deployment {number}")
    points = recorded.points("kafka.consumer.rebalance.begun")
    assert len(points) == MOST_REASONS + 1
    assert ({"kafka.consumer.rebalance.reason": "_OTHER"}, 1000 - MOST_REASONS) in points


def test_without_an_sdk_nothing_is_recorded_and_nothing_fails() -> None:
    everything(OpenTelemetryObserver("billing"))


@pytest.mark.parametrize("name", ["group_id", "client_id"])
def test_ids_of_another_type_are_refused(name: str) -> None:
    arguments: Any = {"group_id": "billing", name: 7}
    with pytest.raises(TypeError, match=f"{name} must be a str, not 7"):
        OpenTelemetryObserver(**arguments)
