"""The archive: the group records of `__consumer_offsets`, copied to Parquet before the broker compacts them.

    archive.json            the cluster and the topic of the records (`store`)
    raw/date=2026-03-01/    the records, as `schemas.ARCHIVED`: a file for each batch (`store`)
    committed/date=…/       committed offsets, thinned, as `schemas.COMMITTED`, if they are asked for
    topics/                 the catalogue, as `schemas.TOPICS` (`store`)
    _archive/ledger/        the archived offsets, and the counts of all records (`store`)
    _archive/checkpoint/    Spark's own note of the batch under way
    _archive/staging/       files before they are moved to their names

Every record is in exactly one file under `raw/`, and every file there is complete. So any program that reads
Parquet can read the archive, also while it is being written. `replay` reads the folder as it is.

This module has the options of an archiver (`ArchiveOptions`), its progress, its result, and its error
(`ArchiveError`). Counts are records or offsets, times are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kafka_assignors.arguments import UserError
from kafka_assignors_replay.result import to_json
from kafka_assignors_replay.source.messages import MessageCounts


class ArchiveError(UserError):
    """The archiver cannot run as asked: one line that says what is wrong, where, and what to do."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What to archive, and where.

    `path` is a folder of any file system that Hadoop knows. With `once` the archiver ends when it has all
    records that were in the topic at its start. Otherwise it goes on until it is told to stop; once it has
    caught up, it waits `interval_seconds` between batches. `max_offsets_per_batch` bounds a batch in offsets,
    over all partitions of the topic. With `committed_offsets_s` the archive also keeps the last committed
    offset of each partition of a group in each interval of this many seconds.

    `client_config` has librdkafka's properties (security and the like), `timeout_seconds` is the longest wait
    for a broker. `master` is Spark's; `spark_config` a file of properties for a session that is started.
    """

    path: str
    bootstrap_servers: str
    once: bool = False
    interval_seconds: float = 300.0
    max_offsets_per_batch: int = 1_000_000
    topic: str = "__consumer_offsets"
    client_config: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 10.0
    master: str | None = None
    spark_config: str | None = None
    committed_offsets_s: int | None = None


@dataclass(frozen=True, slots=True)
class ArchiveProgress:
    """One report of an archiver's progress.

    Attributes:
        phase: a short lower-case phrase, such as "archiving".
        counts: of this run.
        batches: written in this run.
        lag_offsets: between the archive and the end of the topic; None while it is not known.
        lag_seconds: the archive has all records that the topic had this long ago. It is measured from the
            start of the run, so for an older backlog it is a lower bound.
    """

    phase: str
    counts: MessageCounts = field(default_factory=MessageCounts)
    batches: int = 0
    lag_offsets: int | None = None
    lag_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """The result of a run, and the state of the archive after it.

    Attributes:
        counts: of this run.
        total: since the archive was begun.
        last_timestamp: of the latest record that was read, offset commits included; None before the first.
        topics_changed: how many rows the catalogue got.
        lag_offsets, lag_seconds: as in `ArchiveProgress`.
        complete: whether the archive has all records that were in the topic when the run began.
        warnings: risks for the archive, and lost records.
    """

    path: str
    cluster_id: str
    topic: str
    partitions: int
    batches: int
    counts: MessageCounts
    total: MessageCounts
    last_timestamp: datetime | None
    topics_changed: int
    lag_offsets: int | None
    lag_seconds: float
    complete: bool
    warnings: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            **to_json(self),
            "counts": {**to_json(self.counts), "records": self.counts.records},
            "total": {**to_json(self.total), "records": self.total.records},
        }
