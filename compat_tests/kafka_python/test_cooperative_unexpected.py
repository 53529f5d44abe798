"""CooperativeKafkaConsumers after unexpected errors, and after a sleep."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaError

from compat_tests.kafka_python.in_process import (
    KafkaPythonInProcess,
    Listener,
    committed,
    consuming,
    of,
)
from compat_tests.scenarios.in_process import share
from compat_tests.scenarios.unexpected import InjectedError, Once, UnexpectedScenarios, members_of
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.rebalance.events import AboutToJoin, RejoinRequested
from kafka_assignors_kafka_python.cooperative.inside import ConsumerCoordinator
from kafka_assignors_kafka_python.cooperative.requests import RequestingCoordinator
from kafka_assignors_kafka_python.cooperative.topics import WatchingCoordinator

PROGRAM = "compat_tests.kafka_python.cooperative_member"


class TestUnexpected(UnexpectedScenarios, KafkaPythonInProcess):
    requesting, watching, stock = RequestingCoordinator, WatchingCoordinator, ConsumerCoordinator
    kafka_error = KafkaError

    def refresh_metadata(self, consumer: Any) -> None:
        consumer._client.cluster.request_update()

    def hold_requests(self, consumer: Any) -> Callable[[], object]:
        coordinator, answering = consumer.coordinator, threading.Event()
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
    listener, once = Listener(), Once(RequestingCoordinator.offset_commit)
    with GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group:
        with consuming(group, listener) as consumer:
            share(group, consumer)
            monkeypatch.setattr(RequestingCoordinator, "offset_commit", once)
            offsets = committed(dict.fromkeys(of(group, 0, 1), 0))
            with pytest.raises(InjectedError):
                consumer.commit(offsets, timeout_ms=HANG_S * 1000)
            consumer.commit(offsets)
        assert listener.calls[-1] == ("revoked", of(group, 0, 1))
        assert members_of(kafka, group.id) == 0


def test_a_join_that_begins_while_the_user_unsubscribes_is_no_error(kafka: Kafka) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group, consuming(group) as consumer:
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
