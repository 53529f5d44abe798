"""A leader while its strategy computes, and the consumer settings that the strategy receives."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from aiokafka import AIOKafkaConsumer

from compat_tests.aiokafka.consumers import consumer_of, settle, stopping
from compat_tests.scenarios.leader import ONE_HOUR_MS
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S, SOON_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import Reversed, Witness
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategy import RebalanceProtocol, Strategy
from kafka_assignors_aiokafka import assignor

PROGRAM = "compat_tests.aiokafka.member"


@dataclass(frozen=True)
class StuckOnce(Strategy):
    """`Reversed`, but its first call for a group of this size blocks until it is released."""

    name: str = "test-stuck-once"
    version: int = 1
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)
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


def test_a_leader_whose_strategy_does_not_come_back_is_replaced_and_says_so(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    async def lead() -> None:
        strategy = StuckOnce()
        consumer = consumer_of(group, assignor(strategy), rebalance_timeout_ms=2000)
        with strategy.released_in_the_end():
            async with stopping(consumer):
                await asyncio.wait_for(consumer.start(), HANG_S)
                assert strategy.stuck.is_set()
                assert not strategy.released.is_set()
                await settle(group, consumer)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(lead())
    (warning,) = [m for m in caplog.messages if "went on without this consumer" in m]
    assert "'test-stuck-once' has not finished" in warning
    assert "rebalance_timeout_ms, which is 2000 here: raise it" in warning


def test_a_follower_whose_request_times_out_waits_on_in_the_same_generation(kafka: Kafka) -> None:
    async def follow() -> tuple[int, int]:
        strategy = StuckOnce(members=2)
        leader = consumer_of(group, assignor(strategy), rebalance_timeout_ms=60_000)
        follower = consumer_of(group, assignor(strategy), request_timeout_ms=1000, fetch_max_wait_ms=500)
        with strategy.released_in_the_end():
            async with stopping(leader, follower):
                await leader.start()
                before = leader._coordinator.generation
                starting = asyncio.create_task(follower.start())
                assert await asyncio.to_thread(strategy.stuck.wait, HANG_S)
                await asyncio.sleep(2.5)
                strategy.released.set()
                await asyncio.wait_for(starting, HANG_S)
                await settle(group, leader, follower)
                return before, leader._coordinator.generation

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        before, after = asyncio.run(follow())
    assert after == before + 1


def test_a_leader_that_is_stopped_while_it_thinks_leaves_at_once(kafka: Kafka) -> None:
    async def leave() -> None:
        strategy = StuckOnce()
        leader, successor = (
            consumer_of(group, assignor(strategy), session_timeout_ms=int(HANG_S * 1000)) for _ in range(2)
        )
        with strategy.released_in_the_end():
            async with stopping(leader, successor):
                starting = asyncio.create_task(leader.start())
                assert await asyncio.to_thread(strategy.stuck.wait, HANG_S)
                starting.cancel()
                await asyncio.wait_for(leader.stop(), SOON_S)
                await asyncio.wait_for(successor.start(), SOON_S)
                await settle(group, successor)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(leave())


def test_partitions_that_are_added_while_the_leader_thinks_are_assigned_right_after(kafka: Kafka) -> None:
    async def lead() -> None:
        strategy = StuckOnce()
        consumer = consumer_of(
            group, assignor(strategy), rebalance_timeout_ms=60_000, metadata_max_age_ms=ONE_HOUR_MS
        )
        with strategy.released_in_the_end():
            async with stopping(consumer):
                starting = asyncio.create_task(consumer.start())
                assert await asyncio.to_thread(strategy.stuck.wait, HANG_S)
                await asyncio.to_thread(group.add_partitions, "orders", 7)
                await consumer._client.force_metadata_update()
                strategy.released.set()
                await asyncio.wait_for(starting, HANG_S)
                await settle(group, consumer)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(lead())


if "client_rack" in inspect.signature(AIOKafkaConsumer).parameters:  # from 0.14 on

    @pytest.mark.parametrize(("told", "rack"), [(None, "east"), ("west", "west")])
    def test_the_rack_is_that_of_the_consumer_unless_the_assignor_was_told_another(
        kafka: Kafka, caplog: pytest.LogCaptureFixture, told: str | None, rack: str
    ) -> None:
        async def lead() -> None:
            consumers = [
                consumer_of(group, assignor(Witness(), rack=told), client_rack="east"),
                consumer_of(group, assignor(Witness())),
            ]
            async with stopping(*consumers):
                for consumer in consumers:
                    await consumer.start()
                await settle(group, *consumers)

        with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
            asyncio.run(lead())
        seen = [json.loads(message)["members"] for message in caplog.messages if '"members"' in message]
        assert sorted(str(member["rack"]) for member in seen[-1].values()) == ["None", rack]
