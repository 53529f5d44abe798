"""A directory in any file system of Hadoop: local, HDFS, s3a, abfs, gs.

No file is changed in place. A file is written under another name and moved, so that it is complete or absent;
a crash leaves files only in the staging folder, which no reader opens.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

__all__ = ["STAGING", "Directory", "timestamps_in_microseconds"]

STAGING = "_archive/staging"

_TIMESTAMP_TYPE = "spark.sql.parquet.outputTimestampType"


class Directory:
    """The files under `path`. Names are relative to it, with slashes."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm = cast(Any, spark._jvm)
        root = self._jvm.org.apache.hadoop.fs.Path(path)
        session: Any = spark._jsparkSession
        self._files = root.getFileSystem(session.sessionState().newHadoopConf())
        self.path = str(self._files.makeQualified(root).toString()).rstrip("/")

    def at(self, name: str) -> str:
        """The whole path of a file or folder in it."""
        return f"{self.path}/{name}"

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._hadoop_path(name)))

    def names(self, folder: str) -> list[str]:
        """What is in a folder, in order; nothing if there is no such folder."""
        path = self._hadoop_path(folder)
        if not self._files.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(path))

    def size(self, name: str) -> int:
        """The length of a file in bytes."""
        return int(self._files.getFileStatus(self._hadoop_path(name)).getLen())

    def read(self, name: str) -> str:
        stream = self._files.open(self._hadoop_path(name))
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """A new file, which must not be there yet."""
        staged = f"{STAGING}/{name.replace('/', '-')}"
        stream = self._files.create(self._hadoop_path(staged), True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self.move(staged, name)

    def write_parquet(self, rows: DataFrame, staged: str, *by: str) -> None:
        """`rows`, of one partition, into a folder of the staging folder: a file, or one for each value of
        `by`."""
        writer = rows.write.mode("overwrite").option("compression", "zstd").option("maxRecordsPerFile", 0)
        with timestamps_in_microseconds(rows.sparkSession):
            writer.partitionBy(*by).parquet(self.at(f"{STAGING}/{staged}"))

    def move(self, source: str, target: str) -> None:
        """Give a file the name under which it is found. That name is free."""
        path = self._hadoop_path(target)
        self._files.mkdirs(path.getParent())
        if not self._files.rename(self._hadoop_path(source), path):
            raise OSError(f"cannot move {self.at(source)} to {self.at(target)}")

    @contextlib.contextmanager
    def lock(self, name: str) -> Iterator[bool]:
        """Lock a file of that name for the block; the value is False if another process, or thread, holds it.

        The operating system releases it when the process ends, however that happens. Hadoop has no locks, so
        this one is on the local file system alone; elsewhere the value is always True.
        """
        self._files.mkdirs(self._hadoop_path(name).getParent())
        where = self._files.resolvePath(self._hadoop_path(name).getParent()).toUri()
        if where.getScheme() != "file":
            yield True
            return
        with open(Path(str(where.getPath()), name.rpartition("/")[2]), "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def delete(self, name: str) -> None:
        """A file, or a folder with all that is in it; nothing happens if it is not there."""
        self._files.delete(self._hadoop_path(name), True)

    def _hadoop_path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.at(name))


@contextlib.contextmanager
def timestamps_in_microseconds(spark: SparkSession) -> Iterator[None]:
    """Spark's default, 96 bits, is deprecated in Parquet, and has no time zone for other readers."""
    before = str(spark.conf.get(_TIMESTAMP_TYPE))
    spark.conf.set(_TIMESTAMP_TYPE, "TIMESTAMP_MICROS")
    try:
        yield
    finally:
        spark.conf.set(_TIMESTAMP_TYPE, before)
