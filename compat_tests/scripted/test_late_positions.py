"""The start offset of a partition is looked up while the partition is revoked, and may come back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import TopicPartition

from compat_tests.scripted.broker import Held, Request
from compat_tests.scripted.model import LATEST_OFFSET
from compat_tests.scripted.users import CLIENTS, consuming

GOES, STAYS = TopicPartition("orders", 0), TopicPartition("orders", 1)

# No heartbeat waits behind the response that is held, on the same connection.
SELDOM_MS = {"heartbeat_interval_ms": 60_000, "session_timeout_ms": 180_000}


def test_an_offset_that_was_looked_up_before_a_partition_went_does_not_count_when_it_is_back() -> None:
    """Only aiokafka's seeks wait for a lookup; kafka-python's are lookups in a later poll."""
    of_group = {"topics": {"orders": 2}, "peer_leads": True, "assigned": [GOES, STAYS]}

    async def run() -> None:
        async with consuming("aiokafka", of_group=of_group, heartbeat_interval_ms=100) as (user, group):
            consumer: Any = vars(user.client)["_consumer"]

            async def assign(*partitions: TopicPartition) -> None:
                group.assigned = partitions
                group.begin_rebalance()
                while consumer.assignment() != set(partitions):
                    await asyncio.sleep(0.01)

            released, before = asyncio.Event(), len(group.requests)
            group.answer("ListOffsets", Held(released))
            earlier = asyncio.ensure_future(consumer.seek_to_beginning(GOES))
            await group.until(lambda: group.sent("ListOffsets", since=before))
            await assign(STAYS)
            await assign(GOES, STAYS)
            seeking = asyncio.ensure_future(consumer.seek_to_end(GOES))
            await asyncio.sleep(0)  # The call has reached the fetcher.
            released.set()
            assert await seeking is True
            assert await consumer.position(GOES) == LATEST_OFFSET
            assert await earlier is False

    asyncio.run(run())


@pytest.mark.parametrize("client", CLIENTS)
def test_an_offset_that_was_committed_before_a_partition_went_does_not_count_when_it_is_back(
    client: str,
) -> None:
    before, after = 3, 7

    of_group = {"topics": {"orders": 2}, "peer_leads": True, "assigned": [STAYS]}

    async def run() -> None:
        async with consuming(client, of_group=of_group, **SELDOM_MS) as (user, group):
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

    asyncio.run(run())


def _names(request: Request, tp: TopicPartition) -> bool:
    """Whether an OffsetFetch request names this partition."""
    return any(tp.partition in topic.partition_indexes for topic in request.body.topics)
