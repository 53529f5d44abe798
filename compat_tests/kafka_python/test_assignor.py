"""The assignors of kafka_assignors_kafka_python as objects, without a broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import FunctionType
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.metadata import MetadataResponse

import kafka_assignors_kafka_python as plugin
from compat_tests.support.strategies_of_others import Reversed
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies import Strategy
from kafka_assignors.wire import decode_assignment
from kafka_assignors_kafka_python import _assignor
from kafka_assignors_kafka_python._releases import CHECKED, IS_2, is_release_2
from kafka_assignors_strategies import Priority, Rollout, Standby

ASSIGNORS = {
    "range": plugin.RangeAssignor,
    "roundrobin": plugin.RoundRobinAssignor,
    "sticky": plugin.StickyAssignor,
    "cooperative-sticky": plugin.CooperativeStickyAssignor,
    "rack-aware-sticky": plugin.RackAwareStickyAssignor,
    "capacity": partial(plugin.CapacityAssignor, capacity=4),
    "standby": partial(plugin.assignor, Standby()),
    "priority": partial(plugin.assignor, Priority([["alerts"]])),
    "rollout": partial(plugin.assignor, Rollout("2")),
}


REPLICAS: Mapping[int, Sequence[int]] = {0: [1], 2: [1, 2], 1: [2]}


def assign_interface() -> int:
    """2 or 3. Version 2 has a list of response classes, version 3 one class for all versions."""
    return 2 if isinstance(MetadataResponse, list) else 3


def cluster_of() -> ClusterMetadata:
    """Two brokers, one of them with a rack, and a topic with replicas on the first, the second, and both."""
    metadata = ClusterMetadata()
    metadata.update_metadata(_response_2() if assign_interface() == 2 else _response_3())
    return metadata


def members_of(*names: str) -> Any:
    """Members that subscribe to the topic, in the form that an assignor's `assign` receives."""
    if assign_interface() == 2:
        from kafka.coordinator import protocol

        versions: Any = protocol.ConsumerProtocol
        if not isinstance(versions, list):
            return {name: versions.METADATA(0, ["orders"], b"") for name in names}
        from kafka.coordinator.subscription import Subscription

        return {name: Subscription(versions[0].METADATA(0, ["orders"], b""), None) for name in names}

    from kafka.protocol.consumer.group import JoinGroupResponse
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    Member = JoinGroupResponse.JoinGroupResponseMember
    subscription = ConsumerProtocolSubscription(0, ["orders"], b"")
    return [Member(member_id=name, group_instance_id=None, metadata=subscription) for name in names]


def _response_2() -> Any:
    return MetadataResponse[1](
        [(1, "one", 9092, "a"), (2, "two", 9092, None)],
        1,
        [(0, "orders", False, [(0, number, nodes[0], nodes, nodes) for number, nodes in REPLICAS.items()])],
    )


def _response_3() -> Any:
    Topic = MetadataResponse.MetadataResponseTopic
    Partition = Topic.MetadataResponsePartition
    Broker = MetadataResponse.MetadataResponseBroker
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
        for number, nodes in REPLICAS.items()
    ]
    response = MetadataResponse(
        version=8,
        throttle_time_ms=0,
        brokers=[Broker(1, "one", 9092, "a"), Broker(2, "two", 9092, None)],
        cluster_id="c",
        controller_id=1,
        topics=[Topic(error_code=0, name="orders", is_internal=False, partitions=partitions)],
    )
    return MetadataResponse.decode(response.encode(), version=8)


@pytest.mark.parametrize("name", ASSIGNORS)
def test_an_assignor_is_what_kafka_python_takes_for_one_and_has_the_name_all_clients_use(name: str) -> None:
    assignor = ASSIGNORS[name](rack="a", instance_id="pod-0")
    assert isinstance(assignor, AbstractPartitionAssignor)
    assert assignor.name == name
    if not IS_2:
        assert [protocol.name for protocol in assignor.supported_protocols()] == ["EAGER"]


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


def test_metadata_that_kafka_python_has_decoded_can_be_assigned_too() -> None:
    assigned = plugin.RangeAssignor().assign(cluster_of(), members_of("a", "b"))
    assert {name: decode_assignment(answer).partitions for name, answer in assigned.items()} == {
        "a": {"orders": (0, 1)},
        "b": {"orders": (2,)},
    }


