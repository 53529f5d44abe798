"""The records of a history on a real broker, in a topic that resembles the offsets topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

from compat_tests.support.kafka_cluster import Kafka

__all__ = ["SETTINGS", "archived", "publish"]

SETTINGS = {"log.retention.ms": -1}
"""Broker settings: the records are as old as their history, so the broker must not delete them."""

_ROWS = 10_000

Record = tuple[int, bytes | None, bytes | None]


def publish(kafka: Kafka, topic: str, history: Path) -> list[Record]:
    """Write the records of `history` to a new topic, and return them.

    The records keep their partitions, timestamps and order of offsets.
    """
    table = pq.read_table(history / "raw", columns=["partition", "offset", "timestamp", "key", "value"])
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    kafka.create_topic(topic, partitions=1 + max(table["partition"].to_pylist()))
    failed: list[Any] = []

    def delivered(error: Any, _: object) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 50})
    written: list[Record] = []
    for batch in table.to_batches(_ROWS):
        millis = batch.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
        keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
        partitions = batch.column("partition").to_pylist()
        for partition, when, key, value in zip(partitions, millis.to_pylist(), keys, values, strict=True):
            producer.produce(topic, value, key, partition, on_delivery=delivered, timestamp=when)
            written.append((partition, key, value))
        if producer.flush(120):
            raise RuntimeError(f"{topic}: the broker does not take the records")
    if failed:
        raise RuntimeError(f"{topic}: {len(failed)} records were refused, first: {failed[0]}")
    return written


def archived(archive: Path) -> list[Record]:
    """The records of an archive, by partition and offset."""
    table = pq.read_table(archive / "raw", columns=["partition", "offset", "key", "value"])
    rows = table.sort_by([("partition", "ascending"), ("offset", "ascending")]).to_pylist()
    return [(row["partition"], row["key"], row["value"]) for row in rows]
