"""An unexpected error in each task of a CooperativeAIOKafkaConsumer, and a computer that sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import KafkaError

from compat_tests.aiokafka.cooperative_consumers import Listener, consuming, of, until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.injected_errors import Announcing, InjectedError, Once, members_of
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.rebalance import lease, session
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, assignor
from kafka_assignors_aiokafka.cooperative.requests import RequestingCoordinator
from kafka_assignors_aiokafka.cooperative.subscription import CooperativeAssignment
from kafka_assignors_aiokafka.cooperative.topics import WatchingCoordinator

pytestmark = pytest.mark.exhaustive

PROGRAM = "compat_tests.aiokafka.cooperative_member"


FAULTS: dict[str, tuple[Any, str]] = {
    "member_data": (Announcing, "member_data"),
    "join": (RequestingCoordinator, "join_group"),
    "lead": (WatchingCoordinator, "remember_topics"),
    "sync": (RequestingCoordinator, "sync_group"),
    "assigned": (session, "read_assignment"),
    "heartbeat": (RequestingCoordinator, "send_heartbeat"),
    "commit": (RequestingCoordinator, "offset_commit"),
    "auto commit": (CooperativeAssignment, "all_consumed_offsets"),
    "metadata": (GroupCoordinator, "_handle_metadata_update"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_unexpected_error_is_told_and_the_consumer_goes_on_and_leaves(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    owner, name = FAULTS[fault]
    told: list[str] = []
    read: list[Any] = []

    async def read_until(consumer: CooperativeAIOKafkaConsumer, condition: Callable[[], bool]) -> None:
        while not condition():
            try:
                found = await consumer.getmany(timeout_ms=50)
                read.extend(record for records in found.values() for record in records)
            except KafkaError as error:
                told.append(str(error))

    async def consume() -> None:
        async with consuming(
            group,
            listener,
            session_timeout_ms=45_000,
            enable_auto_commit=True,
            auto_commit_interval_ms=200,
            partition_assignment_strategy=[assignor(Announcing())],
        ) as consumer:
            await read_until(consumer, lambda: bool(read))
            once = Once(getattr(owner, name))
            monkeypatch.setattr(owner, name, once)
            consumer.enforce_rebalance()
            if fault == "metadata":
                await consumer._client.force_metadata_update()
            await read_until(consumer, lambda: once.has_raised)
            await read_until(consumer, lambda: bool(told))
            assigned = len(listener.calls)
            consumer.enforce_rebalance()
            await read_until(consumer, lambda: len(listener.calls) > assigned)
            read.clear()
            group.produce(10)
            await read_until(consumer, lambda: bool(read))
        assert listener.calls[-1] == ("revoked", of(group, 0, 1))
        assert members_of(kafka, group.id) == 0

    listener = Listener()
    with GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group:
        group.produce(10)
        asyncio.run(asyncio.wait_for(consume(), HANG_S))
    assert all("injected" in error for error in told)


def test_a_machine_that_fails_is_told_and_the_consumer_still_tells_its_listener_and_leaves(
    kafka: Kafka,
) -> None:
    async def consume() -> None:
        async with consuming(group, listener, session_timeout_ms=5_000) as consumer:
            await until(lambda: listener.calls)
            coordinator = consumer._coordinator

            def fail(event: Any) -> None:
                raise InjectedError("injected")

            coordinator.handle = fail
            await until(lambda: coordinator._subscription._error or coordinator._subscription._fatal_error)
            with pytest.raises(KafkaError, match="injected"):
                await consumer.getmany(timeout_ms=50)
        assert listener.calls[-1] == ("lost", of(group, 0, 1))
        assert members_of(kafka, group.id) == 0

    listener = Listener()
    with GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group:
        asyncio.run(asyncio.wait_for(consume(), HANG_S))


def test_a_leave_request_that_cannot_be_made_keeps_the_consumer_from_nothing_else(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def consume() -> None:
        once = Once(RequestingCoordinator.leave_group)
        async with consuming(group, listener) as consumer:
            monkeypatch.setattr(RequestingCoordinator, "leave_group", once)
        assert once.has_raised
        assert listener.calls[-1] == ("revoked", of(group, 0, 1))
        assert not any(connection.connected() for connection in consumer._client._conns.values())

    listener = Listener()
    with GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group:
        asyncio.run(asyncio.wait_for(consume(), HANG_S))


def test_after_the_computer_has_slept_nothing_is_delivered_until_the_coordinator_has_answered(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def consume() -> None:
        async with consuming(group, max_poll_records=1) as consumer:
            await asyncio.wait_for(consumer.getone(), HANG_S)  # More records are in its buffer.
            coordinator, awake = consumer._coordinator, lease.clock
            send, answering = coordinator._send_req, asyncio.Event()

            async def send_when_awake(request: Any) -> Any:
                await answering.wait()
                return await send(request)

            coordinator._send_req = send_when_awake
            slept_s = coordinator._session_timeout_ms / 1000 + 60
            monkeypatch.setattr(lease, "clock", lambda: awake() + slept_s)
            generation = coordinator.generation
            with pytest.raises(asyncio.TimeoutError):  # Otherwise they would be delivered at once.
                await asyncio.wait_for(consumer.getone(), 2)
            answering.set()
            await asyncio.wait_for(consumer.getone(), HANG_S)
            assert coordinator.generation > generation  # The consumer has joined again.

    with GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group:
        group.produce(10)
        asyncio.run(asyncio.wait_for(consume(), HANG_S))
