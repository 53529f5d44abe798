"""CooperativeKafkaConsumers after unexpected errors, after a sleep, and when they are closed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka import errors as Errors
from kafka.protocol.metadata import ApiVersionsRequest

from compat_tests.kafka_python import in_process
from compat_tests.scenarios.in_process import share
from compat_tests.scenarios.unexpected import InjectedError, Once, UnexpectedScenarios, members_of
from compat_tests.scripted.broker import broker_in_thread
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.rebalance.events import AboutToJoin, RejoinRequested
from kafka_assignors.strategies import CooperativeSticky
from kafka_assignors_kafka_python import CooperativeKafkaConsumer, assignor
from kafka_assignors_kafka_python.cooperative.inside import ConsumerCoordinator
from kafka_assignors_kafka_python.cooperative.requests import RequestingCoordinator
from kafka_assignors_kafka_python.cooperative.topics import WatchingCoordinator


class TestUnexpected(UnexpectedScenarios, in_process.KafkaPythonInProcess):
    requesting, watching, stock = RequestingCoordinator, WatchingCoordinator, ConsumerCoordinator

    def refresh_metadata(self, consumer: Any) -> None:
        consumer._client.cluster.request_update()

    def hold_requests(self, consumer: Any) -> Callable[[], object]:
        coordinator, answering = consumer._coordinator, threading.Event()
        send = coordinator.send

        async def send_when_awake(request: Any, **options: Any) -> Any:
            while not answering.is_set():
                await coordinator._net.sleep(0.02)
            return await send(request, **options)

        coordinator.send = send_when_awake
        return answering.set

    def must_deliver_nothing(self, consumer: Any) -> None:
        for _ in range(20):
            assert not consumer.poll(timeout_ms=50)

    def open_connections(self, consumer: Any) -> int:
        return len(consumer._client._manager._conns)


def test_a_commit_that_cannot_be_made_fails_alone(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    listener, once = in_process.Listener(), Once(RequestingCoordinator.offset_commit)
    with GroupOfMembers(kafka, in_process.PROGRAM, {"orders": 2}) as group:
        with in_process.consuming(group, listener) as consumer:
            share(group, consumer)
            monkeypatch.setattr(RequestingCoordinator, "offset_commit", once)
            offsets = in_process.committed(dict.fromkeys(in_process.of(group, 0, 1), 0))
            with pytest.raises(InjectedError):
                consumer.commit(offsets, timeout_ms=HANG_S * 1000)
            consumer.commit(offsets)
        assert listener.calls[-1] == ("revoked", in_process.of(group, 0, 1))
        assert members_of(kafka, group.id) == 0


def test_a_join_that_begins_while_the_user_unsubscribes_is_no_error(kafka: Kafka) -> None:
    with (
        GroupOfMembers(kafka, in_process.PROGRAM, {"orders": 6}) as group,
        in_process.consuming(group) as consumer,
    ):
        share(group, consumer)
        coordinator, topics = consumer._coordinator, sorted(consumer.subscription())

        def begin_a_join_too_late() -> None:
            # The member state requests the join, which is sent after this function has returned.
            coordinator.handle(RejoinRequested("the test wants it"))
            coordinator.handle(AboutToJoin(coordinator._session.protocol))
            consumer._subscription.unsubscribe()

        coordinator.on_io_thread(begin_a_join_too_late)
        consumer.subscribe(topics)
        share(group, consumer)


# ---- sockets and log messages that a closed consumer leaves behind

OURS = ("kafka_assignors_kafka_python", "kafka_assignors")


class OfAnotherGroup(CooperativeSticky):
    name = "test-other"


def sockets_of(consumer: Any) -> list[Any]:
    connections = list(consumer._client._manager._conns.values())
    return [each.transport._sock for each in connections if each.transport is not None]


def test_a_connection_that_is_being_written_to_is_closed_though_the_io_thread_ends() -> None:
    with broker_in_thread() as broker:
        broker.group("closing", {"orders": 1})
        consumer = CooperativeKafkaConsumer(
            bootstrap_servers=broker.bootstrap, group_id="closing", client_id="closing"
        )
        consumer.partitions_for_topic("orders")
        sockets, closing = sockets_of(consumer), consumer._client.close
        net, begun = consumer._client._net, threading.Event()

        def close_while_something_is_written() -> None:
            # The I/O thread has begun to write and polls the socket when it is told to end.
            def write_and_stand_still() -> None:
                for connection in list(consumer._client._manager._conns.values()):
                    connection.send_request(ApiVersionsRequest(version=0))
                begun.set()
                deadline = time.monotonic() + HANG_S
                while not net._stop and time.monotonic() < deadline:
                    time.sleep(0.01)

            # A ready task would give the thread another turn, in which the write completes.
            cluster = consumer._client._manager.cluster
            cluster.close()
            net.run(consumer._client._manager.wait_for, cluster._refresh_loop_future, HANG_S * 1000)
            net.call_soon_threadsafe(write_and_stand_still)
            assert begun.wait(HANG_S)
            closing()

        consumer._client.close = close_while_something_is_written
        consumer.close()
        assert [each for each in sockets if each.fileno() >= 0] == []


def test_a_consumer_that_is_closed_after_its_joins_were_refused_logs_no_error(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        GroupOfMembers(kafka, in_process.PROGRAM, {"orders": 1}) as group,
        in_process.consuming(group, partition_assignment_strategy=[assignor(OfAnotherGroup())]) as other,
    ):
        share(group, other)
        for number in range(0, 20, 4):  # Close at a different moment between two joins each time.
            with in_process.consuming(group) as refused:
                with pytest.raises(Errors.InconsistentGroupProtocolError):
                    refused.poll(timeout_ms=HANG_S * 1000)
                time.sleep(number / 200)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR and each.name in OURS] == []
