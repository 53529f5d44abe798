"""Groups of FastStream and kstreams, cooperative through `use` and `consumer_class`, and a worker of taskiq.

The worker is eager, because the broker of taskiq-aio-kafka creates its own consumer.
"""

from __future__ import annotations

import asyncio

import pytest
from aiokafka.admin import NewTopic
from taskiq_aio_kafka import AioKafkaBroker

from compat_tests.scenarios.eager import SHORT_SESSION_MS, by_size
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import StickyAssignor

STRATEGIES = ("cooperative-sticky",)

RECORDS = 10
"""Records written to each partition before each step."""


@pytest.mark.parametrize("framework", ["faststream", "kstreams"])
def test_members_join_restart_and_take_over_from_one_that_is_killed(kafka: Kafka, framework: str) -> None:
    with GroupOfMembers(kafka, f"compat_tests.frameworks.{framework}_member", {"orders": 6}) as group:
        written = 0

        def write() -> None:
            nonlocal written
            written += RECORDS
            group.produce(RECORDS)

        write()
        group.start("a", STRATEGIES)
        settled = group.settle()
        write()
        group.start("b", STRATEGIES)
        settled = group.settle(after=settled)
        assert by_size(settled) == [3, 3]
        group.wait_until_consumed(written)
        for name in ("a", "b"):
            write()
            group.stop(name)
            # The new process has another name, so that deliveries to both processes are counted.
            sessions = {"session_timeout_ms": SHORT_SESSION_MS} if name == "b" else {}
            group.start(f"{name}2", STRATEGIES, **sessions)
            settled = group.settle(after=settled)
            assert by_size(settled) == [3, 3]
            group.wait_until_consumed(written)
        twice = [record for record, times in group.consumed().items() if times > 1]
        assert not twice

        group.kill("b2")
        write()
        settled = group.settle("a2", after=settled)
        assert by_size(settled) == [6]
        group.wait_until_consumed(written)
        # FastStream says so. A member may have no partitions only in the generation in which it joins.
        for member in group.members.values():
            assert member.text().count("has no partition assignments") <= 1


def test_a_worker_is_assigned_its_partitions_by_the_assignor_that_it_was_given(kafka: Kafka) -> None:
    async def work() -> None:
        broker = AioKafkaBroker(kafka.bootstrap, kafka_topic=NewTopic("taskiq", 3, 1))
        broker.is_worker_process = True
        broker.configure_consumer(group_id="taskiq", partition_assignment_strategy=[StickyAssignor()])
        async with asyncio.timeout(HANG_S):  # type: ignore[attr-defined]  # Python 3.11
            await broker.startup()
            consumer = broker._aiokafka_consumer
            while len(consumer.assignment()) < 3:
                await asyncio.sleep(0.05)
            assert isinstance(consumer._coordinator._assignors[0], StickyAssignor)
            await broker.shutdown()

    kafka.create_topic("taskiq", 3)
    asyncio.run(work())
