"""The records of `__consumer_offsets` from the first to the last, without the offset commits."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["GroupRecords", "read_group_records"]

Row = tuple[int, int, int, bytes, "bytes | None"]

_TOPIC = "__consumer_offsets"
_TIMEOUT_S = 60.0

_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class GroupRecords:
    """What was read.

    Attributes:
        rows: partition, offset, timestamp in microseconds since the epoch, key, value; in this order.
        offset_commits: how many records were left out because they are offset commits.
    """

    rows: tuple[Row, ...]
    offset_commits: int

    def write(self, folder: Path) -> None:
        """As one Parquet file in `folder`, which is made: partition, offset, timestamp, key, value."""
        folder.mkdir(parents=True)
        columns = list(zip(*self.rows, strict=True)) or [()] * len(_SCHEMA)
        arrays = [
            pa.array(column, pa.int64()).cast(kind) if pa.types.is_timestamp(kind) else pa.array(column, kind)
            for column, kind in zip(columns, _SCHEMA.types, strict=True)
        ]
        table = pa.Table.from_arrays(arrays, schema=_SCHEMA)
        pq.write_table(table, folder / "part-0.parquet", compression="zstd", compression_level=19)


def read_group_records(bootstrap: str) -> GroupRecords:
    """All that the topic holds, up to the moment when its end is reached.

    Raises:
        RuntimeError: a partition reports an error, or nothing comes for a minute.
    """
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    # Assigning joins no group, and nothing is committed, so reading leaves no record in what is read.
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
            message: Any  # its annotations say that a message, even one with an error, may have no offset
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
