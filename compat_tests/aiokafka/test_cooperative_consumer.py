"""CooperativeAIOKafkaConsumers in the test's process: listener, commits, positions, subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from compat_tests.aiokafka.cooperative_consumers import Listener, consuming, of, until, with_group
from compat_tests.aiokafka.in_process import AIOKafkaInProcess
from compat_tests.scenarios.in_process import ConsumerScenarios, WeightScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_aiokafka import (
    CooperativeAIOKafkaConsumer,
)


class TestConsumer(ConsumerScenarios, AIOKafkaInProcess):
    pass


class TestWeights(WeightScenarios, AIOKafkaInProcess):
    pass


@with_group(records=10, orders=4)
async def test_partitions_that_stay_keep_their_buffers_positions_and_pauses(group: GroupOfMembers) -> None:
    async with consuming(group) as first:
        await until(lambda: len(first._fetcher._records) == 4)
        for tp in first.assignment():
            await first.getmany(tp, max_records=3)
        buffered = dict(first._fetcher._records)
        first.pause(*first.assignment())
        async with consuming(group) as second:
            await until(lambda: len(second.assignment()) == 2)
            stayed = first.assignment()
            assert len(stayed) == 2
            assert first._fetcher._records == {tp: buffered[tp] for tp in stayed}
            assert first.paused() == stayed
            assert {await first.position(tp) for tp in stayed} == {3}
            assert second.paused() == set()
    assert first._fetcher._records.keys() <= buffered.keys()


@pytest.mark.parametrize(("what", "asynchronous"), [("revoked", False), ("lost", False), ("assigned", True)])
@with_group(records=10, orders=4)
async def test_next_read_raises_the_error_of_a_listener_and_the_consumer_goes_on(
    group: GroupOfMembers, what: str, asynchronous: bool
) -> None:
    refusals: list[set[TopicPartition]] = []

    def refuse(partitions: set[TopicPartition]) -> None:
        # Raise once, and not in the first assignment, where `start` would raise the error.
        if partitions and not refusals and (what, len(partitions)) != ("assigned", 4):
            refusals.append(partitions)
            raise ValueError("I will not")

    async def refuse_later(partitions: set[TopicPartition]) -> None:
        await asyncio.sleep(0)
        refuse(partitions)

    read: set[TopicPartition] = set()

    async def read_while(wanted: Callable[[], bool], consumer: CooperativeAIOKafkaConsumer) -> None:
        while wanted():
            read.update(await asyncio.wait_for(consumer.getmany(timeout_ms=50), HANG_S))

    listener = Listener(**{what: refuse_later if asynchronous else refuse})
    settings: dict[str, Any] = {"max_poll_interval_ms": 1000} if what == "lost" else {}
    async with consuming(group, listener, **settings) as first:
        async with consuming(group) as second:
            # The first consumer loses its partitions because it does not poll.
            await until(lambda: len(second.assignment()) == (4 if what == "lost" else 2))
        # The second consumer has stopped, so the first is assigned its partitions.
        refused = rf"on_partitions_{what} of .* failed: .*I will not"
        with pytest.raises(KafkaError, match=refused) as raised:
            await read_while(lambda: True, first)
        assert isinstance(raised.value.__cause__, ValueError)
        await read_while(lambda: read != of(group, 0, 1, 2, 3), first)
