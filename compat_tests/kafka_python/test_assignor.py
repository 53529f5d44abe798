"""The assignors of kafka_assignors_kafka_python as objects, without a broker."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

import kafka_assignors_kafka_python as plugin
from compat_tests.kafka_python.decoded import cluster_of, members_of
from compat_tests.support.strategies_of_others import Reversed
from kafka_assignors.join_sync import RackWatch
from kafka_assignors_kafka_python._client import CHECKED, MODULE, interface, module_for
from kafka_assignors_strategies import for_kafka_python

ASSIGNORS = {
    "range": plugin.RangeAssignor,
    "roundrobin": plugin.RoundRobinAssignor,
    "sticky": plugin.StickyAssignor,
    "cooperative-sticky": plugin.CooperativeStickyAssignor,
    "rack-aware-sticky": plugin.RackAwareStickyAssignor,
    "capacity": partial(plugin.CapacityAssignor, capacity=4),
    "standby": for_kafka_python.StandbyAssignor,
    "priority": partial(for_kafka_python.PriorityAssignor, first=[["alerts"]]),
    "rollout": partial(for_kafka_python.RolloutAssignor, release="2"),
}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_an_assignor_is_what_kafka_python_takes_for_one_and_has_the_name_all_clients_use(name: str) -> None:
    assignor = ASSIGNORS[name](rack="a", instance_id="pod-0")
    assert isinstance(assignor, AbstractPartitionAssignor)
    assert assignor.name == name
    assert [protocol.name for protocol in assignor.supported_protocols()] in ([], ["EAGER"])


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
    with pytest.raises(RuntimeError, match="inside a KafkaConsumer only"):
        plugin.StickyAssignor().metadata({"orders"})


def test_metadata_that_kafka_python_has_decoded_can_be_assigned_too() -> None:
    assigned = plugin.RangeAssignor().assign(cluster_of(), members_of("a", "b"))
    assert {
        name: [(tp.topic, tp.partition) for tp in answer.partitions()] for name, answer in assigned.items()
    } == {
        "a": [("orders", 0), ("orders", 1)],
        "b": [("orders", 2)],
    }


def test_replica_racks_are_read_from_the_brokers_of_the_replicas() -> None:
    (orders,) = interface.topics_of(cluster_of(), RackWatch(), ["orders", "no metadata yet"])
    assert orders.partitions == 3
    assert orders.replica_racks == (frozenset({"a"}), frozenset(), frozenset({"a"}))


@pytest.mark.parametrize("installed", CHECKED)
def test_each_version_that_was_checked_is_taken_without_a_word(
    installed: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert module_for(installed) == f"v{installed[0]}"
    assert not caplog.records


@pytest.mark.parametrize("installed", ["1.4.7", "2.0.2", "2.0.5"])
def test_a_version_that_is_too_old_is_refused_in_one_line(installed: str) -> None:
    with pytest.raises(
        ImportError, match=rf"^.* needs kafka-python 2\.0\.6 or newer, and {installed} is installed$"
    ):
        module_for(installed)


@pytest.mark.parametrize(("installed", "module"), [("unknown", "v3"), ("3.1.0rc1", "v3"), ("4.0.dev0", "v3")])
def test_a_version_that_is_not_known_is_warned_of_and_tried(
    installed: str, module: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert module_for(installed) == module
    (warning,) = caplog.messages
    assert warning.startswith(f"kafka-python {installed} is not among the releases checked")


if MODULE == "v2":

    def test_the_cooperative_consumer_says_what_it_needs_and_what_to_use_instead() -> None:
        with pytest.raises(RuntimeError, match=r"needs kafka-python 3, .*=\[StickyAssignor\(\)\]"):
            plugin.CooperativeKafkaConsumer("orders", group_id="g")
