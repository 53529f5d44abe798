"""Groups of stock AIOKafkaConsumers with our strategies, on a real broker."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

from compat_tests.aiokafka.consumers import consumer_of, renamed, settle, stopping
from compat_tests.aiokafka.cooperative_consumers import Listener, consuming, until
from compat_tests.scenarios.eager import EagerScenarios, StaticMemberScenarios
from compat_tests.scenarios.leader import ConversionScenarios, LeaderScenarios
from compat_tests.scenarios.rack import RackScenarios
from compat_tests.scenarios.standby import StandbyScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import CooperativeOnly
from kafka_assignors.messages import JoinedMember
from kafka_assignors_aiokafka import (
    CooperativeStickyAssignor,
    RangeAssignor,
    StickyAssignor,
    assignor,
)
from kafka_assignors_aiokafka._stock import topics_of
from kafka_assignors_strategies import Weighted

PROGRAM = "compat_tests.aiokafka.member"


class TestEagerGroups(EagerScenarios):
    program = PROGRAM


class TestLeaders(LeaderScenarios):
    program = PROGRAM


@pytest.mark.exhaustive
class TestStandby(StandbyScenarios):
    program = PROGRAM
    cooperative_program = "compat_tests.aiokafka.cooperative_member"


class TestConversion(ConversionScenarios):
    program = PROGRAM
    warns = False


class TestRacks(RackScenarios):
    program = PROGRAM
    other_program = "compat_tests.aiokafka.cooperative_member"
    reads_followers = "client_rack" in inspect.signature(AIOKafkaConsumer).parameters


class TestStaticMembers(StaticMemberScenarios):
    program = PROGRAM


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


class Naive(CooperativeStickyAssignor):
    """A leader by aiokafka's interface alone: it sees what aiokafka has decoded of the members."""

    def assign(self, cluster: Any, members: Any) -> Any:
        joined = self.read_members(JoinedMember(id, None, member.encode()) for id, member in members.items())
        return self.encode_assignments(joined, topics_of(cluster, joined.topics), None).assignments


@pytest.mark.parametrize("leader", [Naive, CooperativeStickyAssignor])
def test_what_a_cooperative_member_is_slow_to_revoke_has_one_owner_only_if_the_leader_reads_its_bytes(
    kafka: Kafka, leader: type[CooperativeStickyAssignor]
) -> None:
    async def lead() -> set[Any]:
        """The partitions that two members own while the cooperative one is still revoking."""
        revoked = asyncio.Event()
        listener = Listener(revoked=lambda _: revoked.wait())
        eager, newcomer = consumer_of(group, leader()), consumer_of(group, leader())
        async with stopping(eager, newcomer):
            await eager.start()
            async with consuming(group, listener) as slow:
                await settle(group, eager, slow)
                await newcomer.start()
                await until(lambda: listener.told("revoked") and newcomer.assignment())
                (being_revoked,) = listener.told("revoked")
                still_held = slow.assignment() | being_revoked
                twice = still_held & (eager.assignment() | newcomer.assignment())
                revoked.set()
                await settle(group, eager, slow, newcomer)
                return twice

    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        owned_twice = asyncio.run(lead())
    assert bool(owned_twice) == (leader is Naive)


def test_where_the_bytes_cannot_be_read_eager_strategies_run_and_cooperative_ones_need_our_consumer(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lead() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        first, second, third = (consumer_of(group, StickyAssignor()) for _ in range(3))
        async with stopping(first, second, third):
            await first.start()
            await second.start()
            await settle(group, first, second)
            before = {consumer: consumer.assignment() for consumer in (first, second)}
            await third.start()
            await settle(group, first, second, third)
            assert all(consumer.assignment() < owned for consumer, owned in before.items())

        refused = consumer_of(group, CooperativeStickyAssignor(), group_id=f"{group.id}-cooperative")
        async with stopping(refused):
            with pytest.raises(KafkaError, match="Use CooperativeAIOKafkaConsumer"):
                await asyncio.wait_for(refused.start(), HANG_S)
        async with consuming(group, group_id=f"{group.id}-cooperative") as cooperative:
            await until(lambda: len(cooperative.assignment()) == 6)

    monkeypatch.setattr(
        GroupCoordinator, "_perform_assignment", renamed(GroupCoordinator._perform_assignment, "response")
    )
    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        asyncio.run(lead())


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


def test_an_assignor_serves_consumers_of_different_groups(kafka: Kafka) -> None:
    async def share() -> list[set[Any]]:
        shared = StickyAssignor()
        here = [consumer_of(group, shared) for _ in range(2)]
        there = [consumer_of(group, shared, group_id=f"{group.id}-other") for _ in range(3)]
        async with stopping(*here, *there):
            seen = []
            for members in (here, there):
                await members[0].start()
                await members[1].start()
                await settle(group, *members[:2])
                seen.append(members[0].assignment())
            await there[2].start()
            await settle(group, *there)
            await settle(group, *here)
            return [*seen, here[0].assignment(), there[0].assignment()]

    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        here_before, there_before, here_after, there_after = asyncio.run(share())
    assert here_after == here_before
    assert there_after < there_before
