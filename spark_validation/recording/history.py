"""What a recording keeps: the records of the groups, and the topics over time."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_replay.archive.run import ArchiveOptions, run_archive
from kafka_assignors_replay.schemas import RAW, TOPICS

__all__ = ["CatalogueLog", "read_group_records", "write_history"]


class CatalogueLog:
    """The descriptions of each topic, each with the time from which it holds."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka
        self.rows: list[dict[str, Any]] = []

    def note(self, topics: Sequence[str]) -> None:
        """Record the current description of these topics; call this directly after a change."""
        now = datetime.now(timezone.utc)
        for described in self._kafka.describe_topics(topics):
            racks = [list(racks) for racks in described.replica_racks]
            row = (described.topic, described.topic_id, now, described.partitions, racks)
            self.rows.append(dict(zip(TOPICS.names, row, strict=True)))


def read_group_records(bootstrap: str) -> pa.Table:
    """The records of `__consumer_offsets` from its beginning to its current end, without offset commits, in
    the columns of `schemas.RAW`; `ArchiveError` if it cannot be read."""
    with tempfile.TemporaryDirectory() as folder:
        options = ArchiveOptions(f"{folder}/archive", bootstrap, once=True, timeout_seconds=60.0)
        run_archive(options, lambda phase, so_far: None, lambda _: None, threading.Event())
        table = pq.read_table(f"{folder}/archive/raw", partitioning=None).select(RAW.names).cast(RAW)
    return table.sort_by([("partition", "ascending"), ("offset", "ascending")])


def write_history(folder: Path, records: pa.Table, catalogue: CatalogueLog) -> None:
    """Write `raw/` and `topics.parquet` to a folder, which may exist."""
    (folder / "raw").mkdir(parents=True)
    pq.write_table(records, folder / "raw" / "part-0.parquet", compression="zstd", compression_level=19)
    topics = pa.Table.from_pylist(catalogue.rows, schema=TOPICS)
    pq.write_table(topics, folder / "topics.parquet", compression="zstd")
