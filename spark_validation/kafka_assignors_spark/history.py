"""A history as Parquet: its files on a disk, which of them are damaged, and why Parquet is no history.

Both engines raise the errors of this module, so a history is refused in the same sentences.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_assignors_spark.options import RAW_NAMES, TOPICS_NAMES, ReplayError
from kafka_assignors_spark.result import DamagedFile
from kafka_assignors_spark.schemas import RAW, TOPICS

__all__ = [
    "BATCH_ROWS",
    "DamagedError",
    "all_damaged",
    "damaged_files",
    "missing_columns",
    "no_parquet",
    "no_records_yet",
    "not_parquet",
    "open_parquet",
    "parquet_files",
    "two_clusters",
    "wrong_type",
]


class DamagedError(ReplayError):
    """A file is damaged, or no Parquet at all."""


def no_parquet(path: str) -> ReplayError:
    return ReplayError(
        f"{path}: there is no Parquet here; give a history directory (raw/ and topics.parquet), "
        "or Parquet with the columns partition, offset, timestamp, key and value"
    )


def no_records_yet(path: str) -> ReplayError:
    return ReplayError(f"{path}: this archive has no records yet")


def not_parquet(path: object, why: str) -> ReplayError:
    return DamagedError(f"{path}: cannot be read as Parquet: {why}")


def all_damaged(path: str, first: str, why: str) -> ReplayError:
    return ReplayError(f"{path}: every file of the records is damaged; the first is {first}: {why}")


def two_clusters(path: str, one: object, other: object) -> ReplayError:
    """Offsets of two clusters cannot be compared; each archived record has the id of its cluster."""
    return ReplayError(
        f"{path}: records of two clusters, {one} and {other}, lie in one place: replay each by itself"
    )


def missing_columns(path: str, missing: Iterable[str], found: Iterable[str]) -> ReplayError:
    return ReplayError(
        f"{path}: column {', '.join(missing)} is missing; there are {', '.join(sorted(found)) or 'none'}"
    )


def wrong_type(path: str, column: str, found: str, wanted: str) -> ReplayError:
    """`found` and `wanted` are types by Spark's names."""
    return ReplayError(f"{path}: column {column} has type {found}, and should have {wanted}")


BATCH_ROWS = 4_096
"""The rows of a file that are in memory at a time."""

_UNREADABLE = (pa.ArrowException, OSError)


def parquet_files(place: Path) -> list[Path]:
    """Those that Spark would read: neither hidden ones nor those of a folder that is."""
    if place.is_file():
        return [place]
    found = (file for file in place.rglob("*") if file.is_file())
    return (
        sorted(file for file in found if not any(part[0] in "._" for part in file.relative_to(place).parts))
        if any(place.rglob("*.parquet"))
        else []
    )


def damaged_files(path: str) -> tuple[DamagedFile, ...]:
    """The files of a history, its catalogue among them, that do not read to their end, in order.

    Each file is read once, since a footer says nothing of the pages. `ReplayError` if every file of the
    records is damaged, or the operating system refuses a file.
    """
    records = _first(path, RAW_NAMES) or parquet_files(Path(path))
    damaged = _damaged(records, [*RAW.names, "cluster_id"])
    if records and len(damaged) == len(records):
        raise all_damaged(path, str(damaged[0].file), damaged[0].reason)
    return (*damaged, *_damaged(_first(path, TOPICS_NAMES), TOPICS.names))


def _first(path: str, names: Sequence[str]) -> list[Path]:
    return next((files for name in names if (files := parquet_files(Path(path, name)))), [])


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
        names = [name for name in columns if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(BATCH_ROWS, columns=names):
            batch.validate(full=True)  # Text that is not UTF-8 reads without an error.
    except _UNREADABLE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise _unreadable(file, error) from None
        return _first_line(error)
    return None


@contextlib.contextmanager
def open_parquet(file: Path) -> Iterator[pq.ParquetFile]:
    """The file, open. What pyarrow raises in the block for damaged bytes, also for text that is not UTF-8, is
    a `ReplayError` that names the file.
    """
    try:
        yield _opened(file)
    except (*_UNREADABLE, UnicodeDecodeError) as error:
        raise _unreadable(file, error) from None


def _opened(file: Path) -> pq.ParquetFile:
    return pq.ParquetFile(file, coerce_int96_timestamp_unit="us")


def _unreadable(file: Path, error: Exception) -> ReplayError:
    if isinstance(error, OSError) and error.errno is not None:
        return ReplayError(f"{file}: cannot be read: {error.strerror or error}")
    return not_parquet(file, _first_line(error))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
