"""The start offset of a partition is looked up while the partition is revoked, and may come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from compat_tests.scripted.broker import Held, Request, ScriptedBroker
from compat_tests.scripted.model import LATEST_OFFSET, Group
from compat_tests.scripted.users import CLIENTS, User
from compat_tests.support.hang_limit import hang_limit
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer

GOES, STAYS = TopicPartition("orders", 0), TopicPartition("orders", 1)

OURS_AND_STOCK = pytest.mark.parametrize("kind", [CooperativeAIOKafkaConsumer, AIOKafkaConsumer])

Scene = Callable[[Any, Group, asyncio.Event], Awaitable[None]]


def play(kind: type[AIOKafkaConsumer], scene: Scene) -> None:
    """Start a consumer, read some records, and hold the response to its next ListOffsets request."""

    async def run() -> None:
        async with ScriptedBroker() as broker:
            group = broker.group("seeking", {"orders": 2}, peer_leads=True, assigned=[GOES, STAYS])
            settings = {"group_id": "seeking", "client_id": "seeking", "auto_offset_reset": "earliest"}
            consumer = kind(
                "orders",
                bootstrap_servers=broker.bootstrap,
                enable_auto_commit=False,
                heartbeat_interval_ms=100,
                **settings,
            )
            released = asyncio.Event()
            async with hang_limit():
                await consumer.start()
                try:
                    for tp in (GOES, STAYS):
                        assert await consumer.getone(tp)
                    group.answer("ListOffsets", Held(released))
                    await scene(consumer, group, released)
                finally:
                    released.set()
                    await consumer.stop()
            assert broker.unexpected == []

    asyncio.run(run())


async def asked(group: Group, seeking: Awaitable[bool]) -> asyncio.Future[bool]:
    """Start a call, and wait until its ListOffsets request has reached the broker."""
    before = len(group.requests)
    call = asyncio.ensure_future(seeking)
    await group.until(lambda: group.sent("ListOffsets", since=before))
    return call


async def assign(consumer: Any, group: Group, *partitions: TopicPartition) -> None:
    """Make the group assign these partitions to the consumer."""
    group.assigned = partitions
    group.begin_rebalance()
    while consumer.assignment() != set(partitions):
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("seek", ["seek_to_beginning", "seek_to_end"])
@OURS_AND_STOCK
def test_a_seek_in_a_partition_that_is_revoked_meanwhile_fails(kind: Any, seek: str) -> None:
    async def scene(consumer: Any, group: Group, released: asyncio.Event) -> None:
        seeking = await asked(group, getattr(consumer, seek)(GOES))
        await assign(consumer, group, STAYS)
        released.set()
        assert await seeking is False

    play(kind, scene)


def test_an_offset_that_was_looked_up_before_a_partition_went_does_not_count_when_it_is_back() -> None:
    # The stock consumer drops the request with the assignment.
    async def scene(consumer: Any, group: Group, released: asyncio.Event) -> None:
        earlier = await asked(group, consumer.seek_to_beginning(GOES))
        await assign(consumer, group, STAYS)
        await assign(consumer, group, GOES, STAYS)
        seeking = asyncio.ensure_future(consumer.seek_to_end(GOES))
        await asyncio.sleep(0)  # The call has reached the fetcher.
        released.set()
        assert await seeking is True
        assert await consumer.position(GOES) == LATEST_OFFSET
        assert await earlier is False

    play(CooperativeAIOKafkaConsumer, scene)


@pytest.mark.parametrize("client", CLIENTS)
def test_an_offset_that_was_committed_before_a_partition_went_does_not_count_when_it_is_back(
    client: str,
) -> None:
    before, after = 3, 7

    async def run() -> None:
        async with ScriptedBroker() as broker, hang_limit():
            group = broker.group("late", {"orders": 2}, peer_leads=True, assigned=[STAYS])
            # No heartbeat waits behind the response that is held, on the same connection.
            seldom_ms = {"heartbeat_interval_ms": 60_000, "session_timeout_ms": 180_000}
            user = User(broker, group, client, **seldom_ms)
            user.subscribes = {"topics": ["orders"]}
            first, second = asyncio.Event(), asyncio.Event()

            async def assign(told: str, *partitions: TopicPartition) -> None:
                since, group.assigned = len(user.told), partitions
                assert await user.call("enforce_rebalance") == "ok"
                await group.until(lambda: (told, [GOES.partition]) in user.told[since:])

            def lookups() -> list[Request]:
                return [one for one in group.sent("OffsetFetch") if _names(one, GOES)]

            def fetched_from() -> list[int]:
                return [
                    one.fetch_offset
                    for request in group.sent("Fetch")
                    for topic in request.body.topics
                    for one in topic.partitions
                    if one.partition == GOES.partition
                ]

            def is_waiting_again(waiting: Any) -> bool:
                return GOES in waiting._consumer._subscription.subscription.assignment.requesting_committed()

            try:
                await user.start()
                assert await user.consumes()
                for released in (first, second):
                    group.answer("OffsetFetch", Held(released), when=lambda one: _names(one, GOES))
                await assign("assigned", GOES, STAYS)
                await group.until(lookups)
                await assign("revoked", STAYS)
                await assign("assigned", GOES, STAYS)
                while client == "aiokafka" and not is_waiting_again(user.client):
                    await asyncio.sleep(0.01)
                group.committed[GOES] = before
                first.set()
                await group.until(lambda: len(lookups()) == 2 or fetched_from())
                group.committed[GOES] = after
                second.set()
                await group.until(fetched_from)
                assert fetched_from()[0] == after
            finally:
                first.set()
                second.set()
                await user.close()
            assert broker.unexpected == []

    asyncio.run(run())


def _names(request: Request, tp: TopicPartition) -> bool:
    """Whether an OffsetFetch request names this partition."""
    return any(tp.partition in topic.partition_indexes for topic in request.body.topics)
