"""The local engine: records from Parquet on a disk, folded by this process and its workers."""

from __future__ import annotations

import contextlib
import os
import shutil
import zlib
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_assignors_replay.engine import RECORD_BYTES, Limits, OnTasks, Survey, only_spark
from kafka_assignors_replay.folds.group import FoldWork, Output, SortedRecord, sort_records
from kafka_assignors_replay.folds.records import group_bytes, group_of, is_commit
from kafka_assignors_replay.history import (
    BATCH_ROWS,
    catalogue_rows,
    count_other_topics,
    read_records,
    record_files,
)
from kafka_assignors_replay.local.buckets import Buckets
from kafka_assignors_replay.local.workers import Task, fold_tasks
from kafka_assignors_replay.result import WHOLE_GROUPS, ReplayError, ReplayOptions, TableFile
from kafka_assignors_replay.schemas import TABLES, record_batch

_FILE = "part-00000.parquet"
_ROW_GROUP = 20_000
"""How many rows are collected before they are written."""


class TableWriter:
    """Writes rows of all tables into a folder, where they replace those of an earlier replay."""

    def __init__(self, folder: str) -> None:
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        self._rows: Counter[tuple[str, str]] = Counter()  # by group and table
        for name, schema in TABLES.items():
            place = Path(folder, name)
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            self._writers[name] = pq.ParquetWriter(place / _FILE, schema)

    def write(self, tables: Mapping[str, list[tuple[Any, ...]]]) -> None:
        for name, rows in tables.items():
            if name in WHOLE_GROUPS:
                self._rows.update((row[0], name) for row in rows)
            self._waiting[name] += rows
            if len(self._waiting[name]) >= _ROW_GROUP:
                self._flush(name)

    def close(self) -> tuple[TableFile, ...]:
        """Write the remaining rows; returns how many rows each group has."""
        for name, writer in self._writers.items():
            self._flush(name)
            writer.close()
        self._writers = {}
        return tuple(
            TableFile(group, table, f"{table}/{_FILE}", rows)
            for (group, table), rows in sorted(self._rows.items())
        )

    def _flush(self, name: str) -> None:
        if rows := self._waiting[name]:
            self._writers[name].write_batch(record_batch(rows, TABLES[name]))
            self._waiting[name] = []


_BUCKETS = 256
"""The number of buckets into which groups are divided, by the hash of their ids."""

Place = tuple[int, int]
Bucket = tuple[int, int]
"""The hash of its groups, and a number among the buckets of this hash; 0 before a large one is divided."""


