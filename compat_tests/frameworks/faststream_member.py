"""A member program (see `compat_tests.support.member_reports`): one cooperative FastStream application."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from faststream.kafka import KafkaBroker
from faststream.kafka.annotations import KafkaMessage

from compat_tests.support.member_reports import MemberSpec, Reporter
from examples.aiokafka.in_faststream import use


class Listener(ConsumerRebalanceListener):
    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.subscriber: Any = None

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._reporter.revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        consumer = self.subscriber.consumer
        coordinator = consumer._coordinator
        self._reporter.assigned(coordinator.member_id, coordinator.generation, consumer.assignment())


async def main() -> None:
    spec, reporter = MemberSpec.from_arguments(), Reporter()
    broker = use(KafkaBroker(spec.bootstrap, client_id=spec.name))
    listener = Listener(reporter)
    subscriber = broker.subscriber(
        *spec.topics,
        group_id=spec.group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=300,
        session_timeout_ms=spec.session_timeout_ms,
        listener=listener,
    )
    listener.subscriber = subscriber

    @subscriber
    async def consume(body: bytes, message: KafkaMessage) -> None:
        record = message.raw_message
        reporter.consumed(record.topic, record.partition, [record.offset])

    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await broker.start()
    await stopping.wait()
    reporter.stopped()
    await broker.stop()


if __name__ == "__main__":
    asyncio.run(main())
