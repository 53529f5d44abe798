"""What comes out of a fold, collected: the sums of the groups in memory, their details in a temporary file,
and the rows of tables in Parquet."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from kafka_assignors_replay.folds.group import Detail, Output, read_detail
from kafka_assignors_replay.folds.sums import GroupSums
from kafka_assignors_replay.result import ReplayError
from kafka_assignors_replay.schemas import TABLES, record_batch

_MEMORY_BYTES = 32 << 20
"""The most bytes of details that stay in memory."""

_FILE = "part-00000.parquet"
_ROW_GROUP = 20_000
"""How many rows are collected before they are written."""


class Collected:
    """`add` the outputs of a fold, then take the `sums` by group, those of records that name no group
    (`nameless`), and each `detail`. With `tables`, a folder or a URL that `pyarrow.fs` knows, it writes the
    tables there. `ReplayError` if a file cannot be written."""

    def __init__(self, tables: str | None = None) -> None:
        self.sums: dict[str | None, GroupSums] = {}
        self.nameless: list[GroupSums] = []
        self._details = tempfile.SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115 (see `__exit__`)
        self._places: dict[str, tuple[int, int]] = {}
        self._tables = None if tables is None else _TableWriter(tables)

    def __enter__(self) -> Collected:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._details.close()
        if self._tables is not None:
            self._tables.close()

    def add(self, output: Output) -> None:
        if self._tables is not None:
            self._tables.write(output.tables)
        if (sums := output.sums) is None:
            return
        if sums.group is None:
            self.nameless.append(sums)
            return
        self.sums[sums.group] = sums
        try:
            self._places[sums.group] = (self._details.seek(0, os.SEEK_END), len(output.detail))
            self._details.write(output.detail)
        except OSError as error:
            why = f"the details of groups cannot be written there: {error.strerror}"
            raise ReplayError(f"{tempfile.gettempdir()}: {why}; TMPDIR names another directory") from None

    def finish(self) -> None:
        """Write the rows that remain."""
        if self._tables is not None:
            self._tables.close()
        # There may be several kinds of keys that name no group, and engines return them in any order.
        self.nameless.sort(key=lambda sums: sums.undecodable[:1])
        self.sums = dict(sorted(self.sums.items(), key=lambda item: item[0] or ""))

    def detail(self, group: str, most: int) -> Detail:
        """The details of a group, with at most `most` rows of each series."""
        start, size = self._places[group]
        self._details.seek(start)
        return read_detail(group, self._details.read(size), most)


class _TableWriter:
    """Writes rows of all tables into a folder, where they replace those of an earlier replay."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._waiting: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES}
        self._writers: dict[str, pq.ParquetWriter] = {}
        try:
            files, path = (
                fs.FileSystem.from_uri(folder) if "://" in folder else (fs.LocalFileSystem(), folder)
            )
            for name, schema in TABLES.items():
                files.create_dir(f"{path}/{name}", recursive=True)
                files.delete_dir_contents(f"{path}/{name}")
                self._writers[name] = pq.ParquetWriter(f"{path}/{name}/{_FILE}", schema, filesystem=files)
        except (OSError, pa.ArrowException) as error:
            raise self._failed(error) from None

    def write(self, tables: Mapping[str, Iterable[tuple[Any, ...]]]) -> None:
        for name, rows in tables.items():
            self._waiting[name] += rows
            if len(self._waiting[name]) >= _ROW_GROUP:
                self._flush(name)

    def close(self) -> None:
        """Write the remaining rows. Further calls do nothing."""
        writers, self._writers = self._writers, {}
        try:
            for name, writer in writers.items():
                if rows := self._waiting[name]:
                    writer.write_batch(record_batch(rows, TABLES[name]))
                writer.close()
        except (OSError, pa.ArrowException) as error:
            raise self._failed(error) from None

    def _flush(self, name: str) -> None:
        try:
            self._writers[name].write_batch(record_batch(self._waiting[name], TABLES[name]))
        except (OSError, pa.ArrowException) as error:
            raise self._failed(error) from None
        self._waiting[name] = []

    def _failed(self, error: Exception) -> ReplayError:
        return ReplayError(f"{self._folder}: the tables cannot be written: {' '.join(str(error).split())}")
