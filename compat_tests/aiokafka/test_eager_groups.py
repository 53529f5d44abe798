"""Groups of stock AIOKafkaConsumers with our strategies, on a real broker."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from compat_tests.eager_scenarios import EagerScenarios, StaticMemberScenarios
from compat_tests.group_of_members import GroupOfMembers
from compat_tests.kafka_cluster import Kafka
from kafka_assignors_aiokafka import StickyAssignor

PROGRAM = "compat_tests.aiokafka.member"


class TestEagerGroups(EagerScenarios):
    program = PROGRAM


class TestStaticMembers(StaticMemberScenarios):
    program = PROGRAM


def consumer_of(group: GroupOfMembers, assignor: Any) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        *group.topics,
        bootstrap_servers=group.kafka.bootstrap,
        group_id=group.id,
        partition_assignment_strategy=[assignor],
        heartbeat_interval_ms=200,
    )


def test_a_class_where_an_instance_belongs_is_refused_when_the_consumer_starts(kafka: Kafka) -> None:
    async def start() -> None:
        # aiokafka raises the error here and keeps it in a task as well, where nobody retrieves it.
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        consumer = consumer_of(group, StickyAssignor)
        try:
            await asyncio.wait_for(consumer.start(), 20)
        finally:
            await consumer.stop()

    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group,
        pytest.raises(KafkaError, match=r"StickyAssignor is a class .* pass \[StickyAssignor\(\)\]"),
    ):
        asyncio.run(start())


def test_one_instance_in_two_consumers_of_a_process_keeps_them_apart(kafka: Kafka) -> None:
    async def share() -> tuple[set[Any], set[Any], set[Any], set[Any]]:
        shared = StickyAssignor()
        first, second, third = (consumer_of(group, shared) for _ in range(3))
        try:
            await first.start()
            await second.start()
            await settle(group, first, second)
            before = first.assignment(), second.assignment()
            await third.start()
            await settle(group, first, second, third)
            return *before, first.assignment(), second.assignment()
        finally:
            for consumer in (first, second, third):
                await consumer.stop()

    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        first_before, second_before, first_after, second_after = asyncio.run(share())
    # Each was told by its own memory: two claims on the same partitions would have counted for neither.
    assert first_after < first_before
    assert second_after < second_before


async def settle(group: GroupOfMembers, *consumers: AIOKafkaConsumer) -> None:
    """Wait until the consumers have everything between them, in equal shares."""

    def shares() -> list[int]:
        return [len(consumer.assignment()) for consumer in consumers]

    fair = sum(group.topics.values()) // len(consumers)
    deadline = time.monotonic() + 60
    while shares() != [fair] * len(consumers):
        assert time.monotonic() < deadline, shares()
        await asyncio.sleep(0.05)
