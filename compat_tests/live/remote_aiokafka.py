"""An aiokafka consumer that executes the steps of a test (see `remote_consumer`)."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from compat_tests.live.remote_consumer import Setup
from kafka_assignors_aiokafka import StickyAssignor


class Listener(ConsumerRebalanceListener):
    def __init__(self, setup: Setup, consumer: AIOKafkaConsumer) -> None:
        self._setup = setup
        self._consumer = consumer

    async def on_partitions_revoked(self, revoked: Any) -> None:
        if self._setup.listener == "commit" and revoked:
            await self._consumer.commit()

    async def on_partitions_assigned(self, assigned: Any) -> None:
        pass


class Steps:
    """The steps that a test can send, one method each."""

    def __init__(self, setup: Setup, consumer: AIOKafkaConsumer) -> None:
        self._setup = setup
        self._consumer = consumer

    async def poll(self) -> Mapping[str, Any]:
        polled = await self._consumer.getmany(timeout_ms=200)
        return {
            "records": [
                (tp.partition, record.offset) for tp, records in polled.items() for record in records
            ],
            "assigned": [tp.partition for tp in self._consumer.assignment()],
        }

    async def positions(self) -> list[int]:
        return [await self._consumer.position(tp) for tp in sorted(self._consumer.assignment())]

    async def commit(self) -> None:
        await self._consumer.commit()

    async def commit_in_transaction(self, offsets: Mapping[str, int], as_of: str) -> None:
        """Commit with a separate producer, which does not know the consumer's membership."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self._setup.bootstrap, transactional_id=f"{self._setup.group}-{id(self)}"
        )
        await producer.start()
        try:
            async with producer.transaction():
                await producer.send_offsets_to_transaction(
                    {TopicPartition(self._setup.topic, int(p)): offset for p, offset in offsets.items()},
                    self._setup.group,
                )
        finally:
            await producer.stop()

    async def stop(self) -> None:
        await self._consumer.stop()


async def main() -> None:
    setup = Setup.from_arguments()
    strategy = StickyAssignor() if setup.assignor == "ours" else RoundRobinPartitionAssignor
    consumer = AIOKafkaConsumer(
        bootstrap_servers=setup.bootstrap,
        group_id=setup.group,
        partition_assignment_strategy=[strategy],
        **setup.settings,
    )
    consumer.subscribe([setup.topic], listener=Listener(setup, consumer))
    await consumer.start()
    steps = Steps(setup, consumer)
    while line := await asyncio.to_thread(sys.stdin.readline):
        order = json.loads(line)
        try:
            answer = {"answer": await getattr(steps, order.pop("do"))(**order)}
        except Exception as error:
            answer = {"answer": None, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    asyncio.run(main())
