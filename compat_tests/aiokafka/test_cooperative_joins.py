"""CooperativeAIOKafkaConsumers in the middle of a join, which a slow strategy prolongs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError

from compat_tests.aiokafka.cooperative_consumers import Listener, consuming, of, until
from compat_tests.hostile.raw_member import RawMember
from compat_tests.hostile.scenarios import subscription
from compat_tests.scenarios.leader import ONE_HOUR_MS
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S, SOON_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import StuckWithThree
from kafka_assignors.group import Group
from kafka_assignors.rebalance import Phase
from kafka_assignors.strategies.sticky import CooperativeSticky
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, assignor
from kafka_assignors_aiokafka.cooperative.coordinator import CooperativeCoordinator

pytestmark = pytest.mark.exhaustive

PROGRAM = "compat_tests.aiokafka.cooperative_member"
LONG_MS = int(HANG_S * 1000)


@dataclass(frozen=True)
class Waiting:
    """A group whose two consumers owned half of the partitions each when a third member joined.

    The strategy of `leader` blocks until it is released, and `follower` waits for its SyncGroup response.
    """

    strategy: StuckWithThree
    leader: CooperativeAIOKafkaConsumer
    follower: CooperativeAIOKafkaConsumer


@contextlib.asynccontextmanager
async def waiting(
    group: GroupOfMembers,
    of_leader: Listener,
    of_follower: Listener,
    *,
    session_timeout_ms: int = LONG_MS,
    **follower_settings: Any,
) -> AsyncIterator[Waiting]:
    strategy = StuckWithThree()
    patient = {"session_timeout_ms": session_timeout_ms, "rebalance_timeout_ms": LONG_MS}
    assignors = [assignor(strategy, shared_name=True)]
    try:
        async with (
            consuming(group, of_leader, partition_assignment_strategy=assignors, **patient) as leader,
            consuming(group, of_follower, **patient, **follower_settings) as follower,
        ):
            half = sum(group.topics.values()) // 2
            await until(lambda: len(leader.assignment()) == len(follower.assignment()) == half)
            with newcomer(group, "third"):
                await until(strategy.stuck.is_set)
                await until(lambda: phase_of(follower) is Phase.SYNCING)
                yield Waiting(strategy, leader, follower)
                strategy.released.set()
    finally:
        strategy.released.set()


def newcomer(group: GroupOfMembers, name: str) -> RawMember:
    """A member that accepts every assignment, and claims no partition when it joins again."""
    return RawMember(
        group.kafka.bootstrap,
        group.id,
        metadata=subscription(group.topic("orders")),
        client_id=name,
        protocol=CooperativeSticky.name,
    )


def phase_of(consumer: CooperativeAIOKafkaConsumer) -> Phase:
    phase: Phase = consumer._coordinator._member.phase
    return phase


def claim_of(consumer: CooperativeAIOKafkaConsumer, group: Group) -> tuple[int, set[TopicPartition]]:
    """The generation and the partitions that a consumer claimed when it joined."""
    member = group.members[consumer._coordinator.member_id]
    return member.generation, {TopicPartition(topic, n) for topic, ns in member.owned.items() for n in ns}


async def consume(consumer: CooperativeAIOKafkaConsumer, records: int) -> set[tuple[TopicPartition, int]]:
    """The first `records` records, as partition and offset."""
    found: set[tuple[TopicPartition, int]] = set()
    while len(found) < records:
        for tp, some in (await asyncio.wait_for(consumer.getmany(timeout_ms=100), HANG_S)).items():
            found |= {(tp, record.offset) for record in some}
    return found


def test_a_rebalance_that_begins_before_the_sync_group_response_loses_no_partition(kafka: Kafka) -> None:
    async def run() -> None:
        listeners = Listener(), Listener()
        async with waiting(group, *listeners) as now:
            both = (now.leader, now.follower)
            interrupted = now.follower._coordinator.generation
            before = {consumer: set(consumer.assignment()) for consumer in both}
            for listener in listeners:
                listener.calls.clear()

            # The follower's SyncGroup response is REBALANCE_IN_PROGRESS, and the leader's will be too.
            with newcomer(group, "fourth"):
                await until(lambda: phase_of(now.follower) is Phase.JOINING)
                await asyncio.to_thread(group.produce, 10)
                for consumer in both:
                    assert {tp for tp, _ in await consume(consumer, 20)} == before[consumer]
                now.strategy.released.set()
                await until(lambda: len(now.strategy.asked[-1].members) == 4)
                of_four = next(asked for asked in now.strategy.asked if len(asked.members) == 4)
                for consumer in both:
                    assert claim_of(consumer, of_four) == (interrupted, before[consumer])
                await until(lambda: all(len(consumer.assignment()) == 1 for consumer in both))
            for consumer, listener in zip(both, listeners, strict=True):
                assert consumer.assignment() < before[consumer]
                assert listener.told("lost") == []
                assert listener.told("revoked") == [before[consumer] - consumer.assignment()]

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_partitions_that_are_added_before_sync_group_is_answered_are_assigned_right_after(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = CooperativeCoordinator._send_req

    async def learn_and_send(coordinator: CooperativeCoordinator, request: object) -> object:
        if type(request).__name__.startswith("SyncGroup") and group.topics == {group.topic("orders"): 4}:
            await asyncio.to_thread(group.add_partitions, "orders", 7)
            await coordinator._client.force_metadata_update()
        return await send(coordinator, request)

    async def run() -> None:
        async with consuming(group, metadata_max_age_ms=ONE_HOUR_MS) as consumer:
            await until(lambda: consumer.assignment() == of(group, *range(7)))

    monkeypatch.setattr(CooperativeCoordinator, "_send_req", learn_and_send)
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_a_leader_that_stops_while_its_strategy_thinks_is_gone_at_once(kafka: Kafka) -> None:
    async def run() -> None:
        listener = Listener()
        async with waiting(group, listener, Listener()) as now:
            mine = now.leader.assignment()
            await asyncio.wait_for(now.leader.stop(), SOON_S)
            assert listener.calls[-1] == ("revoked", mine)
            await until(lambda: phase_of(now.follower) is Phase.IDLE)
            assert not now.strategy.released.is_set()

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_a_follower_that_stops_while_it_waits_for_the_leader_is_gone_at_once(kafka: Kafka) -> None:
    async def run() -> None:
        listener = Listener()
        async with waiting(group, Listener(), listener) as now:
            mine = now.follower.assignment()
            await asyncio.wait_for(now.follower.stop(), SOON_S)
            assert listener.calls[-1] == ("revoked", mine)
            now.strategy.released.set()
            await until(lambda: len(now.strategy.asked[-1].members) == 2)
            await until(lambda: phase_of(now.leader) is Phase.IDLE)
            assert len(now.leader.assignment()) == 2

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_a_follower_waits_for_the_leader_for_longer_than_its_request_timeout(kafka: Kafka) -> None:
    async def run() -> None:
        impatient: dict[str, Any] = {"request_timeout_ms": 1000, "fetch_max_wait_ms": 500}
        async with waiting(group, Listener(), Listener(), **impatient) as now:
            generation = now.follower._coordinator.generation
            await asyncio.sleep(2.5)
            assert phase_of(now.follower) is Phase.SYNCING
            assert now.follower._coordinator.generation == generation
            now.strategy.released.set()
            await until(lambda: phase_of(now.leader) is Phase.IDLE)
            await until(lambda: now.strategy.asked[-1].generation > generation)
            # The follower applied the leader's assignment: in the next round, its claim has this generation.
            following = next(asked for asked in now.strategy.asked if asked.generation > generation)
            assert claim_of(now.follower, following)[0] == generation

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_consumer_that_stops_during_a_join_can_still_commit(kafka: Kafka, role: str) -> None:
    async def run() -> None:
        async def commit(revoked: set[TopicPartition]) -> None:
            if revoked == mine:
                await stopped.commit(dict.fromkeys(revoked, 7))

        mine: set[TopicPartition] = set()
        listeners = {"leader": Listener(), "follower": Listener(), role: Listener(revoked=commit)}
        async with waiting(group, listeners["leader"], listeners["follower"]) as now:
            stopped, other = now.leader, now.follower
            if role == "follower":
                stopped, other = other, stopped
            mine |= stopped.assignment()
            stopping = asyncio.create_task(stopped.stop())
            await until(lambda: listeners[role].told("revoked")[-1:] == [mine])
            assert not stopping.done()
            now.strategy.released.set()
            await asyncio.wait_for(stopping, HANG_S)
            assert listeners[role].told("lost") == []
            assert [await other.committed(tp) for tp in mine] == [7] * len(mine)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_a_stopping_consumer_does_not_wait_for_ever_for_a_leader_that_does_not_assign(kafka: Kafka) -> None:
    async def run() -> None:
        async def commit(revoked: set[TopicPartition]) -> None:
            try:
                await now.follower.commit(dict.fromkeys(revoked, 7))
            except KafkaError as error:
                refused.append(error)

        refused: list[KafkaError] = []
        async with waiting(group, Listener(), Listener(revoked=commit), session_timeout_ms=15_000) as now:
            await asyncio.wait_for(now.follower.stop(), SOON_S)
            assert not now.strategy.released.is_set()
            assert [type(error) for error in refused] == [KafkaTimeoutError]

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_a_subscription_that_changes_during_a_join_is_what_counts_after_it(kafka: Kafka) -> None:
    async def run() -> None:
        payments = {TopicPartition(group.topic("payments"), number) for number in range(2)}
        listener = Listener()
        async with waiting(group, Listener(), listener) as now:
            mine = set(now.follower.assignment())
            now.follower.subscribe([group.topic("payments")], listener=listener)
            assert await now.follower.getmany(timeout_ms=50) == {}
            now.strategy.released.set()
            await until(lambda: now.follower.assignment() and now.follower.assignment() <= payments)
            assert listener.told("revoked")[-1:] == [mine - payments]
            assert listener.told("lost") == []

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4, "payments": 2}) as group:
        asyncio.run(run())


def test_a_consumer_that_unsubscribes_during_a_join_leaves_and_may_come_back(kafka: Kafka) -> None:
    async def run() -> None:
        listener = Listener()
        async with waiting(group, Listener(), listener) as now:
            mine = set(now.follower.assignment())
            now.follower.unsubscribe()
            await until(lambda: listener.calls[-1] == ("revoked", mine))
            now.strategy.released.set()
            await until(lambda: len(now.strategy.asked[-1].members) == 2)

            now.follower.subscribe(list(group.topics), listener=listener)
            await until(now.follower.assignment)
            assert now.follower.assignment() < of(group, 0, 1, 2, 3)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())