class Looks(Strategy):
    """Keeps the group that it gets."""

    name = "test-looks"
    seen: Group | None = None

    def assign(self, group: Group) -> Assignment:
        type(self).seen = group
        return plugin.RangeAssignor().strategy.assign(group)


class EagerLooks(Looks):
    protocols = plugin.RangeAssignor().strategy.protocols


def test_replica_racks_are_read_from_the_brokers_of_the_replicas() -> None:
    plugin.assignor(EagerLooks()).assign(cluster_of(), members_of("a"))
    assert EagerLooks.seen is not None
    (orders,) = EagerLooks.seen.topics.values()
    assert orders.partitions == 3
    assert orders.replica_racks == (frozenset({"a"}), frozenset(), frozenset({"a"}))


# ---- what members still hold


def renamed(method: Any, name: str) -> Any:
    """The method with another name for one of its variables, or of the attributes that it reads."""
    code = method.__code__
    names = {
        field: tuple(f"other_{one}" if one == name else one for one in getattr(code, field))
        for field in ("co_varnames", "co_names")
    }
    return FunctionType(code.replace(**names), method.__globals__)


def hide_what_members_hold(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if IS_2:
        method = ConsumerCoordinator._perform_assignment
        monkeypatch.setattr(ConsumerCoordinator, "_perform_assignment", renamed(method, name))
        return
    from kafka.protocol.consumer.metadata import ConsumerProtocolSubscription

    def of_version_0(data: bytes) -> Any:
        return ConsumerProtocolSubscription(0, ["topic"], data)

    monkeypatch.setattr(ConsumerProtocolSubscription, "decode", of_version_0)


@pytest.mark.parametrize("name", ["members", "metadata_bytes"])
@pytest.mark.parametrize("cooperative", [plugin.CooperativeStickyAssignor, partial(plugin.assignor, Looks())])
def test_where_held_partitions_cannot_be_read_cooperative_strategies_are_refused_and_eager_ones_work(
    monkeypatch: pytest.MonkeyPatch, name: str, cooperative: Any
) -> None:
    cooperative().metadata({"orders"})
    hide_what_members_hold(monkeypatch, name)
    with pytest.raises(RuntimeError, match=r"two owners: take CooperativeKafkaConsumer .* eager alone"):
        cooperative() if IS_2 else cooperative().supported_protocols()
    plugin.StickyAssignor().metadata({"orders"})
    if IS_2:
        plugin.StickyAssignor().assign(cluster_of(), members_of("a"))


if IS_2:

    def test_what_kafka_python_has_decoded_does_not_take_the_place_of_what_cannot_be_read() -> None:
        with pytest.raises(RuntimeError, match="does not show what members still hold"):
            plugin.CooperativeStickyAssignor().assign(cluster_of(), members_of("a"))


def test_a_generation_that_cannot_be_read_counts_as_none() -> None:
    assert _assignor.generation_of(None) == -1
    assert _assignor.generation_of(object()) == -1


@pytest.mark.parametrize("installed", CHECKED)
def test_each_version_that_was_checked_is_taken_without_a_word(
    installed: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert is_release_2(installed) == (installed[0] == "2")
    assert not [each for each in caplog.records if each.name.startswith("kafka_assignors")]


@pytest.mark.parametrize("installed", ["1.4.7", "2.0.2", "2.0.5"])
def test_a_version_that_is_too_old_is_refused_in_one_line(installed: str) -> None:
    with pytest.raises(
        ImportError, match=rf"^.* needs kafka-python 2\.0\.6 or newer, and {installed} is installed$"
    ):
        is_release_2(installed)


@pytest.mark.parametrize("installed", ["unknown", "3.1.0rc1", "4.0.dev0"])
def test_a_version_that_is_not_known_is_warned_of_and_tried(
    installed: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert not is_release_2(installed)
    (warning,) = caplog.messages
    assert warning.startswith(f"kafka-python {installed} is not among the releases checked")


if IS_2:

    def test_the_cooperative_consumer_says_what_it_needs_and_what_to_use_instead() -> None:
        with pytest.raises(RuntimeError, match=r"needs kafka-python 3, .*=\[StickyAssignor\(\)\]"):
            plugin.CooperativeKafkaConsumer("orders", group_id="g")
