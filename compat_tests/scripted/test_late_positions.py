"""The offset at which a partition starts, and lookups that end after the partition was revoked."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import aiokafka.client
import pytest
from aiokafka import TopicPartition

from compat_tests.scripted.broker import VERSIONS, Code, Held, Request
from compat_tests.scripted.model import LATEST_OFFSET, Group
from compat_tests.scripted.users import TOPIC, User, each_client

GOES, STAYS, COMES = (TopicPartition(TOPIC, number) for number in range(3))
UNSTABLE_OFFSET_COMMIT = 88
TWO_PARTITIONS = {"topics": {"orders": 2}, "peer_leads": True}

# No heartbeat waits behind the response that is held, on the same connection.
SELDOM_MS = {"heartbeat_interval_ms": 60_000, "session_timeout_ms": 180_000}


async def assign(user: User, group: Group, what: str, *partitions: TopicPartition) -> None:
    """Assign the partitions, and wait until the listener is told of those that are new or gone."""
    since, group.assigned = len(user.listened), partitions
    assert await user.call("enforce_rebalance") == "ok"
    await group.until(lambda: what in user.listened[since:])


def looked_up(request: Request) -> set[int]:
    return {number for topic in request.body.topics for number in topic.partition_indexes}


@each_client("aiokafka", of_group={**TWO_PARTITIONS, "assigned": [GOES, STAYS]})
async def test_an_offset_that_was_looked_up_before_a_partition_went_does_not_count_when_it_is_back(
    user: User, group: Group
) -> None:
    """Only aiokafka's seeks wait for a lookup; kafka-python's are lookups in a later poll."""
    consumer = user.client.consumer
    released, before = asyncio.Event(), len(group.requests)
    group.answer("ListOffsets", Held(released))
    earlier = asyncio.ensure_future(consumer.seek_to_beginning(GOES))
    await group.until(lambda: group.sent("ListOffsets", since=before))
    await assign(user, group, "revoked", STAYS)
    await assign(user, group, "assigned", GOES, STAYS)
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

    def names_it(request: Request) -> bool:
        return GOES.partition in looked_up(request)

    def lookups() -> list[Request]:
        return [one for one in group.sent("OffsetFetch") if names_it(one)]

    def is_waiting_again() -> bool:
        state = user.client.consumer._subscription
        return client != "aiokafka" or GOES in state.subscription.assignment.requesting_committed()

    try:
        for released in (first, second):
            group.answer("OffsetFetch", Held(released), when=names_it)
        await assign(user, group, "assigned", GOES, STAYS)
        await group.until(lookups)
        await assign(user, group, "revoked", STAYS)
        await assign(user, group, "assigned", GOES, STAYS)
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


@each_client(of_group={"topics": {TOPIC: 3}, "peer_leads": True, "assigned": [STAYS]})
async def test_an_offset_of_an_open_transaction_holds_up_its_own_partition_alone(
    user: User, group: Group, caplog: pytest.LogCaptureFixture
) -> None:
    open_transactions = {GOES.partition}

    def is_unstable(request: Request) -> bool:
        return not open_transactions.isdisjoint(looked_up(request))

    unstable = Code(UNSTABLE_OFFSET_COMMIT, in_partitions=True)
    group.answer("OffsetFetch", unstable, times=math.inf, when=is_unstable)
    try:
        await assign(user, group, "assigned", GOES, STAYS)
        await group.until(lambda: sum(map(is_unstable, group.sent("OffsetFetch"))) > 1)
        assert await user.call("position", user.partition(*STAYS)) == "ok"
        assert await user.consumes(8)
        await assign(user, group, "assigned", STAYS, COMES)
        await group.until(lambda: group.fetched_from(COMES.partition))
        await assign(user, group, "assigned", GOES, STAYS)
        assert not group.fetched_from(GOES.partition)
    finally:
        open_transactions.clear()
    await group.until(lambda: group.fetched_from(GOES.partition))
    assert [one for one in caplog.messages if "Unknown error" in one] == []


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


@each_client("aiokafka")
async def test_a_coordinator_that_cannot_be_reached_at_first_is_asked_for_confirmed_offsets_too(
    user: User, group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, refused = aiokafka.client.create_conn, []

    async def refuse_once(*arguments: Any, **settings: Any) -> Any:
        if asking is asyncio.current_task() and not refused:
            refused.append(arguments)
            raise ConnectionRefusedError
        return await connect(*arguments, **settings)

    monkeypatch.setattr(aiokafka.client, "create_conn", refuse_once)
    connections, asking = user.client.consumer._client._conns, asyncio.current_task()
    connections[0, aiokafka.client.ConnectionGroup.COORDINATION].close()
    assert await user.call("committed", GOES) == "ok"
    assert refused
    assert {request.body.require_stable for request in group.sent("OffsetFetch")} == {True}
