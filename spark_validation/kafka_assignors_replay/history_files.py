"""A history as Parquet of any origin on a disk: its files, the damaged ones, and their rows.

The local engine reads it with this module, as Spark would. Both engines raise the errors of this module, so
they refuse a history with the same texts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_assignors.group import InvalidGroupError
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.records import FIRST_MICROS, LAST_MICROS
from kafka_assignors_replay.result import (
    MANIFEST,
    RAW_NAMES,
    TOPICS_NAMES,
    DamagedFile,
    ReplayError,
)
from kafka_assignors_replay.schemas import RAW, TOPICS

CLUSTER = "cluster_id"
"""The column of an archive that is read in addition, if it exists."""

TOPIC = "topic"
"""The column of Spark's own Kafka source; rows of other topics than the offsets topic are left out."""


class DamagedError(ReplayError):
    """A file is damaged, or is not Parquet."""


def no_parquet(path: str) -> ReplayError:
    return ReplayError(
        f"{path}: there is no Parquet here; give a history directory (raw/ and topics.parquet), "
        "or Parquet with the columns partition, offset, timestamp, key and value"
    )


def no_records_yet(path: str) -> ReplayError:
    return ReplayError(f"{path}: this archive has no records yet")


def not_parquet(path: object, why: str) -> ReplayError:
    return DamagedError(f"{path}: cannot be read as Parquet: {why}")


def two_clusters(path: str, one: object, other: object) -> ReplayError:
    """Offsets of two clusters cannot be compared; each archived record has the id of its cluster."""
    return ReplayError(
        f"{path}: records of two clusters, {one} and {other}, lie in one place: replay each by itself"
    )


def wrong_type(path: str, column: str, found: str, wanted: str) -> ReplayError:
    """`found` and `wanted` are Spark's names of types."""
    return ReplayError(f"{path}: column {column} has type {found}, and should have {wanted}")


BATCH_ROWS = 4_096
"""How many rows of a file are in memory at a time."""

_UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)


def parquet_files(place: Path) -> list[Path]:
    """The files that Spark would read, without hidden files and folders; none without a `*.parquet` file."""
    if place.is_file():
        return [place]
    found = (file for file in place.rglob("*") if file.is_file())
    return (
        sorted(file for file in found if not any(part[0] in "._" for part in file.relative_to(place).parts))
        if any(place.rglob("*.parquet"))
        else []
    )


def table_format(names_in: Callable[[str], Iterable[str]]) -> str | None:
    """Spark's name for the format of a table with a log; None for plain Parquet.

    `names_in` gives the names of the files in a subfolder. Parquet beside a log may belong to earlier
    versions of the table, or be deleted in it, so only the log says which files count.
    """
    if any(name.endswith(".json") for name in names_in("_delta_log")):
        return "delta"
    if any(name.endswith(".metadata.json") for name in names_in("metadata")):
        return "iceberg"
    return None


def _names_in(place: Path, folder: str) -> list[str]:
    return [file.name for file in place.glob(f"{folder}/*")]


def table_on_disk(path: str) -> tuple[str, str] | None:
    """The first place of a history on a disk that is a table with a log, and its format."""
    for name in (*RAW_NAMES, *TOPICS_NAMES, ""):
        place = Path(path, name)
        if (found := table_format(partial(_names_in, place))) is not None:
            return str(place), found
    return None


def damaged_files(path: str) -> tuple[DamagedFile, ...]:
    """The files of a history, also of its catalogue, that cannot be read to their end, in order.

    Each file is read once, since a footer says nothing of the pages. `ReplayError` if every file of the
    records is damaged, or the operating system refuses a file.
    """
    records = _first(path, RAW_NAMES)[1] or parquet_files(Path(path))
    damaged = _damaged(records, [*RAW.names, CLUSTER])
    if records and len(damaged) == len(records):
        first = damaged[0]
        raise ReplayError(
            f"{path}: every file of the records is damaged; the first is {first.file}: {first.reason}"
        )
    return (
        *damaged,
        *_damaged(_first(path, TOPICS_NAMES)[1], TOPICS.names),
    )


