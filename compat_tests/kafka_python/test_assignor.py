"""The assignors of kafka_assignors_kafka_python as objects, without a broker."""

from __future__ import annotations

import gc
import logging
import os
import socket
import threading
from functools import partial
from types import FunctionType
from typing import Any

import pytest
from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.errors import KafkaError

import kafka_assignors_kafka_python as plugin
from kafka_assignors.strategies.registry import ASSIGNOR_CLASSES
from kafka_assignors_kafka_python import _assignor
from kafka_assignors_kafka_python._releases import CHECKED, IS_2, is_release_2
from kafka_assignors_strategies import Standby
from kafka_assignors_strategies.for_kafka_python import LagWeights

ASSIGNORS = {name: getattr(plugin, of_class) for of_class, name in ASSIGNOR_CLASSES.items()} | {
    "capacity": partial(plugin.CapacityAssignor, capacity=4),
    "standby": partial(plugin.assignor, Standby()),
}


def members_of(*names: str) -> Any:
    """Members that subscribe to the topic, in the form that an assignor's `assign` receives in version 2."""
    from kafka.coordinator import protocol

    versions: Any = protocol.ConsumerProtocol
    if not isinstance(versions, list):
        return {name: versions.METADATA(0, ["orders"], b"") for name in names}
    from kafka.coordinator.subscription import Subscription

    return {name: Subscription(versions[0].METADATA(0, ["orders"], b""), None) for name in names}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_an_assignor_is_what_kafka_python_takes_for_one_and_has_the_name_all_clients_use(name: str) -> None:
    assignor = ASSIGNORS[name](rack="a", instance_id="pod-0")
    assert isinstance(assignor, AbstractPartitionAssignor)
    assert assignor.name == name
    if not IS_2:
        assert [protocol.name for protocol in assignor.supported_protocols()] == ["EAGER"]


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
@pytest.mark.parametrize(
    "cooperative", [plugin.CooperativeStickyAssignor, partial(plugin.assignor, Standby())]
)
def test_where_held_partitions_cannot_be_read_cooperative_strategies_are_refused_and_eager_ones_work(
    monkeypatch: pytest.MonkeyPatch, name: str, cooperative: Any
) -> None:
    cooperative().metadata({"orders"})
    hide_what_members_hold(monkeypatch, name)
    with pytest.raises(RuntimeError, match=r"two owners: take CooperativeKafkaConsumer .* eager alone"):
        cooperative() if IS_2 else cooperative().supported_protocols()
    plugin.StickyAssignor().metadata({"orders"})
    if IS_2:
        plugin.StickyAssignor().assign(ClusterMetadata(), members_of("a"))


if IS_2:

    def test_what_kafka_python_has_decoded_does_not_take_the_place_of_what_cannot_be_read() -> None:
        with pytest.raises(RuntimeError, match="does not show what members still hold"):
            plugin.CooperativeStickyAssignor().assign(ClusterMetadata(), members_of("a"))


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


def test_lookups_without_a_broker_leave_no_thread_and_no_socket(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "kafka")  # Captured records keep the sockets of their errors.
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"  # Nothing listens there from now on.
    limit = "api_version_auto_timeout_ms" if IS_2 else "bootstrap_timeout_ms"
    weights = LagWeights("g", bootstrap_servers=address, **{limit: 200})

    def open_now() -> tuple[int, int]:
        gc.collect()
        return threading.active_count(), len(os.listdir("/dev/fd"))

    before = open_now()
    for _ in range(3):
        with pytest.raises(KafkaError):
            weights({"orders": 1})
    assert open_now() <= before
