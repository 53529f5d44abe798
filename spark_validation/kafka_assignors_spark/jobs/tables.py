"""The tables of a replay as Parquet, for the user's own queries."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_assignors_spark.options import ReplayError
from kafka_assignors_spark.result import TABLES, TableFile

__all__ = ["check_folder", "files_of_groups", "write_tables"]

_WHOLE_GROUPS = ("generations", "causes", "replayed", "faults")
"""The tables of which a group has all its rows in one file or a few."""


def check_folder(folder: str) -> None:
    """Fail early if `folder` cannot take the tables: it is a file, or has files that no replay writes.

    Only Spark can check a URL, when it writes.
    """
    path = Path(folder)
    if "://" in folder or not path.exists():
        return
    if not path.is_dir():
        raise ReplayError(f"{folder}: the tables need a folder, and this is a file")
    others = sorted(each.name for each in path.iterdir() if each.name not in TABLES)
    if others:
        shown = ", ".join(others[:3]) + (", …" if len(others) > 3 else "")
        raise ReplayError(
            f"{folder}: tables of an earlier replay would be replaced here, but it holds something else "
            f"({shown}): name a folder of their own"
        )


def write_tables(folder: str, frames: Mapping[str, DataFrame]) -> None:
    """Write each frame as a folder of Parquet in `folder`, in place of what an earlier replay left there."""
    for name, frame in frames.items():
        frame.write.mode("overwrite").parquet(f"{folder.rstrip('/')}/{name}")


def files_of_groups(spark: SparkSession, folder: str) -> tuple[TableFile, ...]:
    """Which files of the written tables hold the rows of which group."""
    read = (
        spark.read.parquet(f"{folder.rstrip('/')}/{name}").select(
            "group", F.lit(name).alias("table"), F.col("_metadata.file_name").alias("file")
        )
        for name in _WHOLE_GROUPS
    )
    counted = reduce(DataFrame.unionAll, read).groupBy("group", "table", "file").count()
    rows = counted.orderBy("group", "table", "file").collect()
    return tuple(TableFile(row[0], row[1], f"{row[1]}/{row[2]}", row[3]) for row in rows)
