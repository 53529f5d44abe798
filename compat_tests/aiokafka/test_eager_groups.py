"""Groups of stock AIOKafkaConsumers with our strategies, on a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from compat_tests.scenarios.eager import EagerScenarios, SlowRevocationScenarios
from compat_tests.scenarios.leader import LeaderScenarios
from compat_tests.scenarios.rack import RackScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import CooperativeOnly
from kafka_assignors_aiokafka import (
    RangeAssignor,
    StickyAssignor,
    assignor,
)
from kafka_assignors_strategies import Weighted

PROGRAM = "compat_tests.aiokafka.member"


class TestEagerGroups(EagerScenarios):
    program = PROGRAM


class TestSlowRevocations(SlowRevocationScenarios):
    program = PROGRAM


class TestLeaders(LeaderScenarios):
    program = PROGRAM


class TestRacks(RackScenarios):
    program = PROGRAM
    other_program = "compat_tests.aiokafka.cooperative_member"


def consumer_of(group: GroupOfMembers, *assignors: Any, **settings: Any) -> AIOKafkaConsumer:
    """A consumer of all topics of the group, not yet started."""
    return AIOKafkaConsumer(
        *group.topics,
        **{
            "bootstrap_servers": group.kafka.bootstrap,
            "group_id": group.id,
            "partition_assignment_strategy": list(assignors),
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 30_000,  # Longer than a busy machine stalls.
            **settings,
        },
    )


@contextlib.asynccontextmanager
async def stopping(*consumers: AIOKafkaConsumer) -> AsyncIterator[None]:
    """Stop the consumers when the block ends."""
    try:
        yield
    finally:
        for consumer in consumers:
            await consumer.stop()


async def settle(group: GroupOfMembers, *consumers: AIOKafkaConsumer) -> None:
    """Wait until the consumers own all partitions, in equal shares."""

    def shares() -> list[int]:
        return [len(consumer.assignment()) for consumer in consumers]

    fair = sum(group.topics.values()) // len(consumers)
    deadline = time.monotonic() + HANG_S
    while shares() != [fair] * len(consumers):
        assert time.monotonic() < deadline, shares()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("assignors", "message"),
    [
        ([StickyAssignor], r"needs an instance: pass \[CooperativeStickyAssignor\(\)\]"),
        ([RangeAssignor(), StickyAssignor], r"needs an instance"),
        ([StickyAssignor(), StickyAssignor(rack="a")], "2 assignors with the name 'sticky'"),
        ([StickyAssignor(), StickyPartitionAssignor], "2 assignors with the name 'sticky'"),
        (
            [StickyAssignor(), assignor(CooperativeOnly())],
            "'test-cooperative-only' runs under .* alone.*: use CooperativeAIOKafkaConsumer",
        ),
        (
            [StickyAssignor(), assignor(Weighted(), weights=lambda topics: {})],
            "'weighted' has a source of weights.*: use CooperativeAIOKafkaConsumer",
        ),
    ],
)
def test_start_refuses_invalid_assignors(kafka: Kafka, assignors: list[Any], message: str) -> None:
    async def start() -> None:
        # aiokafka raises the error here. It also keeps it in a task, where no code retrieves it.
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        consumer = consumer_of(group, *assignors)
        async with stopping(consumer):
            await asyncio.wait_for(consumer.start(), HANG_S)

    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group,
        pytest.raises(KafkaError, match=message),
    ):
        asyncio.run(start())


def test_consumers_of_a_process_that_share_an_assignor_are_separate_members(kafka: Kafka) -> None:
    async def share() -> tuple[set[Any], set[Any], set[Any], set[Any]]:
        shared = StickyAssignor()
        first, second, third = (consumer_of(group, shared) for _ in range(3))
        async with stopping(first, second, third):
            await first.start()
            await second.start()
            await settle(group, first, second)
            before = first.assignment(), second.assignment()
            await third.start()
            await settle(group, first, second, third)
            return *before, first.assignment(), second.assignment()

    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        first_before, second_before, first_after, second_after = asyncio.run(share())
    # Each consumer claimed its own partitions: two claims on the same partitions cancel each other.
    assert first_after < first_before
    assert second_after < second_before
