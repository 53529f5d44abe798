"""A directory that a replay which was killed goes on from.

| file | |
|---|---|
| `replay.json` | what is replayed: a directory serves one replay and no other |
| `slice=00000/` … | the slices that are done, as Parquet, with the `_SUCCESS` that Spark writes last |

It may be anywhere that Hadoop can write. Its files are read as untrusted: none of them can run code, and one
that is damaged, or that holds what no replay writes, is an error that names it. (A figure in a slice is taken
as it is. A program that can write to the directory can change figures.)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_assignors_spark.replay import PIECE
from kafka_assignors_spark.result import RECORDED, ReplayError
from kafka_assignors_spark.spark_errors import SPARK_ERRORS, one_line

__all__ = ["Checkpoint"]

_DESCRIPTION = "replay.json"

_NEVER_NULL = (
    "group",
    "lane",
    "offset",
    "generation",
    "timestamp",
    "strategy",
    "mode",
    "generations",
    "members",
)
"""Columns of `PIECE` that every rebalance has."""

_MOST_MORE = 1 << 20
"""How much longer than twice the description of this replay that of another may be, in bytes."""


class Checkpoint:
    """A shelf of slices (see `slices`) that outlives the process.

    `describes` says what is replayed, in terms of what `json.dumps` takes: among it the `modes`, and the
    `strategies` with their versions. `ReplayError` if the directory is that of another replay, naming what
    differs, or if a file in it is not what a replay writes.
    """

    def __init__(self, spark: SparkSession, path: str, describes: Mapping[str, Any]) -> None:
        self._spark = spark
        self._path = path.rstrip("/")
        self._strategies = [RECORDED, *(name for name, _ in describes["strategies"])]
        self._modes = describes["modes"]
        text = json.dumps(describes, indent=1, sort_keys=True)
        if not self._exists(_DESCRIPTION):
            self._write(_DESCRIPTION, text)
            return
        before, now = self._description(len(text.encode())), json.loads(text)
        if before != now:
            differing = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
            raise ReplayError(
                f"{self._path}: this is the checkpoint of another replay: {', '.join(differing)} "
                f"{'differs' if len(differing) == 1 else 'differ'}; remove it, or give another directory"
            )

    def keep(self, number: int, rows: DataFrame) -> DataFrame:
        """The rows of this slice: those that are here, or else `rows`, written now."""
        name = f"slice={number:05d}"
        there = self._exists(f"{name}/_SUCCESS")
        if not there:
            rows.write.mode("overwrite").parquet(f"{self._path}/{name}")
        kept = self._spark.read.schema(PIECE).parquet(f"{self._path}/{name}")
        if there:
            self._check(name, kept)
        return kept

    def _check(self, name: str, kept: DataFrame) -> None:
        """Read all of a slice that an earlier run wrote, so that what is wrong with it shows here."""
        of_rebalance = reduce(or_, (F.col(column).isNull() for column in _NEVER_NULL))
        unknown = ~F.col("strategy").isin(self._strategies) | ~F.col("mode").isin(self._modes)
        of_state = F.col("group").isNull() | F.col("lane").isNull()
        wrong = F.when(F.col("state").isNull(), of_rebalance | unknown).otherwise(of_state)
        everything = F.max(F.xxhash64(*kept.columns))
        try:
            row = kept.agg(F.sum(wrong.cast("long")).alias("wrong"), everything).collect()[0]
        except SPARK_ERRORS as error:
            raise self._refused(name, f"cannot be read: {one_line(error)}") from error
        if row["wrong"]:
            raise self._refused(name, f"{row['wrong']} rows are not of this replay")

    def _refused(self, name: str, problem: str) -> ReplayError:
        return ReplayError(f"{self._path}/{name}: {problem}; remove {self._path} and start again")

    def _description(self, length: int) -> dict[str, Any]:
        """What the directory says is replayed; `length` is that of what is replayed now."""
        most = 2 * length + _MOST_MORE
        files, path = self._file(_DESCRIPTION)
        try:
            if files.getFileStatus(path).getLen() > most:
                raise self._refused(_DESCRIPTION, f"is larger than {most} bytes")
            text = "\n".join(row[0] for row in self._spark.read.text(str(path)).collect())
        except SPARK_ERRORS as error:
            raise self._refused(_DESCRIPTION, f"cannot be read: {one_line(error)}") from error
        try:
            described = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise self._refused(_DESCRIPTION, f"is not JSON: {error}") from None
        if not isinstance(described, dict):
            raise self._refused(_DESCRIPTION, "is not the description of a replay")
        return described

    # Hadoop's file system, through the JVM: the directory may be anywhere.

    def _file(self, name: str) -> tuple[Any, Any]:
        jvm: Any = self._spark._jvm
        context: Any = self._spark._jsc
        path = jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}")
        return path.getFileSystem(context.hadoopConfiguration()), path

    def _exists(self, name: str) -> bool:
        files, path = self._file(name)
        return bool(files.exists(path))

    def _write(self, name: str, text: str) -> None:
        """As a whole: under another name first."""
        files, path = self._file(name)
        _, part = self._file(f"_{name}.part")
        stream = files.create(part, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if not files.rename(part, path):
            raise ReplayError(f"{self._path}: cannot write {name}")
