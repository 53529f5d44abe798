"""Groups whose members read their strategy from a file of rules, while a new topic is rolled out to them."""

from __future__ import annotations

from pathlib import Path

from compat_tests.scenarios.cooperative import CooperativeGroup
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.same_events import (
    alerts_first,
    joined_tasks,
    live_through,
    loads,
    orders_with_payments,
)


def test_priority_topic_is_balanced_by_itself(kafka: Kafka, tmp_path: Path) -> None:
    with CooperativeGroup(kafka, "compat_tests.aiokafka.cooperative_member", {"orders": 9}) as group:
        steps = live_through(group, alerts_first(group, tmp_path), "alerts", 3, crowded=False)
        of_alerts = [loads(step, group.topic("alerts")) for step in steps]
        group.must_not_have_lost_anything()
    assert of_alerts == [[0, 0, 0], [3, 0, 0], [1, 1, 1]]
    assert [loads(step) for step in steps] == [[3, 3, 3], [4, 4, 4], [4, 4, 4]]


def test_same_partitions_of_co_partitioned_topics_have_one_owner(kafka: Kafka, tmp_path: Path) -> None:
    with CooperativeGroup(kafka, "compat_tests.kafka_python.cooperative_member", {"orders": 6}) as group:
        steps = live_through(group, orders_with_payments(group, tmp_path), "payments", 6, crowded=False)
        joined = [joined_tasks(step, group.topic("orders"), group.topic("payments")) for step in steps]
        group.must_not_have_lost_anything()
    assert joined == [0, 6, 6]
    # While only one member reads both topics, it owns all their partitions.
    assert [loads(step) for step in steps] == [[2, 2, 2], [12, 0, 0], [4, 4, 4]]