def _first(path: str, names: Sequence[str], damaged: Container[Path] = ()) -> tuple[Path, list[Path]]:
    """The first of these places in a folder that has undamaged files, and these; no files if none has."""
    for place in (Path(path, name) for name in names):
        if files := [file for file in parquet_files(place) if file not in damaged]:
            return place, files
    return Path(path), []


def _damaged(files: Sequence[Path], columns: Sequence[str]) -> list[DamagedFile]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        reasons = pool.map(lambda file: _damage(file, columns), files)
        return [
            DamagedFile(str(file), reason)
            for file, reason in zip(files, reasons, strict=True)
            if reason is not None
        ]


def _damage(file: Path, columns: Sequence[str]) -> str | None:
    try:
        opened = _opened(file)
        for _ in _batches(opened, [name for name in columns if name in opened.schema_arrow.names]):
            pass
    except _UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise _unreadable(file, error) from None
        return _first_line(error)
    return None


def _opened(file: Path) -> pq.ParquetFile:
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us")


def _batches(opened: pq.ParquetFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for batch in opened.iter_batches(BATCH_ROWS, columns=columns):
        batch.validate(full=True)  # Text that is not UTF-8 reads without an error.
        yield batch


def _unreadable(file: Path, error: Exception) -> ReplayError:
    if isinstance(error, OSError) and error.errno is not None:
        return ReplayError(f"{file}: cannot be read: {error.strerror or error}")
    return not_parquet(file, _first_line(error))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def record_files(path: str, damaged: Container[Path]) -> tuple[str, list[Path]]:
    """The place of the records under `path`, and their files without the `damaged` ones. `ReplayError` if
    there are none."""
    place, files = _first(path, RAW_NAMES, damaged)
    if files:
        return str(place), files
    if Path(path, MANIFEST).exists():
        raise no_records_yet(path)
    if files := _first(path, ("",), damaged)[1]:
        return path, files
    raise no_parquet(path)


def read_records(files: Sequence[Path], place: str, topic: str) -> Iterator[list[tuple[Any, ...]]]:
    """The records of the files in batches, offset commits included: rows of `schemas.RAW`.

    If a file has a column `TOPIC`, only rows of the `topic` are records.
    """
    clusters: set[str] = set()
    for batch in _read(files, RAW):
        if TOPIC in batch.schema.names:
            if (kind := _name_of(batch.column(TOPIC).type)) != "string":
                raise wrong_type(place, TOPIC, kind, "string")
            batch = batch.filter(_is_of(batch, topic))
        if CLUSTER in batch.schema.names:
            column = batch.column(CLUSTER)
            if (kind := _name_of(column.type)) != "string":
                raise wrong_type(place, CLUSTER, kind, "string")
            clusters.update(each for each in column.unique().to_pylist() if each is not None)
            if len(clusters) > 1:
                raise two_clusters(place, min(clusters), max(clusters))
        yield rows_of(batch, RAW)


def count_other_topics(files: Sequence[Path], topic: str) -> int:
    """How many rows of the files are of other topics."""
    rows = 0
    for file in files:
        opened = _opened(file)
        if TOPIC in opened.schema_arrow.names:
            rows += sum(
                batch.num_rows - batch.filter(_is_of(batch, topic)).num_rows
                for batch in _batches(opened, [TOPIC])
            )
    return rows


def _is_of(batch: pa.RecordBatch, topic: str) -> Any:
    return pc.call_function("equal", [batch.column(TOPIC).cast(pa.string()), pa.scalar(topic)])


def catalogue_rows(path: str, damaged: Container[Path] = ()) -> tuple[str, list[dict[str, Any]]] | None:
    """The place and the rows of the catalogue beside the records, times in microseconds."""
    place, files = _first(path, TOPICS_NAMES, damaged)
    if not files:
        return None
    rows = (row for batch in _read(files, TOPICS, place) for row in rows_of(batch, TOPICS))
    return str(place), [dict(zip(TOPICS.names, row, strict=True)) for row in rows]


def catalogue_of(found: tuple[str, list[dict[str, Any]]] | None) -> Catalogue:
    """The catalogue in the rows at a place; empty if there are none."""
    place, rows = found or ("", [])
    try:
        return Catalogue.from_rows(rows)
    except InvalidGroupError as error:
        raise ReplayError(f"{place}: {error}") from None


def _read(files: Sequence[Path], wanted: pa.Schema, place: Path | None = None) -> Iterator[pa.RecordBatch]:
    """These columns of the files in batches; for records also `CLUSTER`, if a file has it. An error of a
    column names its file, or `place`.

    `ReplayError` with the name of the file for damaged bytes, and for text that is not UTF-8.
    """
    for file in files:
        try:
            opened = _opened(file)
            found = {each.name: _name_of(each.type) for each in opened.schema_arrow}
            require_columns(found, wanted, str(place or file))
            names = [*wanted.names, *({CLUSTER, TOPIC} & found.keys() if wanted is RAW else ())]
            yield from _batches(opened, names)
        except _UNREADABLE as error:
            raise _unreadable(file, error) from None


def require_columns(found: Mapping[str, str], wanted: pa.Schema, place: str) -> None:
    """`ReplayError` for a missing column or a wrong type. `found` has Spark's name of each column's type.

    Integers of all lengths are accepted for each other.
    """
    missing = [name for name in wanted.names if name not in found]
    if missing:
        there = ", ".join(sorted(found)) or "none"
        raise ReplayError(f"{place}: column {', '.join(missing)} is missing; there are {there}")
    for each in wanted:
        is_, should = found[each.name], _name_of(each.type)
        integers = {is_, should} <= {"tinyint", "smallint", "int", "bigint"}
        if is_ != should and not integers:
            raise wrong_type(place, each.name, is_, should)


_NAMES = {
    "bool": "boolean",
    "int8": "tinyint",
    **dict.fromkeys(("int16", "uint8"), "smallint"),
    **dict.fromkeys(("int32", "uint16"), "int"),
    **dict.fromkeys(("int64", "uint32", "uint64"), "bigint"),
    "large_string": "string",
    **dict.fromkeys(("large_binary", "fixed_size_binary"), "binary"),
    **dict.fromkeys(("date32", "date64"), "date"),
    "timestamp": "timestamp",
}
"""Spark's names of Arrow's types, without parameters, where they differ."""


def _name_of(kind: pa.DataType) -> str:
    """Spark's name of the type."""
    if pa.types.is_dictionary(kind):
        return _name_of(kind.value_type)
    if pa.types.is_map(kind):
        return f"map<{_name_of(kind.key_type)},{_name_of(kind.item_type)}>"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{_name_of(kind.value_type)}>"
    return _NAMES.get(str(kind).partition("[")[0], str(kind))


def rows_of(batch: pa.RecordBatch, columns: pa.Schema) -> list[tuple[Any, ...]]:
    """The rows of these columns, times in microseconds, with null for a number that is too large."""
    # Python has no dates for all times of Parquet, so times stay numbers.
    return list(zip(*(_values(batch.column(each.name), each.type) for each in columns), strict=True))


def _values(column: pa.Array, kind: pa.DataType) -> list[Any]:
    if pa.types.is_timestamp(kind):
        return _micros(column)
    return _integers(column, kind.bit_width) if pa.types.is_integer(kind) else column.to_pylist()


def _integers(column: pa.Array, bits: int) -> list[int | None]:
    """The numbers, with None for a number of more than `bits`."""
    most = 1 << (bits - 1)
    return [each if each is not None and -most <= each < most else None for each in column.to_pylist()]


_MICROS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
"""The factor and the divisor that convert each unit to microseconds."""


def _micros(column: pa.Array) -> list[int | None]:
    """The times in microseconds, limited to the years 1 to 9999."""
    times, per = _MICROS[column.type.unit]
    return [
        None if each is None else min(max(each * times // per, FIRST_MICROS), LAST_MICROS)
        for each in column.cast(pa.int64()).to_pylist()
    ]
