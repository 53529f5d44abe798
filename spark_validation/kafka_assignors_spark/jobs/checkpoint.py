"""A directory from which a replay that was killed continues.

| file | |
|---|---|
| `replay.json` | what is replayed: a directory serves one replay and no other |
| `slice=00000/` … | the slices, as Parquet |
| `slice=00000/_rows.json` … | written last: how many rows the slice has, and a digest of them |

It may be anywhere that Hadoop can write. Its files are read as untrusted: none of them can run code, and a
file that no replay writes is refused by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_assignors_spark.jobs.directory import Directory
from kafka_assignors_spark.jobs.session import SPARK_ERRORS, one_line
from kafka_assignors_spark.options import ReplayError

__all__ = ["FILE", "Checkpoint", "InMemorySlices", "SliceStore"]

FILE = "file"
"""The column with the file of a row, in the slices of a store that keeps files: errors name it."""

_DESCRIPTION, _ROWS = "replay.json", "_rows.json"

_MOST_MORE = 1 << 20
"""How much longer than twice the description of this replay that of another may be, in bytes."""


class SliceStore(Protocol):
    """A place that keeps slices."""

    def keep(self, number: int, rows: DataFrame) -> DataFrame:
        """The rows of this slice, computed now if they are not there yet."""
        ...


class InMemorySlices:
    """A store in Spark's memory and on its disks, which lasts as long as this process."""

    def __init__(self, keep: Callable[[DataFrame], DataFrame]) -> None:
        self._keep = keep

    def keep(self, number: int, rows: DataFrame) -> DataFrame:
        return self._keep(rows).withColumn(FILE, F.lit(""))


class Checkpoint:
    """A store of slices that outlives the process.

    `describes` says what is replayed, in terms of what `json.dumps` takes. `ReplayError` if the directory is
    that of another replay, naming what differs, or if a file in it is not what a replay writes.
    """

    def __init__(self, spark: SparkSession, path: str, describes: Mapping[str, Any]) -> None:
        self._spark = spark
        self._folder = Directory(spark, path)
        text = json.dumps(describes, indent=1, sort_keys=True)
        if not self._folder.exists(_DESCRIPTION):
            self._folder.write(_DESCRIPTION, text)
            return
        before = self._json(_DESCRIPTION, 2 * len(text.encode()) + _MOST_MORE)
        now = json.loads(text)
        if before != now:
            differing = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
            raise ReplayError(
                f"{self._folder.path}: this is the checkpoint of another replay: {', '.join(differing)} "
                f"{'differs' if len(differing) == 1 else 'differ'}; remove it, or give another directory"
            )

    def keep(self, number: int, rows: DataFrame) -> DataFrame:
        """The rows of this slice: those that are here, or else `rows`, written now."""
        name = f"slice={number:05d}"
        marker = f"{name}/{_ROWS}"
        done = self._folder.exists(marker)
        if not done:
            rows.write.mode("overwrite").parquet(self._folder.at(name))
        kept = self._spark.read.schema(rows.schema).parquet(self._folder.at(name))
        sums = self._sums(name, kept)
        if not done:
            self._folder.write(marker, json.dumps(sums))
        elif self._json(marker, _MOST_MORE) != sums:
            raise self._refused(name, "these are not the rows that were written")
        return kept.withColumn(FILE, F.input_file_name())

    def _sums(self, name: str, kept: DataFrame) -> dict[str, int]:
        """The number of rows and a digest of them. The computation reads the whole slice, so it finds every
        damaged file."""
        # A table's row names no part of its own in a state or sums.
        wrong = F.col("part").isNull() | (F.col("state").isNotNull() & F.col("sums").isNotNull())
        sums = kept.agg(
            F.count("*").alias("rows"),
            F.coalesce(F.bit_xor(F.xxhash64(*kept.columns)), F.lit(0)).alias("digest"),
            F.count(F.when(wrong, 1)).alias("wrong"),
        )
        try:
            row = sums.collect()[0].asDict()
        except SPARK_ERRORS as error:
            raise self._refused(name, f"cannot be read: {one_line(error)}") from error
        if wrong_rows := row.pop("wrong"):
            raise self._refused(name, f"{wrong_rows} rows are not of this replay")
        return row

    def _refused(self, name: str, problem: str) -> ReplayError:
        return ReplayError(
            f"{self._folder.path}/{name}: {problem}; remove {self._folder.path} and start again"
        )

    def _json(self, name: str, most: int) -> dict[str, Any]:
        """The object in a file of at most so many bytes."""
        try:
            if self._folder.size(name) > most:
                raise self._refused(name, f"is larger than {most} bytes")
            text = self._folder.read(name)
        except SPARK_ERRORS as error:
            raise self._refused(name, f"cannot be read: {one_line(error)}") from error
        try:
            read = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._refused(name, f"is not JSON: {error}") from None
        if not isinstance(read, dict):
            raise self._refused(name, "is not a JSON object")
        return read
