"""The archive: the group records of `__consumer_offsets`, copied to Parquet before the broker compacts them.

    archive.json                                     the cluster and the topic of the records
    raw/date=2026-03-01/0000000012-3fa9c1.parquet    a batch of records (`schemas.ARCHIVED`)
    topics/0000000003-3fa9c1.parquet                 changes of the catalogue (`schemas.TOPICS`)

Every record is in exactly one file under `raw/`, and every file there is complete, so any program that reads
Parquet can read the archive, also while it is being written. A file covers all partitions. Its footer has the
`ArchiveState` after the batch: **the newest file is the ledger**, and no other file can disagree with it.

`folder` writes and opens the files, `run` reads the topic. Counts are records or offsets, times are seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

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
    """Counts of the offsets that were read.

    Attributes:
        group_records: records of groups, by the version of their key: 2 is a generation of a classic group, 3
            and up groups of KIP-848 and other kinds, -1 a key that is too short for a version.
        offset_commits: left out.
        without_key: left out.
        missing: offsets without a record: compacted away or deleted, or the marker of a transaction.
        longest_gap: the most missing offsets in a row.
    """

    group_records: dict[int, int] = field(default_factory=dict)
    offset_commits: int = 0
    without_key: int = 0
    missing: int = 0
    longest_gap: int = 0

    @property
    def records(self) -> int:
        """How many records of groups there are."""
        return sum(self.group_records.values())

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
            version = int.from_bytes(key[:2], "big") if len(key) > 1 else -1
            self.group_records[version] = self.group_records.get(version, 0) + 1
            return True
        return False

    def add_gap(self, offsets: int) -> None:
        """Count consecutive offsets without a record."""
        self.missing += offsets
        self.longest_gap = max(self.longest_gap, offsets)

    def since(self, earlier: MessageCounts) -> MessageCounts:
        """The counts since `earlier`, with the longest gap of all."""
        kinds = (
            (kind, count - earlier.group_records.get(kind, 0)) for kind, count in self.group_records.items()
        )
        return MessageCounts(
            dict(sorted((kind, count) for kind, count in kinds if count)),
            self.offset_commits - earlier.offset_commits,
            self.without_key - earlier.without_key,
            self.missing - earlier.missing,
            self.longest_gap,
        )

    def to_json(self) -> dict[str, Any]:
        return {**to_json(self), "records": self.records, "offsets": self.offsets}


class Place(NamedTuple):
    """How far a partition was read: the `next` offset to read, and the offset `after` the last record, which
    is below `next` if no records follow it. The leader `epoch` of that record shows later whether the log
    still has it; -1 if unknown."""

    next: int
    after: int
    epoch: int


@dataclass(slots=True)
class ArchiveState:
    """All that an archiver has to know of the batches before: how many `batches` there are since the archive
    was begun, which is also the number of the file, and the name of the file that it `follows`, "" in the
    first. `counts` and `last_timestamp_ms` are of all offsets that were read."""

    batches: int = 0
    follows: str = ""
    places: dict[int, Place] = field(default_factory=dict)
    counts: MessageCounts = field(default_factory=MessageCounts)
    last_timestamp_ms: int | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> ArchiveState:
        """The inverse; `ValueError`, `TypeError`, `KeyError` or `AttributeError` for any other text."""
        read: dict[str, Any] = json.loads(text)
        counts = read.pop("counts")
        kinds = {int(version): int(count) for version, count in counts.pop("group_records").items()}
        places = {int(number): Place(*map(int, place)) for number, place in read.pop("places").items()}
        return cls(places=places, counts=MessageCounts(kinds, **counts), **read)

    def copy(self) -> ArchiveState:
        counts = replace(self.counts, group_records=dict(self.counts.group_records))
        return replace(self, places=dict(self.places), counts=counts)


@dataclass(frozen=True, slots=True)
class ArchiveProgress:
    """One report of an archiver's progress. `counts` and `batches` are those of this run, and `lag_offsets`
    lie between what was read and the end of the topic; None while that is not known."""

    phase: str
    counts: MessageCounts = field(default_factory=MessageCounts)
    batches: int = 0
    lag_offsets: int | None = None


@dataclass(frozen=True, slots=True)
class ArchiveResult:
    """The result of a run: `counts` are of this run, `total` since the archive was begun.

    `last_timestamp` is that of the latest record, offset commits included. `topics_changed` counts the new
    rows of the catalogue. `complete` says that the archive has all records that were in the topic when the
    run began; `warnings` are risks for the archive, and lost records.
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
    complete: bool
    warnings: tuple[str, ...]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {**to_json(self), "counts": self.counts.to_json(), "total": self.total.to_json()}
