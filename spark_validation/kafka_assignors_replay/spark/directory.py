"""The names in a directory of any file system of Hadoop (local, HDFS, s3a, abfs, gs)."""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession


class Directory:
    """The files under `path`. Names are relative to it, with slashes."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._jvm = cast(Any, spark._jvm)
        root = self._jvm.org.apache.hadoop.fs.Path(path)
        session: Any = spark._jsparkSession
        self._files = root.getFileSystem(session.sessionState().newHadoopConf())
        self.path = str(self._files.makeQualified(root).toString()).rstrip("/")

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._hadoop_path(name)))

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none if there is no such folder."""
        path = self._hadoop_path(folder)
        if not self._files.exists(path):
            return []
        return sorted(str(status.getPath().getName()) for status in self._files.listStatus(path))

    def _hadoop_path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{name}")
