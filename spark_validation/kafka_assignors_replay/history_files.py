"""A history as Parquet of any origin on a disk: its files, the damaged ones, and their rows.

The local engine reads it with this module, as Spark would. Both engines raise the errors of this module, so
they refuse a history with the same texts.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from kafka_assignors.group import InvalidGroupError
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.records import FIRST_MICROS, LAST_MICROS
from kafka_assignors_replay.result import MANIFEST, RAW_NAMES, TOPICS_NAMES, DamagedFile, ReplayError
from kafka_assignors_replay.schemas import RAW, TOPICS

CLUSTER, TOPIC = "cluster_id", "topic"
"""Columns that records may have in addition: the first in an archive, the second from Spark's Kafka source,
where rows of other topics than the offsets topic are left out."""

OPTIONAL = pa.schema([(CLUSTER, pa.string()), (TOPIC, pa.string())])

_BATCH_ROWS = 4_096
"""How many rows of a file are in memory at a time."""

_UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)

WORKER_ENDED = (
    "a process that replayed groups ended: a strategy ended it, or there was too little memory; replay one "
    "strategy at a time to see which"
)


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
        f"{path}: records of two clusters, {one!r} and {other!r}, lie in one place: replay each by itself"
    )


def first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


# Files


def parquet_files(place: Path) -> list[Path]:
    """The files that Spark would read, without hidden files and folders; none without a `*.parquet` file."""
    if place.is_file():
        return [place]
    names = _names_below(place)
    if not any(name.match("*.parquet") for name in names):
        return []
    found = (file for file in names if file.is_file())
    return sorted(
        file for file in found if not any(part[0] in "._" for part in file.relative_to(place).parts)
    )


def _names_below(place: Path) -> list[Path]:
    names, seen = list[Path](), {os.path.realpath(place)}
    for folder, folders, files in os.walk(place, followlinks=True):  # Spark follows links, `rglob` does not.
        names += (Path(folder, name) for name in (*folders, *files))
        # A link may lead back.
        real = {name: os.path.realpath(f"{folder}/{name}") for name in folders}
        folders[:] = [name for name in folders if real[name] not in seen]
        seen.update(real.values())
    return names


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


def table_on_disk(path: str) -> tuple[str, str] | None:
    """The first place of a history on a disk that is a table with a log, and its format."""

    def names_in(place: Path, folder: str) -> list[str]:
        return [file.name for file in place.glob(f"{folder}/*")]

    for name in (*RAW_NAMES, *TOPICS_NAMES, ""):
        place = Path(path, name)
        if (found := table_format(partial(names_in, place))) is not None:
            return str(place), found
    return None


def damaged_files(path: str) -> tuple[DamagedFile, ...]:
    """The files of a history, also of its catalogue, that cannot be read to their end, in order.

    Each file is read once, since a footer says nothing of the pages. `ReplayError` if every file of the
    records is damaged, or the operating system refuses a file.
    """
    _, records = _first(path, (*RAW_NAMES, ""))
    _, topics = _first(path, TOPICS_NAMES)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [*pool.map(_damage, (*records, *topics))]
    damaged = tuple(each for each in found if each is not None)
    if records and all(found[: len(records)]):
        first = damaged[0]
        raise ReplayError(
            f"{path}: every file of the records is damaged; the first is {first.file}: {first.reason}"
        )
    return damaged


def _damage(file: Path) -> DamagedFile | None:
    read = {*RAW.names, *OPTIONAL.names, *TOPICS.names}
    try:
        with _opened(file) as opened:
            for _ in _batches(opened, read.intersection(opened.schema_arrow.names)):
                pass
    except DamagedError as error:
        return DamagedFile(str(file), str(error).removeprefix(f"{file}: "))
    return None


def _first(path: str, names: Sequence[str], damaged: Container[Path] = ()) -> tuple[Path, list[Path]]:
    """The first of these places in a folder that has undamaged files, and these; no files if none has."""
    for place in (Path(path, name) for name in names):
        if files := [file for file in parquet_files(place) if file not in damaged]:
            return place, files
    return Path(path), []


def record_files(path: str, damaged: Container[Path]) -> tuple[str, list[Path]]:
    """The place of the records under `path`, and their files without the `damaged` ones. `ReplayError` if
    there are none."""
    for names in (RAW_NAMES, ("",)):
        place, files = _first(path, names, damaged)
        if files:
            return str(place), files
        if Path(path, MANIFEST).exists():
            raise no_records_yet(path)
    raise no_parquet(path)


# Rows


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[pq.ParquetFile]:
    """The file; errors of the block become a `ReplayError` with its name."""
    try:
        yield pq.ParquetFile(file, coerce_int96_timestamp_unit="us")
    except _UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise ReplayError(f"{file}: cannot be read: {error.strerror or error}") from None
        raise not_parquet(file, first_line(error)) from None


def _batches(opened: pq.ParquetFile, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    for batch in opened.iter_batches(_BATCH_ROWS, columns=list(columns)):
        batch.validate(full=True)  # Text that is not UTF-8 reads without an error.
        yield batch


def read_records(
    files: Sequence[Path], place: str, topic: str
) -> Iterator[tuple[list[tuple[Any, ...]], int]]:
    """The records of the files in batches, offset commits included: rows of `schemas.RAW`; and how many rows
    of other topics lie among them."""
    clusters: set[str] = set()
    for batch in _read(files, RAW):
        rows = batch.num_rows
        if TOPIC in batch.schema.names:
            of_topic = [batch.column(TOPIC).cast(pa.string()), pa.scalar(topic)]
            batch = batch.filter(pc.call_function("equal", of_topic))
        if CLUSTER in batch.schema.names:
            clusters.update(batch.column(CLUSTER).unique().drop_null().to_pylist())
            if len(clusters) > 1:
                raise two_clusters(place, min(clusters), max(clusters))
        yield rows_of(batch, RAW), rows - batch.num_rows


def catalogue_rows(path: str, damaged: Container[Path] = ()) -> tuple[str, list[dict[str, Any]]] | None:
    """The place and the rows of the catalogue beside the records, times in microseconds."""
    place, files = _first(path, TOPICS_NAMES, damaged)
    rows = [row for batch in _read(files, TOPICS) for row in rows_by_name(batch, TOPICS)]
    return (str(place), rows) if files else None


def catalogue_of(found: tuple[str, list[dict[str, Any]]] | None) -> Catalogue:
    """The catalogue in the rows at a place; empty if there are none."""
    place, rows = found or ("", [])
    try:
        return Catalogue.from_rows(rows)
    except InvalidGroupError as error:
        raise ReplayError(f"{place}: {error}") from None


def _read(files: Sequence[Path], wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    for file in files:
        with _opened(file) as opened:
            schema = opened.schema_arrow
            if twice := [each for each in wanted.names if schema.names.count(each) > 1]:
                raise ReplayError(f"{file}: column `{twice[0]}` is there twice; give each column once")
            found = {each.name: each.type for each in schema}
            yield from _batches(opened, columns_of(found, wanted, str(file)))


def columns_of(found: Mapping[str, pa.DataType], wanted: pa.Schema, place: str) -> list[str]:
    """The columns to read of those that were `found`. `ReplayError` for a missing column, or one with values
    of another kind."""
    if missing := [name for name in wanted.names if name not in found]:
        others = ", ".join(sorted(found)) or "none"
        raise ReplayError(f"{place}: column {', '.join(missing)} is missing; there are {others}")
    there = [each for each in (*wanted, *(OPTIONAL if wanted is RAW else ())) if each.name in found]
    for each in there:
        if not _is_like(kind := found[each.name], each.type):
            raise ReplayError(f"{place}: column {each.name} has type {kind}, and should have {each.type}")
    return [each.name for each in there]


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], ...], ...] = (
    (types.is_integer,),
    (types.is_timestamp,),
    (types.is_string, types.is_large_string),
    (types.is_binary, types.is_large_binary, types.is_fixed_size_binary),
    (types.is_list, types.is_large_list),
)
"""The types of each kind: values of one are read as those of another."""


def _is_like(found: pa.DataType, wanted: pa.DataType) -> bool:
    if types.is_dictionary(found):
        found = found.value_type
    if not any(any(is_(found) for is_ in kind) and any(is_(wanted) for is_ in kind) for kind in _KINDS):
        return False
    return not types.is_list(wanted) or _is_like(found.value_type, wanted.value_type)


def rows_by_name(batch: pa.RecordBatch | pa.Table, columns: pa.Schema) -> list[dict[str, Any]]:
    """The rows as `rows_of` gives them, by the names of the columns."""
    return [dict(zip(columns.names, row, strict=True)) for row in rows_of(batch, columns)]


def rows_of(batch: pa.RecordBatch | pa.Table, columns: pa.Schema) -> list[tuple[Any, ...]]:
    """The rows of these columns, times in microseconds, with null for a number that is too large."""
    return list(zip(*(_values(batch.column(each.name), each.type) for each in columns), strict=True))


_IN_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def _values(column: Any, kind: pa.DataType) -> list[Any]:
    if types.is_timestamp(kind):
        # Python has no dates for all times of Parquet, so times stay numbers, within the years 1 to 9999.
        unit = _IN_A_SECOND[column.type.unit]
        micros = (
            each if each is None else each * 1_000_000 // unit for each in column.cast(pa.int64()).to_pylist()
        )
        return [each if each is None else min(max(each, FIRST_MICROS), LAST_MICROS) for each in micros]
    values: list[Any] = column.to_pylist()
    if types.is_integer(kind):
        most = 1 << (kind.bit_width - 1)
        return [each if each is not None and -most <= each < most else None for each in values]
    return values
