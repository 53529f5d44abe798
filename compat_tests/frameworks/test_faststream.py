"""Groups of FastStream applications, eager through arguments and cooperative through `use`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from faststream.kafka import KafkaBroker

from compat_tests.frameworks.framework_scenarios import FrameworkScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from examples.aiokafka.in_faststream import drain, use
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, CooperativeStickyAssignor

PROGRAM = "compat_tests.frameworks.faststream_member"


class TestEager(FrameworkScenarios):
    program = PROGRAM
    strategies = ("sticky",)


class TestCooperative(FrameworkScenarios):
    program = PROGRAM
    strategies = ("cooperative-sticky",)

    def check(self, group: GroupOfMembers) -> None:
        # A member may have no partitions only in the generation in which it joins.
        for member in group.members.values():
            assert member.text().count("has no partition assignments") <= 1


class Heard(ConsumerRebalanceListener):
    """Records the calls of each method."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def on_partitions_revoked(self, revoked: set[Any]) -> None:
        self.calls.append(("revoked", len(revoked)))

    async def on_partitions_assigned(self, assigned: set[Any]) -> None:
        self.calls.append(("assigned", len(assigned)))


def test_a_member_that_keeps_its_partitions_is_not_warned_of_having_none(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic("faststream-keeps", 2)
    heard = Heard()

    async def play() -> None:
        async with asyncio.timeout(HANG_S):  # type: ignore[attr-defined]  # Python 3.11
            keeps, comes = (use(KafkaBroker(kafka.bootstrap)) for _ in range(2))
            first = keeps.subscriber("faststream-keeps", group_id="keeps", listener=heard, **QUICK)
            second = comes.subscriber("faststream-keeps", group_id="keeps", **QUICK)
            for subscriber in (first, second):
                subscriber(ignore)
            await keeps.start()
            assert type(first.consumer).__mro__[1] is CooperativeAIOKafkaConsumer
            while not first.consumer.assignment():
                await asyncio.sleep(0.05)
            caplog.clear()
            await comes.start()
            while len(second.consumer.assignment()) != 1 or len(first.consumer.assignment()) != 1:
                await asyncio.sleep(0.05)
            while heard.calls[-1] != ("assigned", 0):
                await asyncio.sleep(0.05)
            warned = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
            # The joining member has no partitions in its first generation, and is warned of that.
            assert sum("no partition assignments" in text for text in warned) <= 1, warned
            assert all(first.consumer._coordinator.member_id not in text for text in warned)
            await comes.stop()
            await keeps.stop()

    asyncio.run(play())
    assert ("revoked", 1) in heard.calls


class Restores(Heard):
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
