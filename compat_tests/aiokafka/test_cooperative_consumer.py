"""CooperativeAIOKafkaConsumers in the test's process: listener, commits, positions, subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import CommitFailedError, KafkaError
from aiokafka.structs import OffsetAndMetadata

from compat_tests.aiokafka.cooperative_consumers import Listener, consuming, of, until
from compat_tests.aiokafka.in_process import AIOKafkaInProcess
from compat_tests.scenarios.in_process import ConsumerScenarios, WeightScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import (
    CooperativeAIOKafkaConsumer,
    CooperativeStickyAssignor,
    FencedInstanceIdError,
)

FENCED_INSTANCE_ID = 82
PROGRAM = "compat_tests.aiokafka.cooperative_member"


class TestConsumer(ConsumerScenarios, AIOKafkaInProcess):
    pass


class TestWeights(WeightScenarios, AIOKafkaInProcess):
    pass


def test_partitions_that_stay_keep_their_buffers_positions_and_pauses(kafka: Kafka) -> None:
    async def consume() -> None:
        async with consuming(group) as first:
            await until(lambda: len(first._fetcher._records) == 4)
            for tp in first.assignment():
                await first.getmany(tp, max_records=3)
            buffered = dict(first._fetcher._records)
            first.pause(*first.assignment())
            async with consuming(group) as second:
                await until(lambda: len(second.assignment()) == 2)
                stayed = first.assignment()
                assert len(stayed) == 2
                assert first._fetcher._records == {tp: buffered[tp] for tp in stayed}
                assert first.paused() == stayed
                assert {await first.position(tp) for tp in stayed} == {3}
                assert second.paused() == set()
        assert first._fetcher._records.keys() <= buffered.keys()

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("what", ["revoked", "lost", "assigned"])
def test_next_read_raises_the_error_of_a_listener_and_the_consumer_goes_on(
    kafka: Kafka, what: str, asynchronous: bool
) -> None:
    refusals: list[set[TopicPartition]] = []

    def refuse(partitions: set[TopicPartition]) -> None:
        # Raise once, and not in the first assignment, where `start` would raise the error.
        if partitions and not refusals and (what, len(partitions)) != ("assigned", 4):
            refusals.append(partitions)
            raise ValueError("I will not")

    async def refuse_later(partitions: set[TopicPartition]) -> None:
        await asyncio.sleep(0)
        refuse(partitions)

    read: set[TopicPartition] = set()

    async def read_while(wanted: Callable[[], bool], consumer: CooperativeAIOKafkaConsumer) -> None:
        while wanted():
            read.update(await asyncio.wait_for(consumer.getmany(timeout_ms=50), HANG_S))

    async def consume() -> None:
        listener = Listener(**{what: refuse_later if asynchronous else refuse})
        settings: dict[str, Any] = {"max_poll_interval_ms": 1000} if what == "lost" else {}
        async with consuming(group, listener, **settings) as first:
            async with consuming(group) as second:
                # The first consumer loses its partitions because it does not poll.
                await until(lambda: len(second.assignment()) == (4 if what == "lost" else 2))
            # The second consumer has stopped, so the first is assigned its partitions.
            refused = rf"on_partitions_{what} of .* failed: .*I will not"
            with pytest.raises(KafkaError, match=refused) as raised:
                await read_while(lambda: True, first)
            assert isinstance(raised.value.__cause__, ValueError)
            await read_while(lambda: read != of(group, 0, 1, 2, 3), first)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())


def test_a_fenced_consumer_can_neither_commit_nor_read_and_the_other_keeps_its_commits(
    kafka: Kafka,
) -> None:
    async def consume() -> None:
        async with consuming(group, group_instance_id="pod-0") as zombie:
            (tp, *_) = zombie.assignment()
            await zombie.commit({tp: 3})
            coordinator = zombie._coordinator
            was = coordinator._member.membership
            async with consuming(group, group_instance_id="pod-0") as successor:
                assert successor.assignment() == of(group, 0, 1, 2, 3)
                await successor.commit({tp: 7})
                with pytest.raises(CommitFailedError):
                    await zombie.commit({tp: 4})
                for _ in range(2):
                    with pytest.raises(FencedInstanceIdError, match="another process joined with the same"):
                        await asyncio.wait_for(zombie.getone(), HANG_S)

                # The broker refuses every request of the zombie, even if the zombie had not stopped.
                offset = {tp: OffsetAndMetadata(4, "")}
                assert await coordinator.send_heartbeat(was) == FENCED_INSTANCE_ID
                assert await coordinator.offset_commit(was, offset) == {tuple(tp): FENCED_INSTANCE_ID}
                assert await successor.committed(tp) == 7
                await asyncio.wait_for(zombie.stop(), HANG_S)
                assert successor._coordinator._member.in_group

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())


def test_consumers_of_one_process_share_an_assignor_and_nothing_else(kafka: Kafka) -> None:
    async def consume() -> None:
        shared: dict[str, Any] = {"partition_assignment_strategy": [CooperativeStickyAssignor()]}
        async with (
            consuming(group, **shared) as first,
            consuming(group, **shared) as second,
            consuming(group, group_id=f"{group.id}-other", **shared) as alone,
        ):
            await until(lambda: len(first.assignment()) == len(second.assignment()) == 2)
            assert first.assignment() | second.assignment() == of(group, 0, 1, 2, 3)
            assert alone.assignment() == of(group, 0, 1, 2, 3)
            for consumer in (first, second, alone):
                read: dict[TopicPartition, int] = {}
                while sum(read.values()) < 10 * len(consumer.assignment()):
                    for tp, records in (await consumer.getmany(timeout_ms=100)).items():
                        read[tp] = read.get(tp, 0) + len(records)
                assert read == dict.fromkeys(consumer.assignment(), 10)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        asyncio.run(consume())
