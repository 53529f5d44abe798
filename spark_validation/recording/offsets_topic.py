"""The records of `__consumer_offsets` from the first to the last, without offset commits."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_assignors_replay.archive.run import ArchiveOptions, run_archive
from kafka_assignors_replay.schemas import RAW

__all__ = ["GroupRecords", "read_group_records"]

_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class GroupRecords:
    """The records in the columns of `schemas.RAW`, and the number of offset commits, which are left out."""

    table: pa.Table
    offset_commits: int

    def write(self, folder: Path) -> None:
        """Write Parquet under the new `folder`: `raw/`."""
        Path(folder, "raw").mkdir(parents=True)
        file = Path(folder, "raw", "part-0.parquet")
        pq.write_table(self.table, file, compression="zstd", compression_level=19)


def read_group_records(bootstrap: str) -> GroupRecords:
    """Archive the topic from its beginning to its current end; `ArchiveError` if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        options = ArchiveOptions(f"{folder}/archive", bootstrap, once=True, timeout_seconds=_TIMEOUT_S)
        found = run_archive(options, lambda phase, so_far: None, lambda _: None, threading.Event())
        table = pq.read_table(f"{folder}/archive/raw", partitioning=None).select(RAW.names).cast(RAW)
    in_order = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    return GroupRecords(in_order, found.counts.offset_commits)
