"""Commits of CooperativeAIOKafkaConsumers: partial responses, bad arguments, thousands at once."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import UnknownTopicOrPartitionError
from aiokafka.structs import OffsetAndMetadata

from compat_tests.aiokafka.cooperative_consumers import consuming, of
from compat_tests.aiokafka.test_cooperative_faults import through
from compat_tests.interop.recorded_group import RecordedGroup
from compat_tests.support.fault_proxy import Effect, Fault, FaultProxy
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer

pytestmark = pytest.mark.exhaustive

PROGRAM = "compat_tests.aiokafka.cooperative_member"
UNKNOWN_TOPIC, NOT_COORDINATOR = 3, 16


@pytest.mark.parametrize("passing", [14, 15, NOT_COORDINATOR, 7])
def test_beside_a_partition_that_failed_for_good_the_others_are_tried_again(
    kafka: Kafka, passing: int
) -> None:
    async def consume() -> None:
        async with consuming(group) as consumer:
            gone, busy, fine = sorted(of(group, 0, 1, 2))
            requested: list[set[int]] = []
            answers = {gone: UNKNOWN_TOPIC, busy: passing}
            coordinator = consumer._coordinator
            commit = coordinator.offset_commit

            async def answer(sent: Any) -> Any:
                codes = await sent
                requested.append({number for _, number in codes})
                return {tp: answers.pop(TopicPartition(*tp), code) for tp, code in codes.items()}

            coordinator.offset_commit = lambda *request: answer(commit(*request))
            with pytest.raises(UnknownTopicOrPartitionError, match=f"{gone.topic}-0"):
                await asyncio.wait_for(consumer.commit({gone: 1, busy: 2, fine: 3}), HANG_S)
            assert requested == [{0, 1, 2}, {1}]
            assert await consumer.committed(busy) == 2
            await consumer.commit({gone: 4})

    with GroupOfMembers(kafka, PROGRAM, {"orders": 3}) as group:
        asyncio.run(consume())


BAD_OFFSETS = [
    OffsetAndMetadata(1, "x" * 40_000),
    OffsetAndMetadata(1, "x" * 5_000),
    OffsetAndMetadata(None, ""),
    OffsetAndMetadata("7", ""),
    OffsetAndMetadata(2**70, ""),
    OffsetAndMetadata(1, None),
    -5,
    None,
    1.5,
]


def test_an_argument_that_the_client_cannot_send_fails_as_in_stock_and_the_consumer_goes_on(
    kafka: Kafka,
) -> None:
    async def outcomes(consumer: AIOKafkaConsumer) -> list[str]:
        (tp,) = of(group, 0)
        kinds = []
        for bad in BAD_OFFSETS:
            try:
                await asyncio.wait_for(consumer.commit({tp: bad}), HANG_S)
            except Exception as error:
                kinds.append(type(error).__name__)
            else:
                kinds.append("committed")
        return kinds

    async def consume() -> None:
        stock = AIOKafkaConsumer(
            group.topic("orders"), group_id=f"stock-{group.id}", bootstrap_servers=group.kafka.bootstrap
        )
        await stock.start()
        expected = await outcomes(stock)
        await stock.stop()
        async with consuming(group) as consumer:
            assert await outcomes(consumer) == expected
            (tp,) = of(group, 0)
            await asyncio.wait_for(consumer.commit({tp: 4}), HANG_S)
            assert await consumer.committed(tp) == 4
            await asyncio.wait_for(consumer.getone(), HANG_S)
        async with consuming(group) as next_one:
            assert next_one.assignment()  # The first consumer has left.

    with GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group:
        group.produce(10)
        asyncio.run(consume())


def test_thousands_of_commits_at_once_are_accepted_with_the_last_one(kafka: Kafka) -> None:
    async def consume(consumer: CooperativeAIOKafkaConsumer) -> None:
        (tp,) = of(group, 0)
        await asyncio.gather(*(consumer.commit({tp: offset}) for offset in range(2_000)))
        assert await consumer.committed(tp) == 1_999
        assert not consumer._coordinator._session.commits._lines

    async def run() -> None:
        async with consuming(group) as consumer:
            await asyncio.wait_for(consume(consumer), HANG_S)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group:
        asyncio.run(run())


@pytest.mark.parametrize("seed", range(2))
def test_while_connections_are_reset_no_commit_of_concurrent_tasks_goes_back(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)

    async def consume(consumer: CooperativeAIOKafkaConsumer) -> int:
        (tp,) = of(group, 0)
        offset, tasks = 0, []
        for _ in range(2):
            for reset in (False, True):
                with proxy.fault(Fault(Effect.RESET if reset else Effect.SLOW)):
                    for _ in range(chance.randint(5, 20)):
                        offset += 1
                        tasks.append(asyncio.create_task(consumer.commit({tp: offset})))
                        await consumer.getmany(timeout_ms=25)
        await consumer.commit({tp: offset + 1})
        await asyncio.gather(*tasks)
        return offset + 1

    async def run() -> int:
        async with consuming(group) as consumer:
            return await asyncio.wait_for(consume(consumer), HANG_S)

    with (
        FaultProxy() as proxy,
        GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group,
        RecordedGroup(kafka, group.id) as recorded,
    ):
        through(proxy, monkeypatch)
        last = asyncio.run(run())
        recorded.records()
        accepted = [one.offset for one in recorded.commits()]
    assert accepted == sorted(accepted)
    assert accepted[-1] == last
