"""The topics over time, as the brokers describe them after each change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from compat_tests.support.kafka_cluster import Kafka, TopicDescription
from kafka_assignors_replay.schemas import TOPICS

__all__ = ["CatalogueLog"]


class CatalogueLog:
    """The descriptions of each topic, each with the time from which it holds."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self._entries: list[tuple[datetime, TopicDescription]] = []

    def note(self, topics: Sequence[str]) -> None:
        """Record the current description of these topics; call this directly after a change."""
        now = datetime.now(timezone.utc)
        self._entries.extend((now, described) for described in self._kafka.describe_topics(topics))

    def write(self, file: Path) -> None:
        """Write the Parquet file: topic, topic_id, from, partitions, replica_racks."""
        rows = [
            {
                "topic": described.topic,
                "topic_id": described.topic_id,
                "from": since,
                "partitions": described.partitions,
                "replica_racks": [list(racks) for racks in described.replica_racks],
            }
            for since, described in self._entries
        ]
        pq.write_table(pa.Table.from_pylist(rows, schema=TOPICS), file, compression="zstd")
