"""A CooperativeAIOKafkaConsumer stops in every state, with any listener, and more than once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import ConsumerStoppedError, KafkaConnectionError
from aiokafka.protocol.fetch import FetchRequest

from compat_tests.aiokafka.cooperative_consumers import (
    Listener,
    consumer_of,
    consuming,
    of,
    until,
    with_group,
)
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_aiokafka.cooperative.subscription import CooperativeSubscriptionState

pytestmark = pytest.mark.exhaustive


@contextlib.asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Check that the tasks started in the block end."""
    before = asyncio.all_tasks()
    yield
    await until(lambda: asyncio.all_tasks() <= before)


@pytest.mark.parametrize("resists", [False, True])
@with_group(orders=4)
async def test_a_listener_that_hangs_does_not_keep_a_consumer_that_stops_in_the_group(
    group: GroupOfMembers, resists: bool
) -> None:
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


@pytest.mark.parametrize("cancelled", ["the call", "its task"])
@with_group(orders=4)
async def test_a_stop_that_is_cancelled_goes_on_with_the_next_one(
    group: GroupOfMembers, cancelled: str
) -> None:
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


@with_group(orders=1)
async def test_calls_that_wait_for_an_assignment_end_when_the_consumer_stops(
    group: GroupOfMembers, monkeypatch: pytest.MonkeyPatch
) -> None:
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


@with_group(orders=4)
async def test_a_consumer_stops_while_a_failed_fetch_waits_for_its_next_try(
    group: GroupOfMembers, monkeypatch: pytest.MonkeyPatch
) -> None:
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


FETCHES = tuple(FetchRequest) if isinstance(FetchRequest, list) else FetchRequest
