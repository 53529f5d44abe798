"""A directory in any file system of Hadoop (local, HDFS, s3a, abfs, gs), and a checkpoint in one.

No file is changed in place. A file is written under another name and then moved, so it is complete or absent.
A crash leaves files only in the staging folder, which no reader opens.

A replay that was killed continues from its checkpoint:

| file | |
|---|---|
| `replay.json` | what is replayed: a directory serves one replay and no other |
| `slice=00000/` … | the slices, as Parquet |
| `slice=00000/_rows.json` … | written last: how many rows the slice has, and a digest of them |

Its files are read as untrusted: none of them can run code, and a file that no replay writes is an error that
names it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_assignors_replay.result import ReplayError
from kafka_assignors_replay.spark.session import SPARK_ERRORS, one_line

STAGING = "_staging"

IN_MICROSECONDS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Spark's default, 96 bits, is deprecated in Parquet, and has no time zone for other readers."""


class Directory:
    """The files under `path`. Names are relative to it, with slashes."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm = cast(Any, spark._jvm)
        root = self._jvm.org.apache.hadoop.fs.Path(path)
        session: Any = spark._jsparkSession
        self._files = root.getFileSystem(session.sessionState().newHadoopConf())
        self.path = str(self._files.makeQualified(root).toString()).rstrip("/")

    def at(self, name: str) -> str:
        return f"{self.path}/{name}"

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._hadoop_path(name)))

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none if there is no such folder."""
        path = self._hadoop_path(folder)
        if not self._files.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(path))

    def size(self, name: str) -> int:
        return int(self._files.getFileStatus(self._hadoop_path(name)).getLen())

    def read(self, name: str) -> str:
        stream = self._files.open(self._hadoop_path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Write a new file, which must not exist."""
        staged = f"{STAGING}/{name.replace('/', '-')}"
        stream = self._files.create(self._hadoop_path(staged), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self.move(staged, name)

    def move(self, source: str, target: str) -> None:
        """Move a file to its final name, which must be free."""
        path = self._hadoop_path(target)
        self._files.mkdirs(path.getParent())
        if not self._files.rename(self._hadoop_path(source), path):
            raise OSError(f"cannot move {self.at(source)} to {self.at(target)}")

    def _hadoop_path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.at(name))


FILE = "file"
"""The column with the file of a row in a checkpoint's slices, for errors."""

_DESCRIPTION, _ROWS = "replay.json", "_rows.json"

_MOST_MORE = 1 << 20
"""The bytes by which another replay's description may exceed twice the length of this one's."""


class Checkpoint:
    """A store of slices that outlives the process.

    `describes` says what is replayed, as `json.dumps` takes it. `ReplayError` if the directory belongs to
    another replay, with the differences, or if a file in it is not one that a replay writes.
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
        """The rows of this slice: the stored ones, or else `rows`, which are stored now."""
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
        # Every row has a part, and none has both a state and sums.
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
        """The object in a file of at most `most` bytes."""
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
