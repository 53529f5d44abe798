"""The metrics of the cooperative consumer in kafka-python's registry: names, units and counts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from kafka import KafkaConsumer

from compat_tests.scripted.broker import Code, Late, broker_in_thread
from compat_tests.scripted.model import UNKNOWN_MEMBER_ID, Group
from compat_tests.scripted.test_leader_epochs import poll_until
from compat_tests.scripted.users import KafkaPythonListener, settings_of
from kafka_assignors.rebalance.observer import RebalanceObserver
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

GROUP = "consumer-coordinator-metrics"


@contextmanager
def consuming(kind: Any = CooperativeKafkaConsumer, **settings: Any) -> Iterator[tuple[Any, Group]]:
    with broker_in_thread() as broker:
        group = broker.group("metrics", {"orders": 4})
        with closing(kind(**settings_of(broker, group, heartbeat_interval_ms=100, **settings))) as consumer:
            yield consumer, group
        assert broker.unexpected == []


def of_coordinator(consumer: Any) -> Mapping[str, float]:
    found: Mapping[str, float] = consumer.metrics()[GROUP]
    return found


def consume(consumer: Any) -> None:
    assert poll_until(consumer, lambda delivered: len(delivered) == 4)


JAVAS = {
    "commit-total",
    "failed-rebalance-rate-per-hour",
    "failed-rebalance-total",
    "heartbeat-total",
    "join-total",
    "last-rebalance-seconds-ago",
    "partition-assigned-latency-avg",
    "partition-assigned-latency-max",
    "partition-lost-latency-avg",
    "partition-lost-latency-max",
    "partition-revoked-latency-avg",
    "partition-revoked-latency-max",
    "rebalance-latency-avg",
    "rebalance-latency-max",
    "rebalance-latency-total",
    "rebalance-rate-per-hour",
    "rebalance-total",
    "sync-total",
}
OF_WARM_UPS = {
    "failed-warm-up-rate-per-hour",
    "failed-warm-up-total",
    "warm-up-latency-avg",
    "warm-up-latency-max",
    "warming-partitions",
}


def test_the_cooperative_consumer_has_all_metrics_of_the_stock_one_and_javas_besides() -> None:
    names: dict[Any, set[tuple[str, str]]] = {}
    for kind in (KafkaConsumer, CooperativeKafkaConsumer):
        with consuming(kind) as (consumer, _):
            consumer.subscribe(["orders"])
            consumer.partitions_for_topic("orders")
            consume(consumer)
            names[kind] = {(metric.group, metric.name) for metric in consumer.metrics(raw=True)}
    added = {
        (group, name)
        for group, name in names[CooperativeKafkaConsumer] - names[KafkaConsumer]
        if not group.startswith("consumer-node-metrics.node-joining-")  # our own connection
    }
    assert names[KafkaConsumer] - names[CooperativeKafkaConsumer] == set()
    assert added == {(GROUP, name) for name in JAVAS | OF_WARM_UPS}


def test_joins_and_rebalances_are_in_milliseconds_and_counted() -> None:
    with consuming() as (consumer, group):
        assert of_coordinator(consumer)["last-rebalance-seconds-ago"] == -1
        group.answer("JoinGroup", Late(0.3), when=lambda request: bool(request.body.member_id))
        group.answer("SyncGroup", Late(0.3))
        consumer.subscribe(["orders"], listener=KafkaPythonListener(lambda *_: None))
        consume(consumer)
        assert poll_until(consumer, lambda _: of_coordinator(consumer)["heartbeat-total"] > 0)
        metrics = of_coordinator(consumer)
        counts = {name: value for name, value in metrics.items() if name.endswith("-total")}
        latency = counts.pop("rebalance-latency-total")
        del counts["heartbeat-total"]
        assert counts == {
            "join-total": 1,
            "sync-total": 1,
            "rebalance-total": 1,
            "failed-rebalance-total": 1,
            "commit-total": 0,
            "failed-warm-up-total": 0,
        }
        for name in ("join-time-avg", "join-time-max", "sync-time-avg", "sync-time-max"):
            assert 250 < metrics[name] < 120_000, name
        assert 500 < metrics["rebalance-latency-avg"] == metrics["rebalance-latency-max"] == latency
        assert latency < 120_000
        assert 0 <= metrics["last-rebalance-seconds-ago"] < 120
        assert metrics["rebalance-rate-per-hour"] > 100
        for partition in consumer.assignment():
            consumer.position(partition)
        consumer.commit()
        group.remove_member()
        group.answer("Heartbeat", Code(UNKNOWN_MEMBER_ID))
        assert poll_until(consumer, lambda _: of_coordinator(consumer)["rebalance-total"] == 2)
        metrics = of_coordinator(consumer)
        assert metrics["commit-total"] == 1
        assert 0 < metrics["commit-latency-max"] < 120_000
        assert metrics["partition-lost-latency-max"] >= 0
        assert metrics["failed-rebalance-total"] == 2  # Both joins first got MEMBER_ID_REQUIRED.
        assert metrics["partition-assigned-latency-max"] >= 0
        assert "partition-revoked-latency-max" not in metrics
        assert all(
            math.isfinite(value) for of_group in consumer.metrics().values() for value in of_group.values()
        )


def test_metrics_that_are_switched_off_are_not_fed_and_observers_are() -> None:
    joined = []

    class Joined(RebalanceObserver):
        def joined(self, *, generation: int, **_: Any) -> None:
            joined.append(generation)

    with consuming(metrics_enabled=False, observer=Joined()) as (consumer, _):
        consumer.subscribe(["orders"])
        consume(consumer)
        assert not consumer.metrics()
    assert joined == [1]
