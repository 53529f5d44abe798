"""The local engine: records from Parquet on a disk, folded by this process and its workers."""

from __future__ import annotations

import contextlib
import os
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_assignors_replay.engine import OnTasks, Survey, only_spark
from kafka_assignors_replay.folds.group import FoldWork, Output, SortedRecord
from kafka_assignors_replay.folds.records import group_bytes, group_of, is_commit
from kafka_assignors_replay.history import catalogue_rows, count_other_topics, read_records, record_files
from kafka_assignors_replay.local.files import RECORDS, Files, read_file, sorted_records
from kafka_assignors_replay.local.workers import fold_files
from kafka_assignors_replay.result import ReplayError, ReplayOptions

_RECORD_BYTES = 100
"""The bytes that a record counts in addition to its value."""

_CONTENTS = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("content", pa.int64())])


class LocalEngine:
    """See `engine.Engine`. The survey writes the records into `Files`, by the hash of their group; a file is
    a task."""

    def __init__(self, options: ReplayOptions, damaged: frozenset[Path], folder: str) -> None:
        if (spark_alone := only_spark(options)) is not None:
            raise ReplayError(f"{spark_alone}: give --engine spark")
        assert options.path is not None
        self._path, self._topic = options.path, options.topic
        self._damaged = damaged
        self._place, self._files = record_files(options.path, damaged)
        self._wanted = None if options.groups is None else set(map(group_bytes, options.groups))
        self._commits = 0
        self._folder = folder
        self._records = Files(f"{folder}/records", RECORDS)

    @classmethod
    @contextlib.contextmanager
    def opened(cls, options: ReplayOptions, damaged: frozenset[Path] = frozenset()) -> Iterator[LocalEngine]:
        with tempfile.TemporaryDirectory(prefix="kafka-assignors-") as folder:
            yield cls(options, damaged, folder)

    def survey(self) -> Survey:
        partitions: dict[bytes | None, int] = {}
        torn: set[bytes | None] = set()
        misplaced: Counter[str] = Counter()
        contents = Files(f"{self._folder}/contents", _CONTENTS)
        for record in self._read():
            group, partition, offset, key, micros, value = record
            for name, each in (("partition", partition), ("offset", offset)):
                misplaced[name] += each is None or each < 0
            misplaced["timestamp"] += micros is None
            if any(misplaced.values()):
                continue
            self._records.add(_hash(group), record, len(value or b"") + _RECORD_BYTES)
            if partitions.setdefault(group, partition) != partition:
                torn.add(group)
            place = partition, offset
            contents.add(hash(place), (*place, hash((micros, key, value))), _RECORD_BYTES)
        if any(misplaced.values()):
            return Survey(misplaced=misplaced)
        self._records.close()
        contents.close()
        return Survey(frozenset(torn - {None}), frozenset(_collided(contents.paths)))

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None:
        return catalogue_rows(self._path, self._damaged)

    def fold(self, work: FoldWork, on_tasks: OnTasks) -> Iterator[Output]:
        return fold_files(work, self._records.paths, os.cpu_count() or 1, on_tasks)

    def records_of(self, groups: Iterable[str]) -> list[SortedRecord]:
        names = sorted(map(group_bytes, groups))
        files = sorted({self._records.path(_hash(name)) for name in names})
        found = [record for file in files for record in sorted_records(file, names)]
        return sorted(found, key=lambda record: record.group or b"")

    def count_commits(self) -> int:
        return self._commits

    def count_other_topics(self) -> int:
        return count_other_topics(self._files, self._topic)

    def _read(self) -> Iterator[tuple[Any, ...]]:
        """The records of groups, with the columns of `SortedRecord`."""
        for rows in read_records(self._files, self._place, self._topic):
            for partition, offset, micros, key, value in rows:
                if is_commit(key):
                    self._commits += 1
                    continue
                group = group_of(key)
                if self._wanted is None or group in self._wanted:
                    yield group, partition, offset, key, micros, value


def _hash(group: bytes | None) -> int:
    return zlib.crc32(group or b"")


def _collided(files: Iterable[str]) -> Iterator[tuple[int, int]]:
    """The places that have records with different contents."""
    for file in files:
        places = read_file(file).group_by(["partition", "offset"])
        found = places.aggregate([("content", "min"), ("content", "max")])
        differ = found.filter(pc.not_equal(found["content_min"], found["content_max"]))
        yield from zip(differ["partition"].to_pylist(), differ["offset"].to_pylist(), strict=True)
