"""A CooperativeAIOKafkaConsumer stops in every state, with any listener, and more than once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import ConsumerStoppedError, KafkaConnectionError
from aiokafka.protocol.fetch import FetchRequest

from compat_tests.aiokafka.cooperative_consumers import Listener, consumer_of, consuming, of, until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative.subscription import CooperativeSubscriptionState

pytestmark = pytest.mark.exhaustive

PROGRAM = "compat_tests.aiokafka.cooperative_member"


@contextlib.asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Check that the tasks started in the block end."""
    before = asyncio.all_tasks()
    yield
    await until(lambda: asyncio.all_tasks() <= before)


@pytest.mark.parametrize("resists", [False, True])
def test_a_listener_that_hangs_does_not_keep_a_consumer_that_stops_in_the_group(
    kafka: Kafka, resists: bool
) -> None:
    async def run() -> None:
        async def hang(_: set[TopicPartition]) -> None:
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    if not resists:
                        raise

        released = asyncio.Event()
        listener = Listener(revoked=hang)
        async with (
            nothing_left(),
            consuming(group) as other,
            consuming(group, listener) as consumer,
        ):
            await consumer.wait_for_assignment()
            consumer._coordinator._max_poll_interval = 1.0  # Set after the start, which may be slow.
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.stop(), 0.1)
            await asyncio.wait_for(consumer.stop(), HANG_S)
            await until(lambda: len(other.assignment()) == 4)
            released.set()

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


@pytest.mark.parametrize("cancelled", ["the call", "its task"])
def test_a_stop_that_is_cancelled_goes_on_with_the_next_one(kafka: Kafka, cancelled: str) -> None:
    async def run() -> None:
        async def commit_later(revoked: set[TopicPartition]) -> None:
            await released.wait()
            await consumer.commit(dict.fromkeys(revoked, 7))

        released = asyncio.Event()
        listener = Listener(revoked=commit_later)
        async with nothing_left():
            consumer = consumer_of(group)
            consumer.subscribe(list(group.topics), listener=listener)
            await asyncio.wait_for(consumer.start(), HANG_S)
            stopping = asyncio.create_task(consumer.stop())
            await until(lambda: listener.told("revoked"))
            (stopping if cancelled == "the call" else consumer._stopping).cancel()
            await asyncio.wait([stopping])
            assert stopping.cancelled()
            released.set()
            await asyncio.wait_for(consumer.stop(), HANG_S)
            await asyncio.wait_for(consumer.stop(), HANG_S)
        async with consuming(group) as successor:
            assert successor.assignment() == of(group, 0, 1, 2, 3)
            assert {await successor.committed(tp) for tp in successor.assignment()} == {7}

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


@pytest.mark.parametrize("state", ["not started", "not subscribed", "no match", "unsubscribed", "assigned"])
def test_a_consumer_without_a_group_assignment_stops_and_leaves_nothing_behind(
    kafka: Kafka, state: str
) -> None:
    async def run() -> None:
        async with nothing_left():
            consumer = consumer_of(group)
            if state == "no match":
                consumer.subscribe(pattern=f"nothing-{group.run}")
            if state != "not started":
                await asyncio.wait_for(consumer.start(), HANG_S)
            if state == "assigned":
                consumer.assign(list(of(group, 0)))
            if state == "unsubscribed":
                consumer.subscribe(list(group.topics))
                await until(consumer.assignment)
                consumer.unsubscribe()
            for _ in range(10):  # Let the fetcher begin to wait for an assignment.
                await asyncio.sleep(0)
            await asyncio.wait_for(consumer.stop(), HANG_S)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_calls_that_wait_for_records_end_when_the_consumer_stops_as_in_the_stock_consumer(
    kafka: Kafka,
) -> None:
    async def run(kind: type[AIOKafkaConsumer]) -> list[Any]:
        consumer = kind(*group.topics, bootstrap_servers=group.kafka.bootstrap, group_id=group.id)
        await asyncio.wait_for(consumer.start(), HANG_S)
        calls = [
            asyncio.create_task(call) for call in (consumer.getmany(timeout_ms=60_000), consumer.getone())
        ]
        await until(lambda: len(consumer._fetcher._fetch_waiters) == 2)
        await asyncio.wait_for(consumer.stop(), HANG_S)
        ended = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), HANG_S)
        with pytest.raises(ConsumerStoppedError):
            await consumer.getmany(timeout_ms=60_000)
        return [one if one == {} else type(one) for one in ended]

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        stock = asyncio.run(run(AIOKafkaConsumer))
        assert stock == [{}, ConsumerStoppedError]
        assert asyncio.run(run(CooperativeAIOKafkaConsumer)) == stock


def test_calls_that_wait_for_an_assignment_end_when_the_consumer_stops(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with nothing_left(), consuming(group), consuming(group) as consumer:
            assert await consumer.wait_for_assignment(timeout_ms=100) == set()
            # This is the state after the process was frozen.
            monkeypatch.setattr(CooperativeSubscriptionState, "reassignment_in_progress", True)
            calls = [
                asyncio.create_task(call)
                for call in (
                    consumer.getmany(timeout_ms=60_000),
                    consumer.getone(),
                    consumer.wait_for_assignment(),
                )
            ]
            await until(lambda: len(consumer._subscription._assignment_waiters) == 3)
            await asyncio.wait_for(consumer.stop(), HANG_S)
            ended = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), HANG_S)
            assert ended[0] == {}
            assert [type(one) for one in ended[1:]] == [ConsumerStoppedError] * 2

    with GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group:
        asyncio.run(run())


def test_a_consumer_that_is_stopped_while_it_starts_does_not_start(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn_topics = AIOKafkaConsumer._wait_topics
    reached, released = asyncio.Event(), asyncio.Event()

    async def learn_topics_late(self: AIOKafkaConsumer) -> None:
        await learn_topics(self)
        reached.set()
        await released.wait()

    async def run() -> None:
        async with nothing_left():
            consumer = consumer_of(group)
            consumer.subscribe(list(group.topics))
            starting = asyncio.create_task(consumer.start())
            await reached.wait()
            await asyncio.wait_for(consumer.stop(), HANG_S)
            released.set()
            with pytest.raises(ConsumerStoppedError):
                await asyncio.wait_for(starting, HANG_S)

    monkeypatch.setattr(AIOKafkaConsumer, "_wait_topics", learn_topics_late)
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_a_consumer_stops_while_a_failed_fetch_waits_for_its_next_try(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with nothing_left(), consuming(group, retry_backoff_ms=60_000) as consumer:
            send = consumer._client.send

            async def refuse_fetches(node_id: int, request: Any, **group: Any) -> Any:
                if isinstance(request, FETCHES):
                    refused.set()
                    raise KafkaConnectionError("no")
                return await send(node_id, request, **group)

            refused = asyncio.Event()
            monkeypatch.setattr(consumer._client, "send", refuse_fetches)
            await asyncio.wait_for(refused.wait(), HANG_S)
            await asyncio.sleep(0)
            await asyncio.wait_for(consumer.stop(), HANG_S)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


FETCHES = tuple(FetchRequest) if isinstance(FetchRequest, list) else FetchRequest
