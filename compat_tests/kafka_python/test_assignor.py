"""The assignors of kafka_assignors_kafka_python as objects, without a broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.abstract import RebalanceProtocol as KafkaPythonProtocol
from kafka.protocol.consumer.group import JoinGroupResponse
from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription
from kafka.protocol.metadata import MetadataResponse

import kafka_assignors_kafka_python as plugin
from compat_tests.strategies_of_others import Reversed
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies.contract import RebalanceProtocol
from kafka_assignors_kafka_python._client import topics_of

ASSIGNORS = {
    "range": plugin.RangeAssignor,
    "roundrobin": plugin.RoundRobinAssignor,
    "sticky": plugin.StickyAssignor,
    "cooperative-sticky": plugin.CooperativeStickyAssignor,
}


@dataclass(frozen=True)
class CooperativeOnly:
    name: str = "cooperative-only"
    version: int = 1
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE,)

    def assign(self, group: Group) -> Assignment:
        raise AssertionError("never asked")


def cluster() -> ClusterMetadata:
    """Two brokers, of which one has a rack, and a topic whose partitions lie on one, the other, and both."""
    Topic = MetadataResponse.MetadataResponseTopic
    Partition = Topic.MetadataResponsePartition
    Broker = MetadataResponse.MetadataResponseBroker
    replicas = {0: [1], 2: [1, 2], 1: [2]}
    partitions = [
        Partition(
            error_code=0,
            partition_index=number,
            leader_id=nodes[0],
            leader_epoch=0,
            replica_nodes=nodes,
            isr_nodes=nodes,
            offline_replicas=[],
        )
        for number, nodes in replicas.items()
    ]
    metadata = ClusterMetadata()
    response = MetadataResponse(
        version=8,
        throttle_time_ms=0,
        brokers=[Broker(1, "one", 9092, "a"), Broker(2, "two", 9092, None)],
        cluster_id="c",
        controller_id=1,
        topics=[Topic(error_code=0, name="orders", is_internal=False, partitions=partitions)],
    )
    metadata.update_metadata(MetadataResponse.decode(response.encode(), version=8))
    return metadata


@pytest.mark.parametrize("name", ASSIGNORS)
def test_an_assignor_is_what_kafka_python_takes_for_one_and_has_the_name_all_clients_use(name: str) -> None:
    assignor = ASSIGNORS[name](rack="a", instance_id="pod-0")
    assert isinstance(assignor, AbstractPartitionAssignor)
    assert assignor.name == name
    assert assignor.supported_protocols() == [KafkaPythonProtocol.EAGER]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plugin.assignor(Reversed), r"Reversed is a class .*: pass Reversed\(\)"),
        (lambda: plugin.assignor("sticky"), "'sticky' is not a strategy"),
        (lambda: plugin.StickyAssignor(rack=1), "rack must be a non-empty str or None, not 1"),
        (lambda: plugin.StickyAssignor(instance_id=""), "instance_id must be a non-empty str or None"),
    ],
)
def test_what_cannot_be_is_refused_at_construction(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_a_strategy_that_is_cooperative_only_is_refused_at_construction() -> None:
    with pytest.raises(ValueError, match="'cooperative-only' cannot run under the eager protocol"):
        plugin.assignor(CooperativeOnly())


def test_outside_a_consumer_an_assignor_says_where_it_works() -> None:
    with pytest.raises(RuntimeError, match="inside a KafkaConsumer only"):
        plugin.StickyAssignor().metadata({"orders"})


def test_metadata_that_kafka_python_has_decoded_can_be_assigned_too() -> None:
    Member = JoinGroupResponse.JoinGroupResponseMember
    members = [
        Member(
            member_id=name, group_instance_id=None, metadata=ConsumerProtocolSubscription(0, ["orders"], b"")
        )
        for name in ("a", "b")
    ]
    assigned = plugin.RangeAssignor().assign(cluster(), members)
    assert {
        name: [(tp.topic, tp.partition) for tp in answer.partitions()] for name, answer in assigned.items()
    } == {
        "a": [("orders", 0), ("orders", 1)],
        "b": [("orders", 2)],
    }


def test_replica_racks_are_read_from_the_brokers_of_the_replicas() -> None:
    (orders,) = topics_of(cluster(), ["orders", "no metadata yet"])
    assert orders.partitions == 3
    assert orders.replica_racks == (frozenset({"a"}), frozenset(), frozenset({"a"}))
