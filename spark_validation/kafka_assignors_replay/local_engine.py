"""The local engine: records from Parquet on a disk, folded by a few processes of this machine.

The records of a group lie in one of 64 temporary Arrow files, by the hash of its id. A process sorts and
folds one file after the other, the largest first, and reads a few values of it at a time. So the memory is
that of a file's other columns and of a few generations, for a history and a group of any size.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import threading
import types
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_assignors_replay.engine import (
    OBJECTS,
    RECORD_BYTES,
    OnTasks,
    Survey,
    disk_errors,
    only_spark,
    temporary_folder,
)
from kafka_assignors_replay.history.group_fold import FoldWork, SortedRow, fold_sorted
from kafka_assignors_replay.history.records import group_bytes, group_of, is_commit
from kafka_assignors_replay.history.sums import GroupSums
from kafka_assignors_replay.history_files import (
    catalogue_rows,
    read_records,
    record_files,
)
from kafka_assignors_replay.result import ReplayError, ReplayOptions
from kafka_assignors_replay.schemas import SORTED, TABLES, record_batch

_FILES = 64
_WAITING_BYTES = 16 << 20
"""The most bytes of rows that wait in memory until they are written."""

_ROWS = 64
"""How many records of a file are in memory at a time."""

_CONTENTS = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("content", pa.int64())])


class ArrowFiles:
    """Rows in Arrow files, by a hash: `add` them, `close`, then read the files by number."""

    def __init__(self, folder: str, name: str, schema: pa.Schema) -> None:
        self.paths = [f"{folder}/{name}-{number}.arrow" for number in range(_FILES)]
        self._schema = schema
        self._waiting: list[list[tuple[Any, ...]]] = [[] for _ in self.paths]
        self._waiting_bytes = 0
        self._writers: dict[int, pa.RecordBatchStreamWriter] = {}

    def add(self, number: int, row: tuple[Any, ...], size: int = RECORD_BYTES) -> None:
        self._waiting[number % _FILES].append(row)
        self._waiting_bytes += size
        if self._waiting_bytes > _WAITING_BYTES:
            self._write()

    def close(self) -> None:
        self._write()
        for writer in self._writers.values():
            writer.close()

    def numbers(self) -> list[int]:
        """The files that have rows, the largest first."""
        return sorted(self._writers, key=lambda number: -os.path.getsize(self.paths[number]))

    def _write(self) -> None:
        for number, rows in enumerate(self._waiting):
            if rows:
                if number not in self._writers:
                    file = pa.OSFile(self.paths[number], "wb")
                    self._writers[number] = pa.ipc.new_stream(file, self._schema)
                self._writers[number].write_batch(record_batch(rows, self._schema))
                rows.clear()
        self._waiting_bytes = 0


def _read_file(path: str) -> pa.Table:
    """The file as a table, which takes memory only where it is read."""
    with pa.memory_map(path) as source:
        return pa.ipc.open_stream(source).read_all()


def _sorted(path: str) -> Iterator[SortedRow]:
    """The records of a file in the order that a fold needs."""
    table = _read_file(path)
    values, keys = table["value"], table.drop_columns("value").combine_chunks()
    by = pc.SortOptions([(name, "ascending") for name in keys.column_names])
    order = pc.call_function("sort_indices", [keys], by)
    for start in range(0, len(order), _ROWS):
        part = order.slice(start, _ROWS)
        own = (values[place].as_py() for place in part.to_pylist())
        yield from zip(*(column.to_pylist() for column in keys.take(part).columns), own, strict=True)


class LocalEngine:
    """See `engine.Engine`."""

    def __init__(
        self, options: ReplayOptions, damaged: frozenset[Path], on_tasks: OnTasks, folder: str
    ) -> None:
        if (spark_alone := only_spark(options)) is not None:
            raise ReplayError(f"{spark_alone}: give --engine spark")
        assert options.path is not None
        self._options, self._damaged, self._on_tasks, self._folder = options, damaged, on_tasks, folder
        self._place, self._files = record_files(options.path, damaged)
        self._commits = self._others = 0
        self._records = ArrowFiles(folder, "records", SORTED)

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, options: ReplayOptions, damaged: frozenset[Path], on_tasks: OnTasks
    ) -> Iterator[LocalEngine]:
        with temporary_folder() as folder:
            yield cls(options, damaged, on_tasks, folder)

    def survey(self) -> Survey:
        partitions: dict[bytes | None, int] = {}
        torn: set[bytes | None] = set()
        misplaced: Counter[str] = Counter()
        contents = ArrowFiles(self._folder, "contents", _CONTENTS)
        with disk_errors():
            for row in self._read():
                group, partition, offset, key, micros, value = row
                for name, each in (("partition", partition), ("offset", offset)):
                    misplaced[name] += each is None or each < 0
                misplaced["timestamp"] += micros is None
                self._records.add(_hash(group), row, len(value or b"") + RECORD_BYTES)
                if group is not None and partitions.setdefault(group, partition) != partition:
                    torn.add(group)
                contents.add(hash((partition, offset)), (partition, offset, hash((micros, key, value))))
            self._records.close()
            contents.close()
        if any(misplaced.values()):
            return Survey(misplaced=misplaced)
        return Survey(frozenset(torn), frozenset(_collided(contents)))

    def _read(self) -> Iterator[SortedRow]:
        """The records of groups. The survey refuses null for a number."""
        wanted = None if self._options.groups is None else set(map(group_bytes, self._options.groups))
        for rows, others in read_records(self._files, self._place, self._options.topic):
            self._others += others
            for partition, offset, micros, key, value in rows:
                if is_commit(key):
                    self._commits += 1
                elif wanted is None or group_of(key) in wanted:
                    yield group_of(key), partition, offset, key, micros, value

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None:
        assert self._options.path is not None
        return catalogue_rows(self._options.path, self._damaged)

    def run(self, work: FoldWork) -> Iterator[GroupSums]:
        if work.tables and self._options.tables is not None:
            for name in TABLES:
                shutil.rmtree(Path(self._options.tables, name), ignore_errors=True)
                Path(self._options.tables, name).mkdir(parents=True)
        numbers = self._records.numbers()
        self._on_tasks(0, len(numbers))
        tasks = [(self._records.paths[each], self._detail(each), self._options.tables) for each in numbers]
        for done, sums in enumerate(_in_processes(work, tasks), start=1):
            self._on_tasks(done, len(numbers))
            yield from sums

    def details(self, groups: Iterable[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        wanted = set(groups)
        for number in sorted({_hash(group) for group in wanted}):
            with open(self._detail(number), "rb") as file:
                found.update((name, each) for name, each in pickle.load(file).items() if name in wanted)
        return found

    def _detail(self, number: int) -> str:
        return f"{self._folder}/details-{number}"

    def records_of(self, groups: Iterable[str]) -> Iterator[SortedRow]:
        names = set(map(group_bytes, groups))
        for number in sorted({_hash(name) for name in names}):
            yield from (row for row in _sorted(self._records.paths[number]) if row[0] in names)

    def write_tables(self, folder: str) -> None:
        """The processes have written all rows; a table without rows gets a file too."""
        for name, schema in TABLES.items():
            place = Path(folder, name)
            if not any(place.iterdir()):
                pq.write_table(schema.empty_table(), place / "part-00000.parquet")

    def count_commits(self) -> int:
        return self._commits

    def count_other_topics(self) -> int:
        return self._others


def _hash(group: bytes | None) -> int:
    return zlib.crc32(group or b"") % _FILES


def _collided(contents: ArrowFiles) -> Iterator[tuple[int, int]]:
    """The places that have records with different contents."""
    for number in contents.numbers():
        places = _read_file(contents.paths[number]).group_by(["partition", "offset"])
        found = places.aggregate([("content", "min"), ("content", "max")])
        found = found.filter(pc.field("content_min") != pc.field("content_max"))
        yield from zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)


# The processes

_ENDS_S = 10.0
"""How long a process may take to end after the pool is broken."""

_Task = tuple[str, str, str | None]
"""The file of records, the file for details, and the folder for tables."""

_work: FoldWork


def _in_processes(work: FoldWork, tasks: list[_Task]) -> Iterator[list[GroupSums]]:
    """The sums of each task, in any order. `ReplayError` if a process ends: a strategy of a user may end it,
    so that it never runs in this one."""
    others, own = set(multiprocessing.active_children()), set()
    spawn = multiprocessing.get_context("spawn")
    processes = max(1, min(os.cpu_count() or 1, len(tasks)))
    with ProcessPoolExecutor(processes, spawn, _begin, (work,)) as pool:
        try:
            with _alone():
                waiting: set[Future[list[GroupSums]]] = {pool.submit(_fold_file, *task) for task in tasks}
            own = set(multiprocessing.active_children()) - others
            for done in as_completed(waiting):
                waiting.remove(done)
                yield done.result()
        except BrokenProcessPool:
            # The pool hears of it a moment before the process has ended, and ends the others by SIGTERM.
            for process in own:
                process.join(_ENDS_S)
                if process.exitcode == -signal.SIGTERM:
                    work.guard.forget(process.pid)
            why = "a strategy ended it, or there was too little memory"
            raise ReplayError(f"a process that replayed groups ended: {why}") from None
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Processes that start here neither run the main program of this one again, nor take its Ctrl-C."""
    main, handler = sys.modules["__main__"], signal.getsignal(signal.SIGINT)
    in_main_thread = handler is not None and threading.current_thread() is threading.main_thread()
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        if in_main_thread:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        yield
    finally:
        sys.modules["__main__"] = main
        if in_main_thread:
            signal.signal(signal.SIGINT, handler)


