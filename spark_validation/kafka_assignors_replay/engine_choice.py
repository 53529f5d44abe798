"""Which engine runs a replay, and why."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path

from kafka_assignors_replay.engine import Engine, OnTasks, only_spark
from kafka_assignors_replay.result import ReplayError, ReplayOptions

ENGINES = ("spark", "local")

LOCAL_BYTES = 256 << 20
"""The local engine is chosen for a history of at most this many bytes of Parquet on a local disk."""


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    why: str


def choose_engine(options: ReplayOptions, wanted: str | None) -> Choice:
    """The engine that the user wants, or else the one that fits the history."""
    if wanted not in (None, *ENGINES):
        raise ReplayError(f"there is no engine {wanted!r}: known are {', '.join(ENGINES)}")
    if wanted is not None:
        return Choice(wanted, "as asked for")
    spark_alone = only_spark(options)
    if importlib.util.find_spec("pyspark") is None:
        if spark_alone is not None:
            raise ReplayError(f"{spark_alone}, which is not installed: pip install 'kafka-assignors[spark]'")
        return Choice("local", "PySpark is not installed")
    if options.master is not None or options.spark_config is not None:
        return Choice("spark", "Spark's master or its properties are given")
    if "PYSPARK_GATEWAY_PORT" in os.environ or _has_session():
        return Choice("spark", "this process runs under spark-submit or has a Spark session")
    if spark_alone is not None:
        return Choice("spark", spark_alone)
    assert options.path is not None
    size = _bytes_of(Path(options.path))
    mib, most = max(1, size >> 20), LOCAL_BYTES >> 20
    if size <= LOCAL_BYTES:
        return Choice("local", f"the history has {mib} MiB, and up to {most} MiB need no Spark")
    return Choice("spark", f"the history has {mib} MiB, more than {most} MiB")


def _has_session() -> bool:
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def _bytes_of(path: Path) -> int:
    files = path.rglob("*.parquet") if path.is_dir() else (path,)
    return sum(file.stat().st_size for file in files if file.is_file())


def open_engine(
    name: str, options: ReplayOptions, damaged: frozenset[Path], on_tasks: OnTasks
) -> contextlib.AbstractContextManager[Engine]:
    """The engine of this name for the time of a block. It leaves out the `damaged` files, and calls
    `on_tasks` as tasks end."""
    if name == "local":
        from kafka_assignors_replay.local_engine import LocalEngine

        return LocalEngine.opened(options, damaged, on_tasks)
    from kafka_assignors_replay.spark.spark_engine import SparkEngine

    return SparkEngine.opened(options, damaged, on_tasks)
