"""The assignors of kafka_assignors_aiokafka as objects, without a broker."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from types import FunctionType, SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance, GroupCoordinator
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataResponse_v1
from aiokafka.structs import OffsetAndMetadata

import kafka_assignors_aiokafka as plugin
from kafka_assignors.messages import NEVER_ASSIGNED
from kafka_assignors.strategies.registry import ASSIGNOR_CLASSES
from kafka_assignors.wire import decode_member
from kafka_assignors.wire.consumer_protocol import decode_subscription
from kafka_assignors_aiokafka import CHECKED, _stock
from kafka_assignors_aiokafka._stock import topics_of
from kafka_assignors_strategies import Standby
from kafka_assignors_strategies.for_aiokafka import LagWeights

ASSIGNORS = {name: getattr(plugin, of_class) for of_class, name in ASSIGNOR_CLASSES.items()} | {
    "capacity": partial(plugin.CapacityAssignor, capacity=4),
    "standby": partial(plugin.assignor, Standby()),
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


def test_the_rack_is_that_of_the_consumer_unless_the_assignor_was_told_another() -> None:
    for told, rack in ((None, "east"), ("west", "west")):
        assignor = plugin.CooperativeStickyAssignor(rack=told)
        joined = assignor.subscription_with(NEVER_ASSIGNED, ["orders"], None, "east", held=True)
        assert decode_subscription(joined).rack == rack


# ---- what is read of aiokafka's running calls


MEMBERS = {name: ConsumerProtocolMemberMetadata(3, ["orders"], b"") for name in ("a", "b")}
"""What aiokafka decodes of members with the newest version of the protocol."""


def test_the_installed_aiokafka_can_be_read() -> None:
    assert _stock.members_unreadable() is None
    assert _stock._consumer_unreadable() is None


@pytest.mark.parametrize("name", ["range", "cooperative-sticky"])
def test_a_leader_never_assigns_from_what_aiokafka_has_decoded(name: str) -> None:
    with pytest.raises(RuntimeError, match="inside a running AIOKafkaConsumer only"):
        ASSIGNORS[name]().assign(cluster(), MEMBERS)


def renamed(function: Any, variable: str) -> Any:
    """The same function with another name for one of its variables."""
    code = function.__code__
    names = tuple(f"{name}_" if name == variable else name for name in code.co_varnames)
    return FunctionType(code.replace(co_varnames=names), function.__globals__, function.__name__)


UNREADABLE: Mapping[str, tuple[Any, str]] = {
    "renamed": (renamed(GroupCoordinator._perform_assignment, "response"), "has no argument 'response'"),
    "replaced": (lambda self, *arguments: None, "has no argument 'response'"),
    "other attribute": (lambda self, response: response.group, "does not use 'members'"),
    "compiled": (len, "has no function GroupCoordinator._perform_assignment"),
    "gone": (None, "has no function GroupCoordinator._perform_assignment"),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_where_the_bytes_of_members_cannot_be_read_an_assignor_is_refused_before_it_joins(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    function, why = UNREADABLE[what]
    monkeypatch.setattr(GroupCoordinator, "_perform_assignment", function)
    for name in ("range", "sticky", "cooperative-sticky", "standby"):
        with pytest.raises(RuntimeError, match=f"does not let an assignor read them: .*{why}") as refused:
            ASSIGNORS[name]().metadata(["orders"])
        assert "Use CooperativeAIOKafkaConsumer" in str(refused.value)


def test_a_function_that_another_package_has_wrapped_is_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stock = GroupCoordinator._perform_assignment

    @functools.wraps(stock)
    async def traced(*arguments: Any, **options: Any) -> Any:
        return await stock(*arguments, **options)

    monkeypatch.setattr(GroupCoordinator, "_perform_assignment", traced)
    assert _stock.members_unreadable() is None


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_a_generation_that_cannot_be_read_is_sent_as_minus_one(name: str) -> None:
    assignor = ASSIGNORS[name]()
    assignor.on_assignment(ConsumerProtocolMemberAssignment(0, [("orders", [0, 2])], b""))
    claim = decode_member(assignor.strategy, "a", assignor.metadata(["orders"]), None)
    assert {topic: [*partitions] for topic, partitions in claim.owned.items()} == {"orders": [0, 2]}
    assert claim.generation == -1


def test_the_consumer_is_read_where_it_joins_and_where_it_is_assigned_or_in_neither_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[Any] = []

    class Assignor(plugin.StickyAssignor):
        def on_assignment(self, assignment: ConsumerProtocolMemberAssignment) -> None:
            found.append(_stock.assigned_coordinator())

    def assign() -> Any:
        stock = SimpleNamespace(_lookup_assignor=lambda protocol: Assignor(), _subscription=SimpleNamespace())
        stock._subscription.assign_from_subscribed = lambda partitions: None
        stock._subscription.subscription = None
        assignment = ConsumerProtocolMemberAssignment(0, [("orders", [0])], b"")
        encoded = assignment.encode()
        with pytest.raises(AttributeError):  # What follows the call of the assignor is not there.
            asyncio.run(GroupCoordinator._on_join_complete(stock, 7, "member", "sticky", encoded))
        return stock

    assert assign() is found[0][0]
    assert found[0][1] == 7
    for of_class, name, argument in (
        (GroupCoordinator, "_on_join_complete", "generation"),
        (CoordinatorGroupRebalance, "perform_group_join", "self"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(of_class, name, renamed(getattr(of_class, name), argument))
            assign()
        assert found.pop() == (None, -1)


def test_a_release_that_lacks_an_attribute_of_the_coordinator_is_refused_before_it_joins() -> None:
    stock = SimpleNamespace(
        group_id="g",
        _subscription=SimpleNamespace(topics=["orders"]),
        _assignors=[plugin.StickyAssignor()],
        _coordinator=SimpleNamespace(_assignors=[]),
    )
    with pytest.raises(RuntimeError, match="SimpleNamespace has no _group_instance_id"):
        asyncio.run(CoordinatorGroupRebalance.perform_group_join(stock))


def test_replica_racks_are_read_from_the_brokers_of_the_replicas() -> None:
    (orders,) = topics_of(cluster(), ["orders", "no metadata yet"])
    assert orders.partitions == 3
    assert orders.replica_racks == (frozenset({"a"}), frozenset(), frozenset({"a"}))


# ---- releases of aiokafka that are older or newer than the checked ones

IMPORT = """
import aiokafka, sys
aiokafka.__version__ = sys.argv[1]
import kafka_assignors_aiokafka._client
"""


def import_with(version: str) -> tuple[int, list[str]]:
    """Exit code and standard error of a process that imports the plugin with `version` installed."""
    run = subprocess.run([sys.executable, "-c", IMPORT, version], capture_output=True, text=True, check=False)
    return run.returncode, run.stderr.splitlines()


def test_the_import_of_the_plugin_fails_with_one_clear_line_where_aiokafka_is_too_old() -> None:
    code, lines = import_with("0.8.1")
    assert code == 1
    assert lines[-1] == (
        "ImportError: kafka_assignors_aiokafka needs aiokafka 0.10 or newer, and 0.8.1 is installed"
    )


def test_the_import_warns_once_where_aiokafka_is_newer_than_what_was_checked() -> None:
    code, lines = import_with(f"{CHECKED[1][0]}.{CHECKED[1][1] + 1}.0")
    assert code == 0
    assert len(lines) == 1
    assert "is not among the releases checked" in lines[0]


def test_a_lookup_without_an_answer_for_each_partition_is_an_error_and_not_an_unknown_weight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """aiokafka passes over the error code of OffsetFetch, such as NOT_COORDINATOR."""
    asked = []

    async def offsets(self: Any, group: str, **arguments: Any) -> dict[TopicPartition, OffsetAndMetadata]:
        asked.append(arguments["partitions"])
        return {TopicPartition("orders", 0): OffsetAndMetadata(3, "")}

    async def nothing(self: Any) -> None:
        pass

    async def ends(self: Any, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    for kind, name, instead in (
        (AIOKafkaAdminClient, "start", nothing),
        (AIOKafkaAdminClient, "close", nothing),
        (AIOKafkaAdminClient, "list_consumer_group_offsets", offsets),
        (AIOKafkaConsumer, "start", nothing),
        (AIOKafkaConsumer, "stop", nothing),
        (AIOKafkaConsumer, "end_offsets", ends),
    ):
        monkeypatch.setattr(kind, name, instead)
    weights = LagWeights("g", base=0, bootstrap_servers="127.0.0.1:1")

    async def look(partitions: int) -> Any:
        return await weights({"orders": partitions})

    assert asyncio.run(look(1)) == {"orders": [7]}
    with pytest.raises(KafkaError, match="'g' gives no offsets"):
        asyncio.run(look(2))
    assert asked == [[TopicPartition("orders", p) for p in range(count)] for count in (1, 2)]