def _begin(work: FoldWork) -> None:
    """The start of a process."""
    global _work
    _work = work
    os.dup2(2, 1)  # what a strategy prints does not get into a report on stdout
    gc.freeze()
    gc.set_threshold(OBJECTS)


def _fold_file(records: str, details: str, tables: str | None) -> list[GroupSums]:
    found: list[GroupSums] = []
    packed: dict[bytes | None, bytes] = {}
    with contextlib.closing(_TableWriter(tables, Path(records).stem)) as writer:
        for group, rows, sums, detail in fold_sorted(_sorted(records), _work):
            writer.write(rows)
            if sums is not None and detail is not None:
                found.append(sums)
                packed[group] = detail
    with disk_errors(), open(details, "wb") as file:
        pickle.dump(packed, file)
    return found


class _TableWriter:
    """Writes the rows of one task, a file for each table that has some."""

    def __init__(self, folder: str | None, name: str) -> None:
        self._folder, self._name = folder, name
        self._writers: dict[str, pq.ParquetWriter] = {}

    def write(self, tables: dict[str, list[tuple[Any, ...]]]) -> None:
        for table, rows in tables.items():
            if self._folder is not None:
                if table not in self._writers:
                    place = Path(self._folder, table, f"{self._name}.parquet")
                    self._writers[table] = pq.ParquetWriter(place, TABLES[table])
                self._writers[table].write_batch(record_batch(rows, TABLES[table]))

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()
