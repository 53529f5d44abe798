"""The offset at which a partition starts, and lookups that end after the partition was revoked."""

from __future__ import annotations

import asyncio
import math

import pytest
from aiokafka import TopicPartition

from compat_tests.scripted.broker import VERSIONS, Code, Held, Request
from compat_tests.scripted.model import LATEST_OFFSET, Group
from compat_tests.scripted.users import TOPIC, User, each_client

GOES, STAYS = TopicPartition("orders", 0), TopicPartition("orders", 1)
UNSTABLE_OFFSET_COMMIT = 88
TWO_PARTITIONS = {"topics": {"orders": 2}, "peer_leads": True}

# No heartbeat waits behind the response that is held, on the same connection.
SELDOM_MS = {"heartbeat_interval_ms": 60_000, "session_timeout_ms": 180_000}


@each_client("aiokafka", of_group={**TWO_PARTITIONS, "assigned": [GOES, STAYS]}, heartbeat_interval_ms=100)
async def test_an_offset_that_was_looked_up_before_a_partition_went_does_not_count_when_it_is_back(
    user: User, group: Group
) -> None:
    """Only aiokafka's seeks wait for a lookup; kafka-python's are lookups in a later poll."""
    consumer = user.client.consumer

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


@each_client(of_group={**TWO_PARTITIONS, "assigned": [STAYS]}, **SELDOM_MS)
async def test_an_offset_that_was_committed_before_a_partition_went_does_not_count_when_it_is_back(
    user: User, group: Group, client: str
) -> None:
    before, after = 3, 7
    first, second = asyncio.Event(), asyncio.Event()

    async def assign(told: str, *partitions: TopicPartition) -> None:
        since, group.assigned = len(user.told), partitions
        assert await user.call("enforce_rebalance") == "ok"
        await group.until(lambda: (told, [GOES.partition]) in user.told[since:])

    def names_it(request: Request) -> bool:
        return any(GOES.partition in topic.partition_indexes for topic in request.body.topics)

    def lookups() -> list[Request]:
        return [one for one in group.sent("OffsetFetch") if names_it(one)]

    def is_waiting_again() -> bool:
        state = user.client.consumer._subscription
        return client != "aiokafka" or GOES in state.subscription.assignment.requesting_committed()

    try:
        for released in (first, second):
            group.answer("OffsetFetch", Held(released), when=names_it)
        await assign("assigned", GOES, STAYS)
        await group.until(lookups)
        await assign("revoked", STAYS)
        await assign("assigned", GOES, STAYS)
        while not is_waiting_again():
            await asyncio.sleep(0.01)
        group.committed[GOES] = before
        first.set()
        await group.until(lambda: len(lookups()) == 2 or group.fetched_from(GOES.partition))
        group.committed[GOES] = after
        second.set()
        await group.until(lambda: group.fetched_from(GOES.partition))
        assert group.fetched_from(GOES.partition)[0] == after
    finally:
        first.set()
        second.set()


@each_client(of_group={**TWO_PARTITIONS, "assigned": [STAYS]})
async def test_partitions_that_stay_are_consumed_while_a_transaction_has_offsets_of_a_new_one(
    user: User, group: Group
) -> None:
    open_transactions = [GOES]
    unstable = Code(UNSTABLE_OFFSET_COMMIT, in_partitions=True)
    group.answer("OffsetFetch", unstable, times=math.inf, when=lambda _: bool(open_transactions))
    group.assigned, since = [GOES, STAYS], len(group.requests)
    assert await user.call("enforce_rebalance") == "ok"
    await group.until(lambda: len(group.sent("OffsetFetch", since=since)) > 1)
    assert await user.consumes(8)
    assert not group.fetched_from(GOES.partition)
    open_transactions.clear()
    await group.until(lambda: group.fetched_from(GOES.partition))


@pytest.mark.parametrize(("newest", "stable"), [(5, False), (7, True)], ids=["Kafka 2.4", "Kafka 2.5"])
@each_client(consumes=0)
async def test_a_start_waits_for_offsets_that_the_coordinator_has_to_confirm(
    user: User, group: Group, newest: int, stable: bool
) -> None:
    """One that has just taken over the group may not know yet what its predecessor accepted (KIP-447)."""
    user.broker.versions = {**VERSIONS, "OffsetFetch": (1, newest)}
    group.committed[TOPIC, 1] = 3
    await user.start()
    assert await user.consumes()
    asked = group.sent("OffsetFetch")
    assert {request.body.require_stable for request in asked} == {stable}
    assert max(request.version for request in asked) <= newest
    assert min(group.fetched_from(1)) == 3
