"""Why some stock assignors cannot safely share a name with others: a test for each reason.

docs/strategies.md has the consequences for users.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaConfigurationError

from compat_tests.interop.mixed_group import (
    JAVA,
    LIBRDKAFKA,
    OUR_AIOKAFKA,
    OUR_KAFKA_PYTHON,
    STOCK_AIOKAFKA,
    STOCK_KAFKA_PYTHON,
    Kind,
    MixedGroup,
)
from compat_tests.support.kafka_cluster import RACKS, Kafka, KafkaCluster


@pytest.mark.parametrize(
    ("leader", "first"),
    [(STOCK_AIOKAFKA, "dynamic"), (LIBRDKAFKA, "dynamic"), (OUR_AIOKAFKA, "static"), (JAVA, "static")],
    ids=lambda value: value.label if isinstance(value, Kind) else value,
)
def test_aiokafka_and_librdkafka_order_static_members_among_the_others_where_java_and_ours_put_them_first(
    kafka: Kafka, leader: Kind, first: str
) -> None:
    with MixedGroup(kafka, "range", {"orders": 2}) as group:
        dynamic = group.join(leader)
        group.settle()
        static = group.join(OUR_AIOKAFKA, instance_id="zone-1")
        settled = group.settle()
        partition = {dynamic: "dynamic", static: "static"}
        assert (
            partition[next(name for name in settled.names if 0 in settled.of(name)[group.topic("orders")])]
            == first
        )


@pytest.mark.parametrize(
    ("leader", "looks_at_racks"),
    [
        (OUR_AIOKAFKA, True),
        (OUR_KAFKA_PYTHON, True),
        (JAVA, True),
        (LIBRDKAFKA, True),
        (STOCK_AIOKAFKA, False),
        (STOCK_KAFKA_PYTHON, False),
    ],
    ids=lambda value: value.label if isinstance(value, Kind) else None,
)
def test_range_of_stock_python_leaders_looks_at_no_racks(
    kafka3: KafkaCluster, leader: Kind, looks_at_racks: bool
) -> None:
    """Of two consecutive partitions, at most one has its replica in a member's rack."""
    brokers = [[1], [2], [3]] * 2
    with MixedGroup(kafka3, "range", {}) as group:
        topic = f"orders-{group.run}"
        kafka3.create_topic(topic, replicas=brokers)
        group.topics[topic] = len(brokers)
        racks = {group.join(leader, rack="a"): "a"}
        group.settle()
        racks |= {group.join(kind, rack=rack): rack for kind, rack in ((LIBRDKAFKA, "b"), (JAVA, "c"))}
        settled = group.settle()
        missed = sum(
            racks[name] != RACKS[brokers[number][0] - 1]
            for name in settled.names
            for number in settled.of(name)[topic]
        )
        assert (missed == 0) == looks_at_racks


@pytest.mark.parametrize("guarded", [OUR_AIOKAFKA, OUR_KAFKA_PYTHON], ids=lambda kind: kind.label)
@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("range", [JAVA, LIBRDKAFKA, STOCK_AIOKAFKA, STOCK_KAFKA_PYTHON]),
        ("sticky", [JAVA, STOCK_AIOKAFKA]),
        ("cooperative-sticky", [JAVA, LIBRDKAFKA]),
    ],
)
def test_members_of_other_clients_take_the_assignments_that_keep_their_group_classic(
    kafka: Kafka, guarded: Kind, name: str, others: list[Kind]
) -> None:
    with MixedGroup(kafka, name, {"orders": 12}) as group:
        group.join(replace(guarded, prefix="guarded:"))
        group.settle()
        for kind in others:
            group.join(kind)
        before = group.settle()
        loads = [before.count(member) for member in before.names]
        assert max(loads) - min(loads) <= 1
        group.start("kip848", [], program="compat_tests.support.kip848_member")
        group.wait_for_report("kip848", "refused", "group id does not exist")
        group.stop("kip848")
        assert group.settle().generation == before.generation


def test_stock_kafka_python_forgets_members_where_static_and_dynamic_ones_are_mixed() -> None:
    # The forgotten members depend on the order in which the broker lists members, and so on random ids.
    def member(member_id: str, instance_id: str | None) -> Any:
        return SimpleNamespace(
            member_id=member_id, group_instance_id=instance_id, metadata=SimpleNamespace(topics=["orders"])
        )

    cluster = SimpleNamespace(partitions_for_topic=lambda topic: set(range(6)))
    members = [member("a", None), member("b", "pod-1"), member("c", None)]
    answer = RangePartitionAssignor.assign(cluster, members)
    counts = {
        member_id: sum(len(numbers) for _, numbers in share.assigned_partitions)
        for member_id, share in answer.items()
    }
    assert counts == {"a": 0, "b": 3, "c": 3}


def test_a_stock_kafka_python_leader_of_roundrobin_fails_when_subscriptions_differ(kafka: Kafka) -> None:
    with MixedGroup(kafka, "roundrobin", {"orders": 2, "payments": 2}) as group:
        leader = group.join(STOCK_KAFKA_PYTHON, topics=["orders"])
        group.wait_for("the leader", lambda: group.members[leader].reports("assigned"))
        group.join(OUR_KAFKA_PYTHON, topics=["payments"])
        group.wait_for("the leader to fail", lambda: "KeyError" in group.members[leader].last_lines())


def test_a_stock_kafka_python_leader_of_sticky_reads_no_claim_and_ours_reads_all(
    kafka: Kafka,
) -> None:
    with MixedGroup(kafka, "sticky", {"orders": 12, "payments": 7}) as group:
        group.form([STOCK_KAFKA_PYTHON, OUR_AIOKAFKA, STOCK_AIOKAFKA])
        group.join(OUR_AIOKAFKA)
        group.settle()
        assert "Could not parse member data" in group.members[group.oldest()].last_lines()

    with MixedGroup(kafka, "sticky", {"orders": 12, "payments": 7}) as group:
        group.form([OUR_AIOKAFKA, STOCK_KAFKA_PYTHON, STOCK_AIOKAFKA])
        under_ours = group.watch(lambda: group.join(STOCK_KAFKA_PYTHON))
        assert under_ours.leaders == (OUR_AIOKAFKA.label,)
        assert under_ours.moved == under_ours.least


def test_stock_kafka_python_allows_nothing_beside_its_cooperative_assignor(kafka: Kafka) -> None:
    with pytest.raises(KafkaConfigurationError, match="common RebalanceProtocol"):
        KafkaConsumer(
            "orders",
            group_id="g",
            bootstrap_servers=kafka.bootstrap,
            partition_assignment_strategy=[CooperativeStickyAssignor, RangePartitionAssignor],
        )


def test_librdkafka_has_no_sticky_and_lets_nothing_eager_stand_beside_cooperative_sticky() -> None:
    def configured(strategy: str) -> None:
        Consumer(
            {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "partition.assignment.strategy": strategy}
        )

    with pytest.raises(KafkaException, match="sticky"):
        configured("sticky")
    with pytest.raises(KafkaException, match="same protocol type"):
        configured("cooperative-sticky,range")
