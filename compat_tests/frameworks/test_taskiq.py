"""A taskiq worker: eager, because the broker of taskiq-aio-kafka creates its own consumer."""

from __future__ import annotations

import asyncio

from aiokafka.admin import NewTopic
from taskiq_aio_kafka import AioKafkaBroker

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import StickyAssignor


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