class LocalEngine:
    """See `engine.Engine`. The records lie in `Buckets`. A bucket is a task: the records of some groups, or a
    chunk of a giant. No bucket is larger than a chunk, which ends with the record that fills it."""

    def __init__(
        self, options: ReplayOptions, damaged: frozenset[Path], closing: contextlib.ExitStack
    ) -> None:
        if (spark_alone := only_spark(options)) is not None:
            raise ReplayError(f"{spark_alone}: give --engine spark")
        assert options.path is not None
        self._options = options
        self._damaged = damaged
        self._place, self._files = record_files(options.path, damaged)
        self._wanted = None if options.groups is None else set(map(group_bytes, options.groups))
        self._commits = 0
        self._records: Buckets[Bucket] = closing.enter_context(contextlib.closing(Buckets()))
        self._chunks: dict[bytes | None, list[Bucket]] = {}  # of each giant
        self._states: dict[tuple[bytes | None, int], bytes] = {}
        self._details: Buckets[bytes] = closing.enter_context(contextlib.closing(Buckets()))
        self._work: FoldWork
        self._tables: TableWriter | None = None

    @classmethod
    @contextlib.contextmanager
    def opened(cls, options: ReplayOptions, damaged: frozenset[Path] = frozenset()) -> Iterator[LocalEngine]:
        with contextlib.ExitStack() as closing:
            engine = cls(options, damaged, closing)
            try:
                yield engine
            finally:
                if engine._tables is not None:
                    engine._tables.close()

    def survey(self, limits: Limits) -> Survey:
        sizes: Counter[bytes | None] = Counter()
        partitions: dict[bytes | None, int] = {}
        torn: set[bytes | None] = set()
        misplaced: Counter[str] = Counter()
        self._commits = 0
        with contextlib.closing(Buckets[int]()) as contents:
            for record in self._read():
                group, _, partition, offset, key, micros, value, _ = record
                for name, each in (("partition", partition), ("offset", offset)):
                    misplaced[name] += each is None or each < 0
                misplaced["timestamp"] += micros is None
                size = len(value or b"") + RECORD_BYTES
                sizes[group] += size
                self._records.add((_hash(group), 0), record, size)
                if partitions.setdefault(group, partition) != partition:
                    torn.add(group)
                content = partition, offset, hash((micros, key, value))
                contents.add(hash(content[:2]) % _BUCKETS, content, RECORD_BYTES)
            if any(misplaced.values()):
                return Survey(misplaced=misplaced)
            collided = frozenset(_collided(contents))
        for bucket in [each for each, size in self._records.sizes.items() if size > limits.chunk_bytes]:
            self._divide(bucket, sizes, limits.chunk_bytes)
        chunks = {group: len(buckets) for group, buckets in self._chunks.items()}
        return Survey(max([1, *chunks.values()]), chunks, frozenset(torn - {None}), collided)

    def _divide(self, bucket: Bucket, sizes: Mapping[bytes | None, int], most: int) -> None:
        """Put the records of a bucket that has more than `most` bytes into others that do not."""
        places: dict[bytes | None, _Places] = {}
        number = of_last = 0
        others: dict[bytes | None, Bucket] = {}
        for group, _, partition, offset, _, _, value, *_ in self._records.rows(bucket):
            if sizes[group] > most:
                size = len(value or b"") + RECORD_BYTES
                places.setdefault(group, _Places()).add(partition, offset, size)
            elif group not in others:
                if number == 0 or of_last + sizes[group] > most:
                    number, of_last = number + 1, 0
                of_last += sizes[group]
                others[group] = bucket[0], number
        bounds = {group: each.bounds(most) for group, each in places.items()}
        for group, each in bounds.items():
            self._chunks[group] = [(bucket[0], number + chunk) for chunk in range(1, len(each) + 2)]
            number += len(each) + 1
        for row in self._records.rows(bucket):
            group, _, partition, offset, _, _, value, *_ = row
            size = len(value or b"") + RECORD_BYTES
            if group in others:
                self._records.add(others[group], row, size)
            else:
                chunk = bisect_right(bounds[group], (partition, offset))
                self._records.add(self._chunks[group][chunk], row, size)
        self._records.remove(bucket)

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None:
        assert self._options.path is not None
        return catalogue_rows(self._options.path, self._damaged)

    def begin(self, work: FoldWork) -> None:
        self._work = work
        if work.tables and self._options.tables is not None:
            self._tables = TableWriter(self._options.tables)

    def run_slice(self, number: int, on_tasks: OnTasks) -> Iterator[bytes]:
        tasks = self._tasks(number)
        on_tasks(0, len(tasks))
        folded = fold_tasks(self._work, tasks, number, os.cpu_count() or 1)
        for done, outputs in enumerate(folded, start=1):
            on_tasks(done, len(tasks))
            for output in outputs:
                self._keep(output)
                if output.sums is not None:
                    yield output.sums

    def _tasks(self, number: int) -> list[Task]:
        """The tasks of a slice, the largest first: a chunk of each giant for each part of the work on it, and
        in the first slice all other groups."""
        of_giants = {bucket for buckets in self._chunks.values() for bucket in buckets}
        whole = [] if number else [each for each in self._records.sizes if each not in of_giants]
        tasks = [Task(self._records, bucket) for bucket in whole]
        for group, buckets in self._chunks.items():
            for part in range(1, len(self._work.parts) if number < len(buckets) else 0):
                state = self._states.pop((group, part), None)
                tasks.append(Task(self._records, buckets[number], part, state))
        return sorted(tasks, key=lambda task: self._records.sizes[task.bucket], reverse=True)

    def _keep(self, output: Output) -> None:
        if output.state is not None:
            self._states[output.group, output.part] = output.state
        if output.detail is not None and output.group is not None:
            self._details.add(output.group, (output.detail,), len(output.detail))
        if self._tables is not None:
            self._tables.write(output.tables)

    def details(self, groups: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        return {group: [detail for (detail,) in self._details.rows(group)] for group in groups}

    def records_of(self, groups: Iterable[str]) -> list[SortedRecord]:
        names = set(map(group_bytes, groups))
        hashes = set(map(_hash, names))
        buckets = [bucket for bucket in self._records.sizes if bucket[0] in hashes]
        rows = (row for bucket in buckets for row in self._records.rows(bucket))
        return sort_records([SortedRecord._make(row) for row in rows if row[0] in names])

    def write_tables(self, folder: str) -> tuple[TableFile, ...]:
        assert self._tables is not None
        return self._tables.close()

    def count_commits(self) -> int:
        return self._commits

    def count_other_topics(self) -> int:
        return count_other_topics(self._files, self._options.topic)

    def _read(self) -> Iterator[tuple[Any, ...]]:
        """The records of groups, with the columns of `SortedRecord`."""
        for rows in read_records(self._files, self._place, self._options.topic):
            for partition, offset, micros, key, value in rows:
                if is_commit(key):
                    self._commits += 1
                    continue
                group = group_of(key)
                if self._wanted is None or group in self._wanted:
                    # The survey refuses null for a number.
                    yield group, 0, partition, offset, key, micros, value, None


class _Places:
    """The places and sizes of a giant's records."""

    def __init__(self) -> None:
        self._columns = {name: array("q") for name in ("partition", "offset", "size")}

    def add(self, *values: int) -> None:
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(value)

    def bounds(self, most: int) -> list[Place]:
        """The places where the second and later chunks begin; each chunk has about `most` bytes."""
        before = 0
        bounds: list[Place] = []
        by = [("partition", "ascending"), ("offset", "ascending")]
        for batch in pa.table(self._columns).sort_by(by).to_batches(BATCH_ROWS):
            for *place, size in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                here = place[0], place[1]
                if before >= most * (len(bounds) + 1) and (not bounds or here > bounds[-1]):
                    bounds.append(here)
                before += size
        return bounds


def _hash(group: bytes | None) -> int:
    return zlib.crc32(group or b"") % _BUCKETS


def _collided(contents: Buckets[int]) -> Iterator[Place]:
    """The places that have records with different contents."""
    for bucket in contents.sizes:
        found: dict[Place, int] = {}
        for partition, offset, content in contents.rows(bucket):
            if found.setdefault((partition, offset), content) != content:
                yield partition, offset
