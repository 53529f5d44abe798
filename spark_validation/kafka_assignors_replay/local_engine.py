"""The local engine: records from Parquet on a disk, folded by a few processes of this machine.

The records of a group lie in one of 64 temporary Arrow files, by the hash of its id. A process sorts and
folds one file after the other, the largest first, and reads a few values of it at a time. So the memory is
that of a file's other columns and of a few generations, for a history and a group of any size.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
import threading
import types
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_assignors_replay.engine import OBJECTS, OnTasks, Survey, disk_errors, temporary_folder
from kafka_assignors_replay.history.group_fold import FoldWork, SortedRow, fold_sorted
from kafka_assignors_replay.history.records import group_bytes, group_of, is_commit
from kafka_assignors_replay.history.sums import GroupSums
from kafka_assignors_replay.history_files import WORKER_ENDED, catalogue_rows, read_records, record_files
from kafka_assignors_replay.result import ReplayError, ReplayOptions
from kafka_assignors_replay.schemas import RAW, SORTED, record_batch

_FILES = 64

_ROWS = 64
"""How many records of a file are in memory at a time."""

_CONTENTS = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), ("content", pa.int64())])


class ArrowFiles:
    """Rows in Arrow files by number: `write` them, `close`, then read the files that are `written`."""

    def __init__(self, folder: str, name: str, schema: pa.Schema) -> None:
        self.paths = [f"{folder}/{name}-{number}.arrow" for number in range(_FILES)]
        self._schema = schema
        self._writers: dict[int, pa.RecordBatchStreamWriter] = {}

    def write(self, rows: Mapping[int, list[tuple[Any, ...]]]) -> None:
        """Write the rows of each file."""
        for number, own in rows.items():
            if number not in self._writers:
                file = pa.OSFile(self.paths[number], "wb")
                self._writers[number] = pa.ipc.new_stream(file, self._schema)
            self._writers[number].write_batch(record_batch(own, self._schema))

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()

    def written(self) -> list[str]:
        """The paths of the files that have rows, the largest first."""
        return sorted((self.paths[number] for number in self._writers), key=os.path.getsize, reverse=True)


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
        self, options: ReplayOptions, damaged: frozenset[Path], on_tasks: OnTasks, closing: ExitStack
    ) -> None:
        self._options, self._damaged, self._on_tasks = options, damaged, on_tasks
        self._path = options.path or ""
        self._folder = closing.enter_context(temporary_folder())
        self._records = ArrowFiles(self._folder, "records", SORTED)

    def survey(self) -> Survey:
        wanted = None if self._options.groups is None else set(map(group_bytes, self._options.groups))
        contents = ArrowFiles(self._folder, "contents", _CONTENTS)
        partitions: dict[bytes, int | None] = {}
        torn: set[bytes | None] = set()
        counts: Counter[str] = Counter()
        place, files = record_files(self._path, self._damaged)
        with disk_errors():
            for rows, others in read_records(files, place, self._options.topic):
                counts["others"] += others
                records, places = defaultdict(list), defaultdict(list)
                for partition, offset, micros, key, value in rows:
                    if is_commit(key):
                        counts["commits"] += 1
                        continue
                    group = group_of(key)
                    if wanted is not None and group not in wanted:
                        continue
                    counts["partition"] += partition is None or partition < 0
                    counts["offset"] += offset is None or offset < 0
                    counts["timestamp"] += micros is None
                    records[_hash(group)].append((group, partition, offset, key, micros, value))
                    if group is not None and partitions.setdefault(group, partition) != partition:
                        torn.add(group)
                    content = partition, offset, hash((micros, key, value))
                    places[hash((partition, offset)) % _FILES].append(content)
                self._records.write(records)
                contents.write(places)
            self._records.close()
            contents.close()
        misplaced = {name: counts[name] for name in RAW.names if counts[name]}
        collided = frozenset(_collided(contents))
        return Survey(frozenset(torn), collided, misplaced, counts["commits"], counts["others"])

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None:
        return catalogue_rows(self._path, self._damaged)

    def run(self, work: FoldWork) -> Iterator[GroupSums]:
        files = self._records.written()
        self._on_tasks(0, len(files))
        for done, sums in enumerate(_in_processes(work, files), start=1):
            self._on_tasks(done, len(files))
            yield from sums

    def records_of(self, groups: Iterable[bytes]) -> Iterator[SortedRow]:
        wanted = set(groups)
        for number in sorted(set(map(_hash, wanted))):
            yield from (row for row in _sorted(self._records.paths[number]) if row[0] in wanted)


def _hash(group: bytes | None) -> int:
    return zlib.crc32(group or b"") % _FILES


def _collided(contents: ArrowFiles) -> Iterator[tuple[int, int]]:
    """The places that have records with different contents."""
    for path in contents.written():
        places = _read_file(path).group_by(["partition", "offset"])
        found = places.aggregate([("content", "min"), ("content", "max")])
        found = found.filter(pc.field("content_min") != pc.field("content_max"))
        yield from zip(found["partition"].to_pylist(), found["offset"].to_pylist(), strict=True)


# The processes

_work: FoldWork


def _in_processes(work: FoldWork, files: list[str]) -> Iterator[list[GroupSums]]:
    """The sums of the groups of each file of records, in any order.

    `ReplayError` if a process ends: a strategy of a user may end it, so that it never runs in this one.
    """
    others = set(multiprocessing.active_children())
    spawn = multiprocessing.get_context("spawn")
    processes = max(1, min(os.cpu_count() or 1, len(files)))
    with ProcessPoolExecutor(processes, spawn, _begin, (work,)) as pool:
        try:
            with _alone():
                folded = [pool.submit(_fold_file, each) for each in files]
            # The pool watches the processes that it had when a call came, so the last one needs another.
            pool.submit(int)
            for done in as_completed(folded):
                yield done.result()
        except BrokenProcessPool:
            raise ReplayError(WORKER_ENDED) from None
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.kill()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _alone() -> Iterator[None]:
    """Processes that start here neither run the main program of this one again, nor take its Ctrl-C, which
    this one takes when the block ends."""
    main, mask = sys.modules["__main__"], signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _begin(work: FoldWork) -> None:
    """The start of a process."""
    global _work
    _work = work
    os.dup2(2, 1)  # what a strategy prints does not get into a report on stdout
    gc.freeze()
    gc.set_threshold(OBJECTS)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End with a parent that is killed: the pool would wait for its work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _fold_file(records: str) -> list[GroupSums]:
    return [*fold_sorted(_sorted(records), _work)]
