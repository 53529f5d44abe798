"""A consumer with state: how many records each key has had, in a table that another member can restore.

    $ python -m examples.kafka_python.stateful --topic orders --group totals

Each count is written to a compacted topic, `orders-counts`, to the partition with the number of the record's.
Start it in several terminals: a partition moves when its next owner has restored its table, and its records
go on meanwhile. SIGTERM drains: the other members restore what this one has before it goes. See
docs/stateful.md.
"""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import suppress
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from examples.command_line import parser, start_logging
from examples.kafka_python.plain import CLOSE_MS, commit
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

log = logging.getLogger("examples.kafka_python")

DRAIN_MS = 20_000
"""The time for the others to restore what this member has. `terminationGracePeriodSeconds` is longer."""


class Table:
    """The counts of one partition, up to an offset of the compacted topic."""

    def __init__(self, partition: TopicPartition) -> None:
        self.counts: dict[bytes, int] = {}
        self._source = TopicPartition(f"{partition.topic}-counts", partition.partition)
        self._next_offset = 0

    def catch_up(self, bootstrap_servers: str, cancelled: threading.Event | None = None) -> None:
        """Read what is there beyond the offset, with a consumer of its own."""
        consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, enable_auto_commit=False)
        try:
            consumer.assign([self._source])
            end = consumer.end_offsets([self._source])[self._source]
            consumer.seek(self._source, self._next_offset)
            while consumer.position(self._source) < end and not (cancelled and cancelled.is_set()):
                for records in consumer.poll(timeout_ms=1000).values():
                    self.counts.update((record.key, int(record.value)) for record in records)
            self._next_offset = consumer.position(self._source)
        finally:
            consumer.close(timeout_ms=CLOSE_MS)


class Counter(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Counts records, and has a table for each partition that it owns or warms."""

    def __init__(self, consumer: CooperativeKafkaConsumer, bootstrap_servers: str) -> None:
        self._consumer = consumer
        self._servers = bootstrap_servers
        self._producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
        self._tables: dict[TopicPartition, Table] = {}

    def on_partitions_warming(self, partitions: set[TopicPartition], cancelled: threading.Event) -> None:
        for partition in partitions:
            table = Table(partition)
            table.catch_up(self._servers, cancelled)
            self._tables[partition] = table

    def on_warming_cancelled(self, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            self._tables.pop(partition, None)

    def on_partitions_assigned(self, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            was_warm = partition in self._tables
            # What is warm lacks what the last owner has written since.
            self._tables.setdefault(partition, Table(partition)).catch_up(self._servers)
            log.info("%s-%d: %s", *partition, "was warm" if was_warm else "restored")

    def on_partitions_revoked(self, partitions: set[TopicPartition]) -> None:
        self.on_warming_cancelled(partitions)  # All that was polled is counted, written and committed.

    def on_partitions_lost(self, partitions: set[TopicPartition]) -> None:
        self.on_warming_cancelled(partitions)

    def work(self, signals: list[int]) -> None:
        """Count, write and commit a batch, if there is one."""
        batches = self._consumer.poll(timeout_ms=200, max_records=100)
        written = [self._write(partition, records) for partition, records in batches.items()]
        for each in (future for futures in written for future in futures):
            each.get()
        if batches:
            commit(self._consumer, signals)

    def _write(self, partition: TopicPartition, records: list[Any]) -> list[Any]:
        counts = self._tables[partition].counts
        keys = [record.key or b"-" for record in records]
        for key in keys:
            counts[key] = counts.get(key, 0) + 1
        topic, number = f"{partition.topic}-counts", partition.partition
        return [
            self._producer.send(topic, str(counts[key]).encode(), key, partition=number) for key in {*keys}
        ]

    def close(self) -> None:
        self._producer.close(timeout=CLOSE_MS / 1000)


def create_counts(bootstrap_servers: str, topic: str) -> None:
    """Create the compacted topic, with as many partitions as the topic has."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers)
    try:
        (described,) = admin.describe_topics([topic])
        counts = NewTopic(
            f"{topic}-counts",
            len(described["partitions"]),
            replication_factor=1,  # 3 in production
            topic_configs={"cleanup.policy": "compact"},
        )
        with suppress(TopicAlreadyExistsError):
            admin.create_topics([counts])
    finally:
        admin.close()


def main() -> None:
    options = parser(__doc__).parse_args()
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    try:
        create_counts(options.bootstrap_server, options.topic)
    except KafkaError as error:
        log.error("%s-counts is not created: %s", options.topic, error)
    consumer = CooperativeKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    counter = Counter(consumer, options.bootstrap_server)
    consumer.subscribe([options.topic], listener=counter)
    draining: threading.Thread | None = None
    try:
        while draining is None or draining.is_alive():
            if signals and draining is None:  # Beside the loop, which goes on.
                draining = threading.Thread(target=consumer.drain, kwargs={"timeout_ms": DRAIN_MS})
                draining.start()
            counter.work(signals)
    finally:
        consumer.close(timeout_ms=CLOSE_MS)
        counter.close()
    log.info("stopped")


if __name__ == "__main__":
    start_logging()
    main()
