"""A member program (see `compat_tests.support.member_reports`): one worker of taskiq-aio-kafka.

taskiq does not pass a listener to its consumer. Therefore the program polls the consumer's assignment every
few milliseconds.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from aiokafka.admin import NewTopic
from taskiq_aio_kafka import AioKafkaBroker

from compat_tests.aiokafka.member import assignor_of
from compat_tests.support.member_reports import MemberSpec, Reporter

LOOK_S = 0.02


async def look(consumer: Any, reporter: Reporter) -> None:
    """Report each new generation, after the revocation of the previous partitions."""
    told: tuple[int, Any] = (-1, frozenset())
    while True:
        now = (consumer._coordinator.generation, consumer.assignment())
        if now != told and now[0] >= 0 and consumer._subscription.subscription.assignment is not None:
            if told[1]:
                reporter.revoked(told[1])
            reporter.assigned(consumer._coordinator.member_id, *now)
            told = now
        await asyncio.sleep(LOOK_S)


async def main() -> None:
    spec, reporter = MemberSpec.from_arguments(), Reporter()
    (topic,) = spec.topics
    broker = AioKafkaBroker(spec.bootstrap, kafka_topic=NewTopic(topic, 6, 1))
    broker.is_worker_process = True
    broker.configure_consumer(
        group_id=spec.group,
        client_id=spec.name,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=300,
        session_timeout_ms=spec.session_timeout_ms,
        partition_assignment_strategy=[assignor_of(spec, name) for name in spec.assignors],
    )
    await broker.startup()
    consumer = broker._aiokafka_consumer
    looking = asyncio.create_task(look(consumer, reporter))

    async def listen() -> None:
        # Same as `broker.listen`, which yields only the value of a record.
        async for record in consumer:
            reporter.consumed(record.topic, record.partition, [record.offset])

    listening = asyncio.create_task(listen())
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await stopping.wait()
    reporter.stopped()
    looking.cancel()
    listening.cancel()
    await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main())
