"""The archive: the group records of `__consumer_offsets`, copied to Parquet before the broker compacts them.

    archive.json                                     the cluster and the topic of the records
    raw/date=2026-03-01/0000000012-3fa9c1.parquet    a batch of records (`schemas.ARCHIVED`)
    topics/0000000003-3fa9c1.parquet                 changes of the catalogue (`schemas.TOPICS`)

Every record is in exactly one file under `raw/`, and every file there is complete, so any program that reads
Parquet can read the archive, also while it is being written. A file covers all partitions. Its footer has the
places after the batch: **the newest file is the ledger**, and no other file can disagree with it.

`folder` writes and opens the files, `run` reads the topic. Counts are records or offsets, times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kafka_assignors.arguments import UserError
from kafka_assignors_replay.history.records import is_commit
from kafka_assignors_replay.result import to_json


class ArchiveError(UserError):
    """The archiver cannot run as asked: one line that says what is wrong, where, and what to do."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What to archive, and where: `path` is a folder, or a URL that pyarrow knows.

    With `once` the archiver ends when it has all records that were in the topic at its start. Otherwise it
    goes on until it is told to stop, and writes a file every `interval_seconds`, if there are new records.
    `max_offsets_per_batch` bounds a file in offsets of all partitions together. `client_config` has
    librdkafka's properties, `timeout_seconds` is the longest wait for a broker.
    """

    path: str
    bootstrap_servers: str
    once: bool = False
    interval_seconds: float = 300.0
    max_offsets_per_batch: int = 1_000_000
    topic: str = "__consumer_offsets"
    client_config: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 10.0


@dataclass(slots=True)
class MessageCounts:
    """Counts of the offsets that were read: `records` of groups, `offset_commits` and records `without_key`,
    which are left out, and `missing` ones, without a record: it was compacted away or deleted, or is the
    marker of a transaction."""

    records: int = 0
    offset_commits: int = 0
    without_key: int = 0
    missing: int = 0

    @property
    def offsets(self) -> int:
        return self.records + self.offset_commits + self.without_key + self.missing

    def add(self, key: bytes | None) -> bool:
        """Count a record with this key; returns whether it is one of a group."""
        if key is None:
            self.without_key += 1
        elif is_commit(key):
            self.offset_commits += 1
        else:
            self.records += 1
            return True
        return False


@dataclass(frozen=True, slots=True)
class ArchiveProgress:
    """One report of an archiver's progress. `lag_offsets` lie between what was read and the end of the topic;
    None while that is not known."""

    phase: str
    counts: MessageCounts = field(default_factory=MessageCounts)
    batches: int = 0
    lag_offsets: int | None = None


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """The result of a run.

    `last_timestamp` is that of the latest record that it read, offset commits included. `topics_changed`
    counts the new rows of the catalogue. `complete` says that the archive has all records that were in the
    topic at the last look: with `once`, when the run began. `warnings` are risks for the archive, and lost
    records.
    """

    path: str
    cluster_id: str
    topic: str
    partitions: int
    batches: int
    counts: MessageCounts
    last_timestamp: datetime | None
    topics_changed: int
    lag_offsets: int
    complete: bool
    warnings: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        result: dict[str, Any] = to_json(self)
        result["counts"]["offsets"] = self.counts.offsets
        return result
