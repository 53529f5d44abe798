"""Files of Arrow in which records lie until they are folded, by the hash of their group: 64 files, so that
one of them fits into memory where the history does not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafka_assignors_replay.folds.group import SORTED_BY, SortedRecord
from kafka_assignors_replay.result import ReplayError

FILES = 64

_WAITING_BYTES = 8 << 20
"""The most bytes of rows that wait until they are written together."""

_ROWS = 64
"""How many rows are Python objects at a time: a group's records may be large."""

RECORDS = pa.schema(
    [
        ("group", pa.binary()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("micros", pa.int64()),
        ("value", pa.binary()),
    ]
)
"""The columns of a `SortedRecord`."""


class Files:
    """`add` rows by a number, `close`, and then read the files in `paths`, the largest first. Rows with the
    same number modulo `FILES` lie in one file. `ReplayError` if a file cannot be written."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self._folder, self._schema = Path(folder), schema
        self._folder.mkdir()
        self._writers: dict[int, pa.RecordBatchStreamWriter] = {}
        self._waiting: dict[int, list[tuple[Any, ...]]] = {}
        self._waiting_bytes = 0

    def add(self, number: int, row: tuple[Any, ...], size: int) -> None:
        """`size` is about that of the row, in bytes."""
        self._waiting.setdefault(number % FILES, []).append(row)
        self._waiting_bytes += size
        if self._waiting_bytes > _WAITING_BYTES:
            self._write()

    def close(self) -> None:
        self._write()
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def path(self, number: int) -> str:
        return str(self._folder / f"{number % FILES}")

    @property
    def paths(self) -> list[str]:
        files = sorted(self._folder.iterdir(), key=lambda file: (-file.stat().st_size, file.name))
        return [*map(str, files)]

    def _write(self) -> None:
        try:
            for number, rows in self._waiting.items():
                if number not in self._writers:
                    self._writers[number] = pa.ipc.new_stream(self.path(number), self._schema)
                columns = zip(*rows, strict=True)
                arrays = [pa.array(each, of.type) for each, of in zip(columns, self._schema, strict=True)]
                self._writers[number].write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        except OSError as error:
            why = f"records cannot be written there: {error.strerror or error}"
            raise ReplayError(f"{tempfile.gettempdir()}: {why}; TMPDIR names another directory") from None
        self._waiting = {}
        self._waiting_bytes = 0


def read_file(path: str) -> pa.Table:
    with pa.memory_map(path) as source:
        return pa.ipc.open_stream(source).read_all()


def groups_in(path: str) -> list[bytes | None]:
    found: list[bytes | None] = pc.unique(read_file(path)["group"]).to_pylist()
    return found


def sorted_records(path: str, groups: Iterable[bytes] | None = None) -> Iterator[SortedRecord]:
    """The records in a file of `RECORDS`, all or those of some groups, in the order of a fold."""
    table = read_file(path)
    if groups is not None:
        table = table.filter(pc.is_in(table["group"], pa.array(groups, pa.binary())))
    table = table.combine_chunks()
    columns = table.select(SORTED_BY)
    # Arrow puts nulls last, and calls the option that changes it by another name from release to release.
    for name in ("group", "key"):
        columns = columns.append_column(f"has {name}", pc.is_valid(table[name]))
    by = ("has group", "group", "partition", "offset", "has key", "key", "micros")
    order = pc.sort_indices(columns, sort_keys=[(name, "ascending") for name in by])
    for start in range(0, len(order), _ROWS):
        rows = table.take(order.slice(start, _ROWS))
        yield from map(SortedRecord._make, zip(*(each.to_pylist() for each in rows.columns), strict=True))
