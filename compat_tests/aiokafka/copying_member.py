"""A member program (see `compat_tests.support.member_reports`): a transactional consumer that copies records.

It commits the copies and the consumed offsets together (`send_offsets_to_transaction`). A transaction ends
before its partitions go to another member.
"""

from __future__ import annotations

import asyncio
import signal
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener

from compat_tests.aiokafka.member import assignor_of
from compat_tests.support.member_reports import MemberSpec, Reporter


class Listener(ConsumerRebalanceListener):
    def __init__(self, reporter: Reporter, consumer: AIOKafkaConsumer, in_transaction: asyncio.Lock) -> None:
        self._reporter = reporter
        self._consumer = consumer
        self._in_transaction = in_transaction

    async def on_partitions_revoked(self, revoked: Any) -> None:
        async with self._in_transaction:
            self._reporter.revoked(revoked)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        coordinator = self._consumer._coordinator
        self._reporter.assigned(coordinator.member_id, coordinator.generation, assigned)


async def copy(spec: MemberSpec, reporter: Reporter) -> None:
    """Write topic/partition/offset of each record to the topic whose name has the prefix "copies-of-"."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=spec.bootstrap,
        group_id=spec.group,
        client_id=spec.name,
        partition_assignment_strategy=[assignor_of(spec, name) for name in spec.assignors],
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        session_timeout_ms=spec.session_timeout_ms,
        heartbeat_interval_ms=300,
    )
    producer = AIOKafkaProducer(
        bootstrap_servers=spec.bootstrap, transactional_id=f"{spec.group}-{spec.name}", linger_ms=5
    )
    in_transaction = asyncio.Lock()
    consumer.subscribe(spec.topics, listener=Listener(reporter, consumer, in_transaction))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await producer.start()
    try:
        await consumer.start()
        while not stopping.is_set():
            async with in_transaction:
                batches = await consumer.getmany(timeout_ms=100)
                if batches:
                    await copy_batches(producer, spec.group, batches)
            for tp, records in batches.items():
                reporter.consumed(tp.topic, tp.partition, [record.offset for record in records])
    except Exception as error:
        reporter.failed(error)
        raise
    finally:
        reporter.stopped()
        await consumer.stop()
        await producer.stop()


async def copy_batches(producer: AIOKafkaProducer, group: str, batches: Any) -> None:
    async with producer.transaction():
        for tp, records in batches.items():
            for record in records:
                what = f"{tp.topic}/{tp.partition}/{record.offset}"
                await producer.send(f"copies-of-{tp.topic}", what.encode())
        offsets = {tp: records[-1].offset + 1 for tp, records in batches.items()}
        await producer.send_offsets_to_transaction(offsets, group)


if __name__ == "__main__":
    asyncio.run(copy(MemberSpec.from_arguments(), Reporter()))
