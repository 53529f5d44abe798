"""The threads of leaders: outside the application's executor, gone after each call, bounded in number."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from compat_tests.aiokafka.consumers import consumer_of, settle, stopping
from compat_tests.aiokafka.cooperative_consumers import until
from compat_tests.aiokafka.test_leading import StuckOnce
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, StickyAssignor, assignor
from kafka_assignors_aiokafka._leading import LEADER_THREADS, in_thread
from kafka_assignors_strategies.for_aiokafka import WeightedAssignor

PROGRAM = "compat_tests.aiokafka.member"


def threads_of_leaders() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("kafka-assignors")]


@contextlib.asynccontextmanager
async def full_default_executor() -> AsyncIterator[None]:
    released = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    blocked = loop.run_in_executor(None, released.wait)
    try:
        yield
        assert not blocked.done()
    finally:
        released.set()


def ones(topics: Mapping[str, int]) -> dict[str, list[int]]:
    return {name: [1] * count for name, count in topics.items()}


@pytest.mark.parametrize(
    "make",
    [
        lambda group: consumer_of(group, StickyAssignor()),
        lambda group: consumer_of(group, WeightedAssignor(ones)),
        lambda group: CooperativeAIOKafkaConsumer(
            *group.topics, bootstrap_servers=group.kafka.bootstrap, group_id=group.id
        ),
    ],
    ids=["stock", "stock with weights", "cooperative"],
)
def test_a_leader_needs_no_thread_of_the_default_executor(
    kafka: Kafka, make: Callable[[GroupOfMembers], AIOKafkaConsumer]
) -> None:
    async def lead() -> None:
        consumer = make(group)
        async with full_default_executor(), stopping(consumer):
            await asyncio.wait_for(consumer.start(), HANG_S)
            assert len(consumer.assignment()) == 4

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(lead())


def test_the_leader_has_a_thread_while_it_thinks_and_followers_never(kafka: Kafka) -> None:
    async def run() -> None:
        strategy = StuckOnce(members=2)
        leader, follower = (
            consumer_of(group, assignor(strategy), rebalance_timeout_ms=60_000) for _ in range(2)
        )
        with strategy.released_in_the_end():
            async with stopping(leader, follower):
                await leader.start()
                starting = asyncio.create_task(follower.start())
                await until(strategy.stuck.is_set)
                assert threads_of_leaders() == ["kafka-assignors-leader"]
                strategy.released.set()
                await asyncio.wait_for(starting, HANG_S)
                await settle(group, leader, follower)
                await until(lambda: not threads_of_leaders())

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_calls_that_do_not_return_are_bounded_and_named() -> None:
    async def run() -> None:
        coordinator: Any = SimpleNamespace(group_id="g")
        released = threading.Event()
        calls = [
            asyncio.create_task(in_thread(coordinator, released.wait, HANG_S)) for _ in range(LEADER_THREADS)
        ]
        try:
            await until(lambda: len(threads_of_leaders()) == LEADER_THREADS)
            with pytest.raises(KafkaError, match=f"'g' has not returned from {LEADER_THREADS} calls"):
                await in_thread(coordinator, int)
        finally:
            released.set()
        assert await asyncio.gather(*calls) == [True] * LEADER_THREADS
        await until(lambda: not threads_of_leaders())
        assert await in_thread(coordinator, int, "7") == 7

    asyncio.run(run())
