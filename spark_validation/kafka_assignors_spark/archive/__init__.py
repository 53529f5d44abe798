"""The archive: the group records of `__consumer_offsets`, copied to Parquet before the broker compacts them.

    archive.json            whose records these are (`store`)
    raw/date=2026-03-01/    the records, as `schemas.ARCHIVED`: a file for each batch (`writer`)
    committed/date=…/       committed offsets, thinned, as `schemas.COMMITTED`, if they are asked for
    topics/                 the catalogue, as `schemas.TOPICS` (`store`)
    _archive/ledger/        up to where the archive goes, and what was left out (`store`)
    _archive/checkpoint/    Spark's own note of the batch under way
    _archive/staging/       files on their way to their names

Every record is in exactly one file under `raw/`, and every file there is complete, so that any program that
reads Parquet can read it, while it is being written too. `replay` reads the folder as it is.

Here are the values without Spark: what an archiver is asked (`ArchiveOptions`), what it tells, and how it
fails (`ArchiveError`). Counts are records or offsets, times are seconds.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any


class ArchiveError(Exception):
    """An archive that cannot be kept as asked: one line that says what is wrong, where, and what to do."""


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    """What to archive, and where to.

    `path` is a folder of any file system that Hadoop knows. With `once` the archiver ends when it has what
    was in the topic at its start; otherwise it goes on until it is told to stop, and once it has caught up
    waits `interval_seconds` from batch to batch. `max_offsets_per_batch` bounds a batch in offsets, over all
    partitions of the topic. With `committed_offsets_s` the last committed offset of each partition of a group
    in each interval of so many seconds is kept, too.

    `client_config` are librdkafka's properties (security and the like), `timeout_seconds` the longest wait
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
class Counts:
    """What became of the offsets that were read.

    Attributes:
        offsets: how many; the counts up to `missing` add up to them.
        group_records: archived, by the version of their key: 2 is a generation of a classic group, 3 and up
            groups of KIP-848 and other kinds, -1 a key that is too short to have one.
        offset_commits: left out, but for those in `commits_kept`.
        without_key: left out.
        missing: without a record: compacted away or deleted, or the marker of a transaction.
        longest_gap: the most of these in a row.
        commits_kept: offset commits of which the archive keeps the committed offset.
        commits_undecodable: offset commits whose bytes do not follow their schema; counted only where
            committed offsets are kept.
    """

    offsets: int = 0
    group_records: Mapping[int, int] = field(default_factory=dict)
    offset_commits: int = 0
    without_key: int = 0
    missing: int = 0
    longest_gap: int = 0
    commits_kept: int = 0
    commits_undecodable: int = 0

    @property
    def records(self) -> int:
        """How many were archived."""
        return sum(self.group_records.values())

    def __add__(self, other: Counts) -> Counts:
        gap = max(self.longest_gap, other.longest_gap)
        return self._with(other, operator.add, longest_gap=gap)

    def since(self, earlier: Counts) -> Counts:
        """What was counted after `earlier`; the longest gap is that of all."""
        return self._with(earlier, operator.sub, longest_gap=self.longest_gap)

    def _with(self, other: Counts, combine: Callable[[Any, Any], Any], longest_gap: int) -> Counts:
        kinds = combine(Counter(self.group_records), Counter(other.group_records))
        plain = {
            each.name: combine(getattr(self, each.name), getattr(other, each.name))
            for each in fields(Counts)
            if each.name not in ("group_records", "longest_gap")
        }
        return Counts(group_records=dict(sorted(kinds.items())), longest_gap=longest_gap, **plain)


@dataclass(frozen=True, slots=True)
class ArchiveProgress:
    """One report of how far an archiver has come.

    Attributes:
        phase: a short lower-case phrase, such as "archiving".
        counts: of this run.
        batches: written in this run.
        lag_offsets: between the archive and the end of the topic; None while it is not known.
        lag_seconds: the archive has what was in the topic that long ago. It counts from the start of the run,
            so that of a long backlog it says no more than "at least".
    """

    phase: str
    counts: Counts = field(default_factory=Counts)
    batches: int = 0
    lag_offsets: int | None = None
    lag_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """What a run did, and what the archive holds after it.

    Attributes:
        counts: of this run.
        total: since the archive was begun.
        last_timestamp: of the latest record that was read, offset commits among them; None before the first.
        topics_changed: rows that the catalogue got.
        lag_offsets, lag_seconds: as in `ArchiveProgress`.
        complete: whether the archive has all that was in the topic when the run began.
        warnings: what threatens the archive, or is lost already.
    """

    path: str
    cluster_id: str
    topic: str
    partitions: int
    batches: int
    counts: Counts
    total: Counts
    last_timestamp: datetime | None
    topics_changed: int
    lag_offsets: int | None
    lag_seconds: float
    complete: bool
    warnings: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        last = self.last_timestamp
        return {
            **asdict(self),
            "counts": {**asdict(self.counts), "records": self.counts.records},
            "total": {**asdict(self.total), "records": self.total.records},
            "last_timestamp": None if last is None else last.isoformat(),
        }
