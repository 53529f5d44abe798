"""FastStream applications that are cooperative through `use`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from faststream.kafka import KafkaBroker

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from examples.aiokafka.in_faststream import drain, use
from kafka_assignors_aiokafka import CooperativeStickyAssignor


class Restores(ConsumerRebalanceListener):
    """Records the calls of each method."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self.calls.append(("revoked", len(revoked)))

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self.calls.append(("assigned", len(assigned)))

    async def on_partitions_warming(self, partitions: set[Any]) -> None:
        self.calls.append(("warming", len(partitions)))


def test_partitions_are_warm_when_they_move_and_when_the_application_stops(kafka: Kafka) -> None:
    kafka.create_topic("faststream-warm", 2)
    kept, came = Restores(), Restores()

    async def play() -> None:
        async with asyncio.timeout(HANG_S):  # type: ignore[attr-defined]  # Python 3.11
            keeps, comes = (use(KafkaBroker(kafka.bootstrap)) for _ in range(2))
            first = keeps.subscriber("faststream-warm", group_id="warm", listener=kept, **QUICK)
            second = comes.subscriber("faststream-warm", group_id="warm", listener=came, **QUICK)
            for subscriber in (first, second):
                subscriber(ignore)
            await keeps.start()
            while not first.consumer.assignment():
                await asyncio.sleep(0.05)
            await comes.start()
            while len(second.consumer.assignment()) != 1:
                await asyncio.sleep(0.05)
            assert await drain(keeps, timeout_ms=HANG_S * 1000)
            assert not first.consumer.assignment()
            while len(second.consumer.assignment()) != 2:
                await asyncio.sleep(0.05)
            await keeps.stop()
            await comes.stop()

    asyncio.run(play())
    told = [call for call in came.calls if call[1] and call[0] != "revoked"]
    assert told == [("warming", 1), ("assigned", 1)] * 2
    assert ("warming", 1) not in kept.calls


QUICK: dict[str, Any] = {"heartbeat_interval_ms": 300, "session_timeout_ms": 30_000}


async def ignore(body: Any) -> None:
    pass


def test_subscribers_without_a_group_keep_the_consumer_of_the_client(kafka: Kafka) -> None:
    kafka.create_topic("faststream-alone", 1)

    async def play() -> None:
        broker = use(use(KafkaBroker(kafka.bootstrap)))  # The last call takes effect.
        alone = broker.subscriber("faststream-alone")
        alone(ignore)
        own = broker.subscriber(
            "faststream-alone",
            group_id="own",
            partition_assignment_strategy=[CooperativeStickyAssignor(stay_classic=True)],
        )
        own(ignore)
        async with asyncio.timeout(HANG_S):  # type: ignore[attr-defined]  # Python 3.11
            await broker.start()
            assert type(alone.consumer) is AIOKafkaConsumer
            (assignor,) = own.consumer._partition_assignment_strategy
            assert assignor.stay_classic
            await broker.stop()

    asyncio.run(play())


def test_use_refuses_what_is_no_broker() -> None:
    with pytest.raises(TypeError, match="takes a KafkaBroker"):
        use(object())  # type: ignore[arg-type]
