"""A CooperativeAIOKafkaConsumer raises each error once, in a call of the user."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from compat_tests.aiokafka.cooperative_consumers import Listener, consuming, until, with_group
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_aiokafka import (
    CooperativeAIOKafkaConsumer,
)

pytestmark = pytest.mark.exhaustive

REFUSED = "on_partitions_revoked of .* failed: .*I will not"


def refuse(_: set[TopicPartition]) -> None:
    raise ValueError("I will not")


@with_group(orders=4)
async def test_an_error_after_a_cancelled_call_is_raised_in_the_next(group: GroupOfMembers) -> None:
    listener = Listener(revoked=refuse)
    async with consuming(group, listener) as consumer:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(consumer.getmany(timeout_ms=60_000), 0.1)
        async with consuming(group) as other:
            await until(lambda: len(other.assignment()) == 2)
            with pytest.raises(KafkaError, match=REFUSED):
                await consumer.getmany()
        assert await consumer.getmany() == {}


@with_group(orders=4)
async def test_cancelled_read_leaves_the_error_of_a_listener_to_a_read_that_waits(
    group: GroupOfMembers,
) -> None:
    listener = Listener(revoked=refuse)
    async with consuming(group, listener) as consumer:
        cancelled = asyncio.create_task(consumer.getmany(timeout_ms=60_000))
        waiting = asyncio.create_task(consumer.getone())
        await until(lambda: len(consumer._fetcher._fetch_waiters) == 2)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        async with consuming(group):
            with pytest.raises(KafkaError, match=REFUSED):
                await asyncio.wait_for(waiting, HANG_S)


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.getone(),
        lambda consumer: consumer.getmany(timeout_ms=60_000),
        lambda consumer: consumer.wait_for_assignment(),
    ],
    ids=["getone", "getmany", "wait_for_assignment"],
)
@with_group(orders=1)
async def test_an_error_that_comes_while_a_call_looks_for_records_is_raised_in_it(
    group: GroupOfMembers, call: Callable[[CooperativeAIOKafkaConsumer], Any]
) -> None:
    async with consuming(group), consuming(group) as consumer:
        waiting = asyncio.create_task(call(consumer))
        state = consumer._subscription
        await until(lambda: state._fetch_waiters or state._assignment_waiters)
        # The call has been woken, and is about to look for records.
        for waiter in (*state._fetch_waiters, *state._assignment_waiters):
            waiter.set_result(None)
        consumer._subscription.tell(KafkaError("what it has to know"))
        with pytest.raises(KafkaError, match="what it has to know"):
            await asyncio.wait_for(waiting, HANG_S)
        assert await consumer.getmany() == {}


@with_group(orders=1)
async def test_an_error_before_the_first_subscription_is_not_lost(group: GroupOfMembers) -> None:
    consumer = CooperativeAIOKafkaConsumer(bootstrap_servers=group.kafka.bootstrap, group_id=group.id)
    await asyncio.wait_for(consumer.start(), HANG_S)
    try:
        await asyncio.sleep(0)  # The fetcher waits for an assignment.
        consumer._subscription.tell(KafkaError("what it has to know"))
        with pytest.raises(KafkaError, match="what it has to know"):
            await asyncio.wait_for(consumer.getmany(), HANG_S)
    finally:
        await consumer.stop()
