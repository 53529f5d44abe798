"""CooperativeAIOKafkaConsumers with a late response, and with other releases of aiokafka."""

from __future__ import annotations

import asyncio

import aiokafka.client
import aiokafka.consumer.consumer
import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState

from compat_tests.aiokafka.cooperative_consumers import until, with_group
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer


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
@with_group(orders=4)
async def test_a_release_with_another_coordinator_is_refused_by_start_and_does_not_join(
    group: GroupOfMembers, monkeypatch: pytest.MonkeyPatch, changed: str, wrong: str
) -> None:
    if changed == "class":
        monkeypatch.setattr(aiokafka.consumer.consumer, "GroupCoordinator", NewerGroupCoordinator)
    else:
        monkeypatch.delattr(GroupCoordinator, "_do_fetch_commit_offsets")
    consumer = CooperativeAIOKafkaConsumer(
        *group.topics, bootstrap_servers=group.kafka.bootstrap, group_id=group.id
    )
    with pytest.raises(RuntimeError, match=wrong):
        await asyncio.wait_for(consumer.start(), HANG_S)
    await consumer.stop()
    await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
