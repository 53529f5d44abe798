"""Why Parquet is no history that can be replayed: the same sentences from both engines."""

from __future__ import annotations

from collections.abc import Iterable

from kafka_assignors_spark.options import ReplayError

__all__ = [
    "DamagedError",
    "all_damaged",
    "missing_columns",
    "no_parquet",
    "no_records_yet",
    "not_parquet",
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
