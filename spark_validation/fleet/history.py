"""The history of a fleet, written by Spark in the replay's format: `raw/` and `topics.parquet`.

Each task writes the records of some groups; there is no shuffle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kafka_assignors_replay.history.consumer_offsets import group_partition
from kafka_assignors_replay.history.records import to_micros
from kafka_assignors_replay.schemas import RAW, TOPICS, record_batch
from kafka_assignors_replay.spark.spark_session import apply_to_batches
from spark_validation.fleet.life import life
from spark_validation.fleet.profile import START, FleetOptions, generations_of_each, profile_of, topic_of

__all__ = ["catalogue", "raw", "write"]

_RECORDS_IN_A_BATCH = 1_000
_GROUPS_IN_A_TASK = 40
_DAYS_BEFORE = 30


def write(spark: SparkSession, options: FleetOptions, path: str) -> None:
    """Write the history of the fleet to a new directory `path`."""
    folder = path.rstrip("/")
    catalogue(spark, options).coalesce(1).write.parquet(f"{folder}/topics.parquet")
    _write_dated(raw(spark, options), f"{folder}/raw")


def _write_dated(rows: DataFrame, folder: str) -> None:
    rows.withColumn("date", F.to_date("timestamp")).write.partitionBy("date").parquet(folder)


def raw(spark: SparkSession, options: FleetOptions, *, tasks: int | None = None) -> DataFrame:
    """The records of all groups, as `schemas.RAW`."""
    quotas = generations_of_each(options)
    return _of_groups(spark, options, lambda index: _rows(options, index, quotas[index]), RAW, tasks)


def _of_groups(
    spark: SparkSession,
    options: FleetOptions,
    rows_of: Callable[[int], Iterator[tuple[Any, ...]]],
    schema: pa.Schema,
    tasks: int | None = None,
) -> DataFrame:
    """The rows of every group; `rows_of` returns the rows of the group with a given number."""

    def write_down(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows: list[tuple[Any, ...]] = []
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for row in rows_of(index):
                    rows.append(row)
                    if len(rows) == _RECORDS_IN_A_BATCH:
                        yield record_batch(rows, schema)
                        rows = []
        if rows:
            yield record_batch(rows, schema)

    tasks = tasks or max(1, options.groups // _GROUPS_IN_A_TASK)
    return apply_to_batches(spark.range(0, options.groups, 1, tasks), write_down, schema)


def _rows(
    options: FleetOptions, index: int, generations: int
) -> Iterator[tuple[int, int, int, bytes, bytes | None]]:
    profile = profile_of(options, index, generations)
    partition = group_partition(profile.group, options.offsets_partitions)
    start = to_micros(START)
    for record in life(options, profile):
        # A real partition is full of offset commits, which the replay drops. So offsets may have gaps: each
        # millisecond has room for one record of each group, and tasks need no common counter.
        offset = record.at_ms * options.groups + index
        yield partition, offset, start + 1000 * record.at_ms, record.key, record.value


def catalogue(spark: SparkSession, options: FleetOptions) -> DataFrame:
    """The topics over time, as `schemas.TOPICS`."""
    rows = []
    for number in range(options.topics):
        plan = topic_of(options, number)
        since = [(START - timedelta(days=_DAYS_BEFORE), plan.topic)]
        if plan.grows_at_ms is not None:
            since.append((START + timedelta(milliseconds=plan.grows_at_ms), plan.grown))
        for when, topic in since:
            racks = topic.replica_racks and [sorted(each) for each in topic.replica_racks]
            rows.append((topic.name, f"id-{number:05d}", when, topic.partitions, racks))
    return spark.createDataFrame(rows, from_arrow_schema(TOPICS))
