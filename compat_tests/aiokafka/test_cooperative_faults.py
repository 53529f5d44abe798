"""CooperativeAIOKafkaConsumers under faults: silent connections, late responses, other aiokafka releases."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import aiokafka.client
import aiokafka.consumer.consumer
import pytest
from aiokafka import TopicPartition
from aiokafka.conn import AIOKafkaConnection
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.consumer.subscription_state import SubscriptionState

from compat_tests.aiokafka.cooperative_consumers import consuming, of, until
from compat_tests.support.fault_proxy import Effect, Fault, FaultProxy
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_aiokafka.cooperative.coordinator import CooperativeCoordinator

PROGRAM = "compat_tests.aiokafka.cooperative_member"


def through(proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Route every connection of aiokafka through the proxy, regardless of the broker's advertised address."""
    connect = aiokafka.client.create_conn

    async def connect_to_proxy(host: str, port: int, **settings: Any) -> AIOKafkaConnection:
        return await connect("127.0.0.1", proxy.forward(port, port), **settings)

    monkeypatch.setattr(aiokafka.client, "create_conn", connect_to_proxy)


def test_a_connection_to_the_coordinator_that_dies_in_silence_is_given_up_for_another(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def consume() -> None:
        # The requests of the client do not time out, because a timeout would also close the connection.
        async with consuming(
            group, client_id="silent", session_timeout_ms=6000, request_timeout_ms=3 * int(HANG_S) * 1000
        ) as consumer:
            coordinator = consumer._coordinator
            with proxy.fault(Fault(Effect.SWALLOW, coordinator_only=True)):
                await until(lambda: proxy.connections("silent", swallowed=True))
            # The network works again; only the connections opened before stay black holes.
            before = coordinator._member.lease.heard_at
            await until(lambda: not proxy.connections("silent", swallowed=True))
            await until(lambda: coordinator._member.lease.heard_at > before and coordinator._member.in_group)
            await until(consumer.assignment)
            await asyncio.wait_for(consumer.commit({next(iter(consumer.assignment())): 1}), HANG_S)

    with FaultProxy() as proxy, GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        through(proxy, monkeypatch)
        asyncio.run(consume())


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
