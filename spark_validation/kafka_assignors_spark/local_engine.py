"""The local engine: records from Parquet on a disk, folded by this process and its workers."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow.parquet as pq

from kafka_assignors_spark.engine import RECORD_BYTES, Limits, OnTasks, Survey, only_spark
from kafka_assignors_spark.folds.group import STATE_PLACE, FoldWork, Output, SortedRecord, sort_records
from kafka_assignors_spark.folds.records import group_bytes, group_of, is_commit
from kafka_assignors_spark.history import (
    catalogue_rows,
    committed_files,
    read_commits,
    read_records,
    record_files,
)
from kafka_assignors_spark.local_workers import Task, fold_tasks
from kafka_assignors_spark.result import WHOLE_GROUPS, ReplayError, ReplayOptions, TableFile
from kafka_assignors_spark.schemas import TABLES, record_batch

_FILE = "part-00000.parquet"
_ROW_GROUP = 20_000
"""So many rows are collected before they are written."""


class TableWriter:
    """Writes rows of all tables into a folder, in place of what an earlier replay left there."""

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
        """Write what is left, and say how many rows each group has."""
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


_TASK_BYTES = 1 << 20
"""Small groups share a task up to this size, so that their way to a worker costs little."""

Place = tuple[int, int]


class LocalEngine:
    """See `engine.Engine`. At most a slice of the records is in memory."""

    def __init__(self, options: ReplayOptions, damaged: frozenset[Path], spilled: IO[bytes]) -> None:
        if (spark_alone := only_spark(options)) is not None:
            raise ReplayError(f"{spark_alone}: give --engine spark")
        assert options.path is not None
        self._options = options
        self._damaged = damaged
        self._place, self._files = record_files(options.path, damaged)
        self._committed = committed_files(options.path, damaged)
        self._wanted = None if options.groups is None else set(map(group_bytes, options.groups))
        self._commits = 0
        self._slices = 1
        self._bounds: dict[bytes | None, list[Place]] = {}
        self._kept: list[SortedRecord] | None = []
        self._states: dict[tuple[bytes | None, int], bytes] = {}
        self._spilled = spilled
        self._details: dict[bytes, list[tuple[int, int]]] = {}
        self._work: FoldWork
        self._tables: TableWriter | None = None

    @classmethod
    @contextlib.contextmanager
    def opened(cls, options: ReplayOptions, damaged: frozenset[Path] = frozenset()) -> Iterator[LocalEngine]:
        with tempfile.TemporaryFile() as spilled:
            engine = cls(options, damaged, spilled)
            try:
                yield engine
            finally:
                if engine._tables is not None:
                    engine._tables.close()

    def survey(self, limits: Limits) -> Survey:
        sizes: Counter[bytes | None] = Counter()
        partitions: dict[bytes | None, int] = {}
        torn: set[bytes | None] = set()
        contents: dict[Place, int] = {}
        collided: set[Place] = set()
        misplaced: Counter[str] = Counter()
        total = 0
        self._commits = 0
        for record in self._records(count=True):
            group, _, partition, offset, key, micros, value, *_ = record
            for name, each in (("partition", partition), ("offset", offset)):
                misplaced[name] += each is None or each < 0
            misplaced["timestamp"] += micros is None
            size = len(value or b"") + RECORD_BYTES
            sizes[group] += size
            total += size
            if record.topic is None:
                if partitions.setdefault(group, partition) != partition:
                    torn.add(group)
                content = hash((micros, key, value))
                if contents.setdefault((partition, offset), content) != content:
                    collided.add((partition, offset))
            if self._kept is not None:
                self._kept.append(record)
                if total > limits.slice_bytes:
                    self._kept = None
        if any(misplaced.values()):
            return Survey(misplaced=misplaced)
        self._divide(sizes, limits)
        chunks = {group: len(bounds) + 1 for group, bounds in self._bounds.items()}
        self._slices = limits.slices(total, chunks)
        return Survey(self._slices, chunks, frozenset(torn - {None}), frozenset(collided))

    def _divide(self, sizes: Mapping[bytes | None, int], limits: Limits) -> None:
        """Where the chunks of each giant begin, but for the first."""
        giants = {group for group, size in sizes.items() if size > limits.chunk_bytes}
        if not giants:
            return
        places: dict[bytes | None, list[tuple[Place, int]]] = {group: [] for group in giants}
        for record in self._kept if self._kept is not None else self._records():
            if record.group in giants:
                size = len(record.value or b"") + RECORD_BYTES
                places[record.group].append(((record.partition, record.offset), size))
        for group, sized in places.items():
            before = 0
            bounds: list[Place] = []
            for place, size in sorted(sized):
                if before >= limits.chunk_bytes * (len(bounds) + 1) and (not bounds or place > bounds[-1]):
                    bounds.append(place)
                before += size
            if bounds:
                self._bounds[group] = bounds

    def has_rates(self) -> bool:
        return bool(self._committed)

    def named_topics(self) -> Iterable[str]:
        return ()

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None:
        assert self._options.path is not None
        return catalogue_rows(self._options.path, self._damaged)

    def begin(self, work: FoldWork, describes: Mapping[str, Any]) -> None:
        self._work = work
        if work.tables and self._options.tables is not None:
            self._tables = TableWriter(self._options.tables)

    def run_slice(self, number: int, on_tasks: OnTasks) -> Iterator[tuple[str, bytes]]:
        tasks = self._tasks(self._slice(number))
        on_tasks(0, len(tasks))
        folded = fold_tasks(self._work, tasks, number, os.cpu_count() or 1)
        for done, (_, outputs) in enumerate(folded, start=1):
            on_tasks(done, len(tasks))
            for output in outputs:
                self._keep(output)
                if output.sums is not None:
                    yield "", output.sums

    def _keep(self, output: Output) -> None:
        if output.state is not None:
            self._states[output.group, output.part] = output.state
        if output.detail is not None and output.group is not None:
            place = self._spilled.seek(0, os.SEEK_END), len(output.detail)
            self._spilled.write(output.detail)
            self._details.setdefault(output.group, []).append(place)
        if self._tables is not None:
            self._tables.write(output.tables)

    def details(self, groups: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        found: dict[bytes, list[bytes]] = {}
        for group in groups:
            for place, size in self._details.get(group, ()):
                self._spilled.seek(place)
                found.setdefault(group, []).append(self._spilled.read(size))
        return found

    def records_of(self, groups: Iterable[str]) -> list[SortedRecord]:
        names = set(map(group_bytes, groups))
        records = self._kept if self._kept is not None else self._records()
        return sort_records([record for record in records if record.group in names])

    def write_tables(self, folder: str) -> tuple[TableFile, ...]:
        assert self._tables is not None
        return self._tables.close()

    def count_commits(self) -> int:
        return self._commits

    def _records(self, *, count: bool = False) -> Iterator[SortedRecord]:
        """The records of groups, and the kept commits."""
        yield from self._commit_rows()
        for rows in read_records(self._files, self._place):
            for partition, offset, micros, key, value in rows:
                if is_commit(key):
                    self._commits += count
                    continue
                group = group_of(key)
                if self._wanted is None or group in self._wanted:
                    # A null in place of a number is refused by the survey.
                    yield SortedRecord(group, 0, partition, offset, key, micros, value)

    def _commit_rows(self) -> Iterator[SortedRecord]:
        for rows in read_commits(self._committed):
            for partition, offset, micros, group, topic, *commit in rows:
                key = group_bytes(group or "")
                if self._wanted is None or key in self._wanted:
                    place = (partition, offset, None, micros, None, None)
                    yield SortedRecord(key, 0, *place, topic or "", *commit)

    def _slice(self, number: int) -> list[SortedRecord]:
        """The sorted records of a slice: a giant's for each part of it, after its states."""
        found: list[SortedRecord] = []
        parts = range(1, len(self._work.parts))
        for record in self._kept if self._kept is not None else self._records():
            bounds = self._bounds.get(record.group)
            if bounds is not None:
                if bisect_right(bounds, (record.partition, record.offset)) == number:
                    found += (record._replace(part=part) for part in parts)
            elif zlib.crc32(record.group or b"") % self._slices == number:
                found.append(record)
        for (group, part), state in self._states.items():
            found.append(SortedRecord(group, part, STATE_PLACE, STATE_PLACE, None, 0, state))
        self._states.clear()
        return sort_records(found)

    def _tasks(self, records: list[SortedRecord]) -> list[Task]:
        """The records, divided between groups and parts, the largest tasks first."""
        groups: list[tuple[int, list[SortedRecord]]] = []
        for record in records:
            size = len(record.value or b"") + RECORD_BYTES
            if groups and groups[-1][1][-1][:2] == record[:2]:
                groups[-1][1].append(record)
                groups[-1] = (groups[-1][0] + size, groups[-1][1])
            else:
                groups.append((size, [record]))
        groups.sort(key=lambda each: each[0], reverse=True)
        most = min(_TASK_BYTES, sum(size for size, _ in groups) // (4 * (os.cpu_count() or 1)))
        tasks: list[Task] = []
        room = 0
        for size, of_group in groups:
            if tasks and size <= room:
                tasks[-1] = [*tasks[-1], *of_group]
                room -= size
            else:
                tasks.append(of_group)
                room = most - size
        return tasks
