"""The threads of leaders: outside the application's executor, and gone after each call."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from compat_tests.aiokafka.cooperative_consumers import consuming, until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import Reversed
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategy import BOTH_PROTOCOLS, RebalanceProtocol, Strategy
from kafka_assignors_aiokafka import CooperativeStickyAssignor, assignor
from kafka_assignors_strategies import Weighted

pytestmark = pytest.mark.exhaustive

PROGRAM = "compat_tests.aiokafka.cooperative_member"


@dataclass(frozen=True)
class StuckOnce(Strategy):
    """`Reversed`, but its first call for a group of this size blocks until it is released."""

    name: str = "test-stuck-once"
    protocols: tuple[RebalanceProtocol, ...] = BOTH_PROTOCOLS
    members: int = 1
    stuck: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def assign(self, group: Group) -> Assignment:
        if len(group.members) == self.members and not self.stuck.is_set():
            self.stuck.set()
            assert self.released.wait(HANG_S)
        return Reversed().assign(group)

    @contextlib.contextmanager
    def released_in_the_end(self) -> Iterator[None]:
        """Release the strategy at the end: the process waits for its threads when it ends."""
        try:
            yield
        finally:
            self.released.set()


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
    [CooperativeStickyAssignor, lambda: assignor(Weighted(), weights=ones)],
    ids=["sticky", "with weights"],
)
def test_a_leader_needs_no_thread_of_the_default_executor(kafka: Kafka, make: Any) -> None:
    async def lead() -> None:
        async with (
            full_default_executor(),
            consuming(group, partition_assignment_strategy=[make()]) as consumer,
        ):
            await until(lambda: len(consumer.assignment()) == 4)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(lead())


def test_the_leader_has_a_thread_while_it_thinks_and_followers_never(kafka: Kafka) -> None:
    async def run() -> None:
        strategy = StuckOnce(members=2)
        settings: dict[str, Any] = {
            "partition_assignment_strategy": [assignor(strategy)],
            "rebalance_timeout_ms": 60_000,
        }
        with strategy.released_in_the_end():
            async with consuming(group, **settings) as leader, consuming(group, **settings) as follower:
                await until(strategy.stuck.is_set)
                assert threads_of_leaders() == ["kafka-assignors-leader"]
                strategy.released.set()
                await until(lambda: len(leader.assignment()) == len(follower.assignment()) == 2)
                await until(lambda: not threads_of_leaders())

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_a_leader_whose_strategy_does_not_come_back_is_replaced(kafka: Kafka) -> None:
    async def lead() -> None:
        strategy = StuckOnce()
        settings: dict[str, Any] = {
            "partition_assignment_strategy": [assignor(strategy)],
            "rebalance_timeout_ms": 2000,
        }
        with strategy.released_in_the_end():
            async with consuming(group, **settings) as consumer:
                await until(lambda: len(consumer.assignment()) == 4)
                assert strategy.stuck.is_set()
                assert not strategy.released.is_set()

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(lead())
