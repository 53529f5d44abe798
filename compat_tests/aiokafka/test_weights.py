"""Leaders that request weights, on a real broker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer

from compat_tests.aiokafka.cooperative_consumers import consuming
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.weights import lag, member_ids, silent_server, write
from kafka_assignors_aiokafka import assignor
from kafka_assignors_strategies import Weighted
from kafka_assignors_strategies.for_aiokafka import LagWeights, RateWeights, WeightsFile

PROGRAM = "compat_tests.aiokafka.cooperative_member"


async def until_shares(expected: list[set[int]], *consumers: Any) -> None:
    """Wait until the consumers own these partitions, in any order."""
    deadline = time.monotonic() + HANG_S
    while True:
        shares = [{tp.partition for tp in consumer.assignment()} for consumer in consumers]
        if sorted(map(sorted, shares)) == sorted(map(sorted, expected)):
            return
        assert time.monotonic() < deadline, shares
        await asyncio.sleep(0.1)


def test_members_share_the_lag_and_not_the_number(kafka: Kafka) -> None:
    async def run() -> None:
        weights = LagWeights(group.id, base=10, bootstrap_servers=kafka.bootstrap)
        settings: dict[str, Any] = {
            "partition_assignment_strategy": [
                assignor(Weighted(), weights=weights, weights_timeout_s=HANG_S)
            ],
            "session_timeout_ms": 45_000,
        }
        async with consuming(group, **settings) as first, consuming(group, **settings) as second:
            await until_shares([{2}, {0, 1, 3, 4, 5}], first, second)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        lag(group, {2: 500, 4: 20})
        asyncio.run(run())


def test_members_share_what_comes_in_and_not_what_is_there(kafka: Kafka) -> None:
    async def run() -> None:
        # Every partition lags, partition 4 most. Only the records between two looks count.
        weights = RateWeights(group.id, base=0, bootstrap_servers=kafka.bootstrap)
        assert await weights(group.topics) == dict.fromkeys(group.topics, [None] * 6)
        await asyncio.to_thread(write, group, {2: 1000, **dict.fromkeys((0, 1, 3, 4, 5), 20)})
        await asyncio.sleep(1.1)
        ((first, usual, hot, *others),) = (await weights(group.topics)).values()
        assert usual is not None
        assert hot == pytest.approx(50 * usual, rel=0.01)
        assert {first, *others} == {usual}
        settings: dict[str, Any] = {
            "partition_assignment_strategy": [
                assignor(Weighted(), weights=weights, weights_timeout_s=HANG_S)
            ],
            "session_timeout_ms": 45_000,
        }
        async with consuming(group, **settings) as first, consuming(group, **settings) as second:
            await until_shares([{2}, {0, 1, 3, 4, 5}], first, second)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        lag(group, {4: 500, 2: 20})
        asyncio.run(run())


def test_cooperative_members_move_when_the_file_says_so(kafka: Kafka, tmp_path: Path) -> None:
    file = tmp_path / "weights.json"

    def weigh(*weights: int) -> None:
        file.write_text(json.dumps({"topics": dict.fromkeys(group.topics, weights)}))

    async def run() -> None:
        strategies = [assignor(Weighted(), weights=WeightsFile(file))]
        weigh(9, 1, 1, 1)
        async with (
            consuming(group, partition_assignment_strategy=strategies) as first,
            consuming(group, partition_assignment_strategy=strategies) as second,
        ):
            await until_shares([{0}, {1, 2, 3}], first, second)
            weigh(5, 5, 5, 5)
            async with consuming(group, partition_assignment_strategy=strategies):
                pass  # A member joins and leaves; the next rebalance uses the new weights.
            await until_shares_even(first, second)

    async def until_shares_even(*consumers: AIOKafkaConsumer) -> None:
        deadline = time.monotonic() + HANG_S
        while [len(consumer.assignment()) for consumer in consumers] != [2, 2]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        asyncio.run(run())


def test_the_group_does_not_wait_for_brokers_that_do_not_answer(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Mapping[str, int]] = []
    looking: list[asyncio.Task[list[str]]] = []

    async def run() -> float:
        with silent_server() as address:
            silent = LagWeights(group.id, bootstrap_servers=address)

            async def weights(topics: Mapping[str, int]) -> Any:
                asked.append(topics)
                # Look up the member ids outside the weights' timeout, which expires soon on a busy machine.
                looking.append(asyncio.create_task(asyncio.to_thread(member_ids, group)))
                return await silent(topics)

            # The assignor allows HANG_S, but the session limits the wait to five seconds.
            settings: dict[str, Any] = {
                "partition_assignment_strategy": [
                    assignor(Weighted(), weights=weights, weights_timeout_s=HANG_S)
                ],
                "session_timeout_ms": 15_000,
                "rebalance_timeout_ms": 60_000,
            }
            began = time.monotonic()
            async with consuming(group, **settings) as consumer:
                await until_shares([{0, 1, 2, 3}], consumer)
                took = time.monotonic() - began
                await asyncio.sleep(1)
                # An expelled member would have come back with another id.
                assert await asyncio.gather(*looking) == [member_ids(group)]
            return took

    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        took = asyncio.run(run())
        assert asked == [dict(group.topics)]
    assert took >= 5
    (warning,) = [m for m in caplog.messages if "no weights from" in m]
    assert "it did not answer within 5 s; all weights count as unknown" in warning
    assert "weighted: no weight of the 4 partitions is known: each counts as 1" in caplog.messages
