"""An unexpected error in each task of a CooperativeKafkaConsumer, and a computer that sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kafka.errors import KafkaError

from compat_tests.kafka_python.in_process import Listener, consuming
from compat_tests.scenarios.in_process import polling_until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.injected_errors import Announcing, InjectedError, Once, members_of
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.rebalance import lease, session
from kafka_assignors_kafka_python import CooperativeKafkaConsumer, assignor
from kafka_assignors_kafka_python.cooperative.inside import ConsumerCoordinator
from kafka_assignors_kafka_python.cooperative.requests import RequestingCoordinator
from kafka_assignors_kafka_python.cooperative.topics import WatchingCoordinator

PROGRAM = "compat_tests.kafka_python.cooperative_member"


FAULTS: dict[str, tuple[Any, str]] = {
    "member_data": (Announcing, "member_data"),
    "join": (RequestingCoordinator, "join_group"),
    "lead": (WatchingCoordinator, "remember_topics"),
    "sync": (RequestingCoordinator, "sync_group"),
    "assigned": (session, "read_assignment"),
    "heartbeat": (RequestingCoordinator, "send_heartbeat"),
    "metadata": (ConsumerCoordinator, "_handle_metadata_update"),
}


class Reader:
    """Polls, and records the number of records and the errors."""

    def __init__(self, consumer: CooperativeKafkaConsumer) -> None:
        self.consumer = consumer
        self.read = 0
        self.told: list[str] = []

    def until(self, condition: Callable[[], Any]) -> None:
        deadline = time.monotonic() + HANG_S
        while not condition():
            assert time.monotonic() < deadline
            try:
                self.read += sum(map(len, self.consumer.poll(timeout_ms=50).values()))
            except KafkaError as error:
                self.told.append(str(error))


@pytest.mark.parametrize("fault", FAULTS)
def test_an_unexpected_error_is_told_and_the_consumer_goes_on_and_leaves(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    owner, name = FAULTS[fault]
    listener = Listener()
    with GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group:
        group.produce(10)
        with consuming(
            group,
            listener,
            session_timeout_ms=45_000,
            partition_assignment_strategy=[assignor(Announcing())],
        ) as consumer:
            reader = Reader(consumer)
            reader.until(lambda: reader.read)
            once = Once(getattr(owner, name))
            monkeypatch.setattr(owner, name, once)
            consumer.enforce_rebalance()
            if fault == "metadata":
                consumer._client.cluster.request_update()
            reader.until(lambda: once.has_raised)
            reader.until(lambda: reader.told)
            assigned = len(listener.calls)
            consumer.enforce_rebalance()
            reader.until(lambda: len(listener.calls) > assigned)
            before = reader.read
            group.produce(10)
            reader.until(lambda: reader.read > before)
        assert listener.calls[-1][0] == "revoked"
        assert len(listener.calls[-1][1]) == 2
        assert members_of(kafka, group.id) == 0
    assert all("injected" in error for error in reader.told)


@pytest.mark.parametrize("name", ["offset_commit", "leave_group"])
def test_a_request_that_cannot_be_made_fails_alone(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    listener, once = Listener(), Once(getattr(RequestingCoordinator, name))
    with GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group:
        group.produce(10)
        with consuming(group, listener) as consumer:
            reader = Reader(consumer)
            reader.until(lambda: reader.read)
            monkeypatch.setattr(RequestingCoordinator, name, once)
            if name == "offset_commit":
                with pytest.raises(InjectedError):
                    consumer.commit(timeout_ms=HANG_S * 1000)
            consumer.commit()
        assert once.has_raised
        assert not reader.told
        assert listener.calls[-1][0] == "revoked"
        assert members_of(kafka, group.id) == (0 if name == "offset_commit" else 1)


def test_a_machine_that_fails_is_told_and_the_consumer_still_tells_its_listener_and_leaves(
    kafka: Kafka,
) -> None:
    listener = Listener()
    with GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group:
        with consuming(group, listener) as consumer:
            polling_until(lambda: listener.told("assigned"), consumer)

            def fail(event: Any) -> None:
                raise InjectedError("injected")

            consumer._coordinator.handle = fail
            reader = Reader(consumer)
            reader.until(lambda: reader.told)
        assert "injected" in reader.told[0]
        assert listener.calls[-1] == ("lost", listener.told("assigned")[-1])
        assert members_of(kafka, group.id) == 0


def test_after_the_computer_has_slept_nothing_is_delivered_until_the_coordinator_has_answered(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group:
        group.produce(100)
        with consuming(group, max_poll_records=1) as consumer:
            reader = Reader(consumer)
            reader.until(lambda: reader.read)  # More records are in the buffer.
            coordinator, awake = consumer._coordinator, lease.clock
            send, answering = coordinator.send, threading.Event()

            async def send_when_awake(request: Any, **options: Any) -> Any:
                while not answering.is_set():
                    await coordinator._net.sleep(0.02)
                return await send(request, **options)

            coordinator.send = send_when_awake
            slept_s = coordinator.config["session_timeout_ms"] / 1000 + 60
            monkeypatch.setattr(lease, "clock", lambda: awake() + slept_s)
            generation = consumer.group_metadata().generation_id
            for _ in range(20):
                assert not consumer.poll(timeout_ms=50)
            answering.set()
            before = reader.read
            reader.until(lambda: reader.read > before)
            assert consumer.group_metadata().generation_id > generation  # The consumer has joined again.
