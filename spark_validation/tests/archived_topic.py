"""A topic that resembles the offsets topic, which a test fills, changes and archives."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
from confluent_kafka import Producer, TopicPartition

from compat_tests.support.group_records import encode_key
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_replay.archive.run import ArchiveOptions, ArchiveResult, run_archive
from kafka_assignors_replay.history.consumer_offsets import OffsetCommitKey
from spark_validation.tests.groups import Log, member

__all__ = ["ArchivedTopic"]

COMMIT = encode_key(OffsetCommitKey("g", "orders", 0))


def history() -> Log:
    log = Log()
    log.generation("g", 1, member("a", gets={"orders": [0, 1]}))
    log.generation("g", 2, member("a", gets={"orders": [0]}), member("b", gets={"orders": [1]}))
    return log


class ArchivedTopic:
    """A topic with three partitions that resembles the offsets topic, and a folder for its archive."""

    def __init__(self, kafka: Kafka, archive: Path) -> None:
        self.kafka, self.archive, self.name = kafka, archive, f"offsets-{time.time_ns()}"
        self.options = ArchiveOptions(
            str(archive), kafka.bootstrap, once=True, topic=self.name, max_offsets_per_batch=20
        )
        self.written: list[tuple[int, bytes, bytes | None]] = []
        self.create()

    def create(self) -> None:
        kafka_takes_every_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
        self.kafka.create_topic(self.name, partitions=3, settings=kafka_takes_every_time)
        # A producer's sequence numbers belong to one topic id, so each topic gets its own producer.
        self._producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "enable.idempotence": True})

    def delete_records(self, partition: int, before: int) -> None:
        """Delete the records of a partition before the offset `before`."""
        with self.kafka.admin(f"delete records of {self.name}") as admin:
            for future in admin.delete_records([TopicPartition(self.name, partition, before)]).values():
                future.result(HANG_S)

    def write_history(self, timestamps_ms: Sequence[int]) -> None:
        """Write a record of a group at each of these times to partition 0."""
        records = itertools.cycle(history().records)
        for timestamp_ms, record in zip(timestamps_ms, records, strict=False):
            where = {"partition": 0, "timestamp": timestamp_ms}
            self._producer.produce(self.name, record["value"], record["key"], **where)
        assert self._producer.flush(HANG_S) == 0

    def write(self, records: int) -> None:
        """Write this many records to each partition: a quarter are records of a group, the rest commits."""
        generations = [(record["key"], record["value"]) for record in history().records]
        for number in range(records):
            for partition in range(3):
                key, value = generations[number // 4 % 2] if number % 4 == 0 else (COMMIT, b"")
                self._producer.produce(self.name, value, key, partition=partition)
                if key != COMMIT:
                    self.written.append((partition, key, value))
        assert self._producer.flush(HANG_S) == 0

    def run(self, **options: object) -> ArchiveResult:
        return run_archive(
            replace(self.options, **options),  # type: ignore[arg-type]
            lambda phase, so_far: None,
            lambda _: None,
            threading.Event(),
        )

    def archived(self) -> list[tuple[int, bytes, bytes | None]]:
        rows = pq.read_table(self.archive / "raw").to_pylist()
        rows.sort(key=lambda row: (row["partition"], row["offset"]))
        return [(row["partition"], row["key"], row["value"]) for row in rows]

    def expected(self) -> list[tuple[int, bytes, bytes | None]]:
        return sorted(self.written, key=lambda row: row[0])
