"""A consumer with state: how many records each key has had, in a table that another member can restore.

    $ python -m examples.aiokafka.stateful --topic orders --group totals

Each count is written to a compacted topic, `orders-counts`, to the partition with the number of the record's.
Start it in several terminals: a partition moves when its next owner has restored its table, and its records
go on meanwhile. SIGTERM drains: the other members restore what this one has before it goes. See
docs/stateful.md.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import CommitFailedError, KafkaError, TopicAlreadyExistsError

from examples.aiokafka.plain import run
from examples.command_line import parser, start_logging
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer

log = logging.getLogger("examples.aiokafka")

DRAIN_S = 20.0
"""The time for the others to restore what this member has. `terminationGracePeriodSeconds` is longer."""


class Table:
    """The counts of one partition, up to an offset of the compacted topic."""

    def __init__(self, partition: TopicPartition) -> None:
        self.counts: dict[bytes, int] = {}
        self._source = TopicPartition(f"{partition.topic}-counts", partition.partition)
        self._next_offset = 0

    async def catch_up(self, bootstrap_servers: str) -> None:
        """Read what is there beyond the offset."""
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers)
        await consumer.start()
        try:
            consumer.assign([self._source])
            end = (await consumer.end_offsets([self._source]))[self._source]
            consumer.seek(self._source, self._next_offset)
            while await consumer.position(self._source) < end:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    self.counts.update((record.key, int(record.value)) for record in records)
            self._next_offset = end
        finally:
            await consumer.stop()


class Counter(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Counts records, and has a table for each partition that it owns or warms."""

    def __init__(self, consumer: CooperativeAIOKafkaConsumer, bootstrap_servers: str) -> None:
        self._consumer = consumer
        self._servers = bootstrap_servers
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap_servers)
        self._tables: dict[TopicPartition, Table] = {}
        self._at_work = asyncio.Lock()

    async def on_partitions_warming(self, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            table = Table(partition)
            await table.catch_up(self._servers)
            self._tables[partition] = table

    def on_warming_cancelled(self, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            self._tables.pop(partition, None)

    async def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            was_warm = partition in self._tables
            # What is warm lacks what the last owner has written since.
            await self._tables.setdefault(partition, Table(partition)).catch_up(self._servers)
            log.info("%s-%d: %s", *partition, "was warm" if was_warm else "restored")

    async def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        async with self._at_work:  # The batch in hand is counted, written and committed.
            self.on_warming_cancelled(partitions)

    async def work(self, topic: str, stopping: asyncio.Event) -> None:
        """Count until `stopping` is set, then until others have restored everything."""
        await self._producer.start()
        draining: asyncio.Task[bool] | None = None
        try:
            while draining is None or not draining.done():
                if stopping.is_set() and draining is None:
                    draining = asyncio.create_task(self._consumer.drain(timeout_ms=DRAIN_S * 1000))
                batches = await self._consumer.getmany(timeout_ms=200, max_records=100)
                async with self._at_work:
                    await self._count(batches)
        finally:
            await self._producer.stop()

    async def _count(self, batches: dict[TopicPartition, list]) -> None:  # type: ignore[type-arg]
        offsets: dict[TopicPartition, int] = {}
        written: list[Awaitable[object]] = []
        for partition, records in batches.items():
            if (table := self._tables.get(partition)) is None:
                continue  # It was revoked since `getmany`: its next owner gets these records.
            keys = [record.key or b"-" for record in records]
            for key in keys:
                table.counts[key] = table.counts.get(key, 0) + 1
            for key in {*keys}:
                value = str(table.counts[key]).encode()
                written.append(
                    await self._producer.send(f"{partition.topic}-counts", value, key, partition.partition)
                )
            offsets[partition] = records[-1].offset + 1
        if offsets:
            await asyncio.gather(*written)
            with suppress(CommitFailedError):  # The session was lost: the next owner counts them again.
                await self._consumer.commit(offsets)


async def create_counts(bootstrap_servers: str, topic: str) -> None:
    """Create the compacted topic, with as many partitions as the topic has."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        (described,) = await admin.describe_topics([topic])
        counts = NewTopic(
            f"{topic}-counts",
            len(described["partitions"]),
            replication_factor=1,  # 3 in production
            topic_configs={"cleanup.policy": "compact"},
        )
        with suppress(TopicAlreadyExistsError):
            await admin.create_topics([counts])
    finally:
        await admin.close()


async def main() -> None:
    options = parser(__doc__).parse_args()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    try:
        await create_counts(options.bootstrap_server, options.topic)
    except KafkaError as error:
        log.error("%s-counts is not created: %s", options.topic, error)
    consumer = CooperativeAIOKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    counter = Counter(consumer, options.bootstrap_server)
    consumer.subscribe([options.topic], listener=counter)
    await run(consumer, counter.work(options.topic, stopping), stopping, DRAIN_S + 5)
    log.info("stopped")


if __name__ == "__main__":
    start_logging()
    asyncio.run(main())
