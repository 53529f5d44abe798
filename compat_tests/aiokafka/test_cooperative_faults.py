"""CooperativeAIOKafkaConsumers with a late response, and with other releases of aiokafka."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import aiokafka.client
import aiokafka.consumer.consumer
import pytest
from aiokafka import TopicPartition
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState

from compat_tests.aiokafka.cooperative_consumers import consuming, of, until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative.coordinator import CooperativeCoordinator

PROGRAM = "compat_tests.aiokafka.cooperative_member"


def test_committed_offsets_that_were_asked_for_before_a_partition_went_and_came_back_do_not_count(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up = CooperativeCoordinator._do_fetch_commit_offsets
    answered, released = asyncio.Event(), asyncio.Event()
    delayed: list[CooperativeCoordinator] = []

    async def look_up_late(self: CooperativeCoordinator, partitions: Iterable[TopicPartition]) -> Any:
        offsets = await look_up(self, partitions)
        if not delayed:
            delayed.append(self)
            answered.set()
            await released.wait()
        return offsets

    async def run() -> None:
        (tp,) = of(group, 0)
        async with consuming(group) as earlier:
            await earlier.commit({tp: 1})
        monkeypatch.setattr(CooperativeCoordinator, "_do_fetch_commit_offsets", look_up_late)
        async with consuming(group) as consumer:
            await asyncio.wait_for(answered.wait(), HANG_S)
            consumer.unsubscribe()
            await until(lambda: not consumer.assignment())
            async with consuming(group) as between:
                await between.commit({tp: 5})
            consumer.subscribe(list(group.topics))
            await until(lambda: consumer.assignment() == {tp})
            await until(consumer._subscription.subscription.assignment.requesting_committed)
            released.set()
            assert await asyncio.wait_for(consumer.position(tp), HANG_S) == 5

    with GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group:
        group.produce(10)
        asyncio.run(run())


class NewerSubscriptionState(SubscriptionState):  # type: ignore[misc]  # aiokafka has no types
    pass


class NewerGroupCoordinator(GroupCoordinator):  # type: ignore[misc]  # aiokafka has no types
    pass


def test_a_release_with_another_subscription_state_is_refused_at_construction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def construct() -> None:
        CooperativeAIOKafkaConsumer("orders", group_id="g")

    monkeypatch.setattr(aiokafka.consumer.consumer, "SubscriptionState", NewerSubscriptionState)
    wrong = r"uses NewerSubscriptionState where SubscriptionState is expected: install a release"
    with pytest.raises(RuntimeError, match=wrong):
        asyncio.run(construct())


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ("class", "uses NewerGroupCoordinator where GroupCoordinator is expected: install a release"),
        ("attribute", "GroupCoordinator has no _do_fetch_commit_offsets: install a release"),
    ],
    ids=["class", "attribute"],
)
def test_a_release_with_another_coordinator_is_refused_by_start_and_does_not_join(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, changed: str, wrong: str
) -> None:
    async def consume() -> None:
        consumer = CooperativeAIOKafkaConsumer(
            *group.topics, bootstrap_servers=kafka.bootstrap, group_id=group.id
        )
        with pytest.raises(RuntimeError, match=wrong):
            await asyncio.wait_for(consumer.start(), HANG_S)
        await consumer.stop()
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    if changed == "class":
        monkeypatch.setattr(aiokafka.consumer.consumer, "GroupCoordinator", NewerGroupCoordinator)
    else:
        monkeypatch.delattr(GroupCoordinator, "_do_fetch_commit_offsets")
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(consume())
