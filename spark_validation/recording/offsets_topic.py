"""The records of `__consumer_offsets` from the first to the last, without offset commits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_assignors_replay.schemas import RAW, record_batch

__all__ = ["GroupRecords", "read_group_records"]

Row = tuple[int, int, int, bytes, "bytes | None"]

_TOPIC = "__consumer_offsets"
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class GroupRecords:
    """The records that were read.

    Attributes:
        rows: partition, offset, timestamp in microseconds since the epoch, key, value; in this order.
        offset_commits: the number of offset commits, which `rows` omits.
    """

    rows: tuple[Row, ...]
    offset_commits: int

    def write(self, folder: Path) -> None:
        """Write Parquet under the new `folder`: `raw/`."""
        Path(folder, "raw").mkdir(parents=True)
        table = pa.Table.from_batches([record_batch(self.rows, RAW)] if self.rows else [], RAW)
        pq.write_table(table, Path(folder, "raw", "part-0.parquet"), compression="zstd", compression_level=19)


def read_group_records(bootstrap: str) -> GroupRecords:
    """Read the topic from its beginning to its current end.

    Raises:
        RuntimeError: a partition reports an error, or no record arrives for a minute.
    """
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    # Assigning joins no group, and there are no commits, so reading adds no records to the topic.
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "not-joined",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    rows: list[Row] = []
    offset_commits = 0
    try:
        left = set(consumer.list_topics(_TOPIC, timeout=_TIMEOUT_S).topics[_TOPIC].partitions)
        consumer.assign([TopicPartition(_TOPIC, partition, 0) for partition in left])
        deadline = time.monotonic() + _TIMEOUT_S
        while left:
            message: Any  # its annotations say that any message may lack an offset
            for message in consumer.consume(1000, timeout=1.0):
                deadline = time.monotonic() + _TIMEOUT_S
                error, key = message.error(), message.key()
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise RuntimeError(f"{_TOPIC}[{message.partition()}]: {error.str()}")
                    left.discard(message.partition())
                elif int.from_bytes(key[:2], "big") <= 1:
                    offset_commits += 1
                else:
                    at_us = message.timestamp()[1] * 1000
                    rows.append((message.partition(), message.offset(), at_us, key, message.value()))
            if time.monotonic() > deadline:
                raise RuntimeError(f"{_TOPIC}: partitions {sorted(left)} are silent for {_TIMEOUT_S:g} s")
    finally:
        consumer.close()
    return GroupRecords(tuple(sorted(rows, key=lambda row: row[:2])), offset_commits)
