"""The assignors of kafka_assignors_aiokafka as objects, without a broker."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberMetadata
from aiokafka.protocol.metadata import MetadataResponse_v1

import kafka_assignors_aiokafka as plugin
from compat_tests.support.strategies_of_others import Reversed
from kafka_assignors_aiokafka._leading import topics_of
from kafka_assignors_strategies import for_aiokafka

ASSIGNORS = {
    "range": plugin.RangeAssignor,
    "roundrobin": plugin.RoundRobinAssignor,
    "sticky": plugin.StickyAssignor,
    "cooperative-sticky": plugin.CooperativeStickyAssignor,
    "rack-aware-sticky": plugin.RackAwareStickyAssignor,
    "capacity": partial(plugin.CapacityAssignor, capacity=4),
    "standby": for_aiokafka.StandbyAssignor,
    "priority": partial(for_aiokafka.PriorityAssignor, first=[["alerts"]]),
    "rollout": partial(for_aiokafka.RolloutAssignor, release="2"),
}


def cluster() -> ClusterMetadata:
    """Two brokers, one of them with a rack, and a topic with replicas on the first, the second, and both."""
    metadata = ClusterMetadata()
    partitions = [(0, 0, 1, [1], [1]), (0, 2, 2, [1, 2], [1]), (0, 1, 2, [2], [2])]
    brokers = [(1, "one", 9092, "a"), (2, "two", 9092, None)]
    metadata.update_metadata(MetadataResponse_v1(brokers, 1, [(0, "orders", False, partitions)]))
    return metadata


@pytest.mark.parametrize("name", ASSIGNORS)
def test_an_assignor_is_what_aiokafka_takes_for_one_and_has_the_name_all_clients_use(name: str) -> None:
    assignor = ASSIGNORS[name](rack="a", instance_id="pod-0")
    assert isinstance(assignor, AbstractPartitionAssignor)
    assert assignor.name == name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: plugin.assignor(Reversed), r"Reversed is a class .*: pass Reversed\(\)"),
        (lambda: plugin.assignor("sticky"), "'sticky' is a name and a strategy is an object"),
        (lambda: plugin.StickyAssignor(rack=1), "rack must be a non-empty str or None, not 1"),
        (lambda: plugin.StickyAssignor(instance_id=""), "instance_id must be a non-empty str or None"),
    ],
)
def test_assignor_refuses_invalid_arguments_at_construction(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


def test_outside_a_consumer_an_assignor_says_where_it_works() -> None:
    with pytest.raises(RuntimeError, match="inside a started AIOKafkaConsumer only"):
        plugin.StickyAssignor().metadata({"orders"})


def test_metadata_that_aiokafka_has_decoded_can_be_assigned_too() -> None:
    members = {name: ConsumerProtocolMemberMetadata(0, ["orders"], b"") for name in ("a", "b")}
    assigned = plugin.RangeAssignor().assign(cluster(), members)
    assert {name: answer.assignment for name, answer in assigned.items()} == {
        "a": [("orders", [0, 1])],
        "b": [("orders", [2])],
    }


def test_replica_racks_are_read_from_the_brokers_of_the_replicas() -> None:
    (orders,) = topics_of(cluster(), ["orders", "no metadata yet"])
    assert orders.partitions == 3
    assert orders.replica_racks == (frozenset({"a"}), frozenset(), frozenset({"a"}))
