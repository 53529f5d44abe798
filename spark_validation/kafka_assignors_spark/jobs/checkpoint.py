"""A directory that a replay which was killed goes on from.

| file | |
|---|---|
| `replay.json` | what is replayed: a directory serves one replay and no other |
| `slice=00000/` … | the slices that are done, as Parquet, with the `_SUCCESS` that Spark writes last |

It may be anywhere that Hadoop can write. Slices hold the state of giant groups as Python pickles: whoever can
write to the directory can run code in the replay that goes on from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kafka_assignors_spark.jobs.replay import PIECE
from kafka_assignors_spark.options import ReplayError

__all__ = ["Checkpoint"]

_DESCRIPTION = "replay.json"


class Checkpoint:
    """A shelf of slices (see `slices`) that outlives the process.

    `describes` says what is replayed, in terms of what `json.dumps` takes. `ReplayError` if the directory is
    that of another replay, naming what differs.
    """

    def __init__(self, spark: SparkSession, path: str, describes: Mapping[str, Any]) -> None:
        self._spark = spark
        self._path = path.rstrip("/")
        text = json.dumps(describes, indent=1, sort_keys=True)
        if not self._exists(_DESCRIPTION):
            self._write(_DESCRIPTION, text)
            return
        before = json.loads(
            "\n".join(row[0] for row in spark.read.text(f"{self._path}/{_DESCRIPTION}").collect())
        )
        now = json.loads(text)
        if before != now:
            differing = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
            raise ReplayError(
                f"{self._path}: this is the checkpoint of another replay: {', '.join(differing)} "
                f"{'differs' if len(differing) == 1 else 'differ'}; remove it, or give another directory"
            )

    def keep(self, number: int, rows: DataFrame) -> DataFrame:
        """The rows of this slice: those that are here, or else `rows`, written now."""
        name = f"slice={number:05d}"
        if not self._exists(f"{name}/_SUCCESS"):
            rows.write.mode("overwrite").parquet(f"{self._path}/{name}")
        return self._spark.read.schema(PIECE).parquet(f"{self._path}/{name}")

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
