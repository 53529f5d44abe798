"""Reads a replay's records and catalogue: from Parquet of any origin, or from a live cluster."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegralType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from kafka_assignors_spark.history_errors import (
    missing_columns,
    no_parquet,
    no_records_yet,
    two_clusters,
    wrong_type,
)
from kafka_assignors_spark.jobs.arrow_frames import spark_schema, with_micros
from kafka_assignors_spark.jobs.directory import Directory
from kafka_assignors_spark.jobs.parquet import CLUSTER, read_parquet
from kafka_assignors_spark.options import MANIFEST, RAW_NAMES, TOPICS_NAMES, ReplayError, ReplayOptions
from kafka_assignors_spark.schemas import RAW, TOPICS
from kafka_assignors_spark.source import FORMAT, GroupRecordsReader, GroupRecordsSource, SourceOptions
from kafka_assignors_spark.source.cluster import SourceError
from kafka_assignors_spark.timestamps import FIRST_MICROS, LAST_MICROS

__all__ = ["live_records", "recorded_catalogue", "recorded_records"]


def recorded_records(spark: SparkSession, path: str, damaged: Collection[Path] = ()) -> DataFrame:
    """The raw records under `path`: a history directory, or Parquet itself, without the `damaged` files.
    `ReplayError` if neither."""
    for name in RAW_NAMES:
        raw = read_parquet(spark, f"{path.rstrip('/')}/{name}", RAW, damaged)
        if raw is not None:
            _require_one_cluster(raw, f"{path.rstrip('/')}/{name}")
            return _conforming(raw, RAW, f"{path.rstrip('/')}/{name}")
    if Directory(spark, path).exists(MANIFEST):
        raise no_records_yet(path)
    raw = read_parquet(spark, path, RAW, damaged)
    if raw is None:
        raise no_parquet(path)
    _require_one_cluster(raw, path)
    return _conforming(raw, RAW, path)


def _require_one_cluster(raw: DataFrame, path: str) -> None:
    if CLUSTER not in raw.columns:
        return
    kind = raw.schema[CLUSTER].dataType
    if not isinstance(kind, StringType):
        raise wrong_type(path, CLUSTER, kind.simpleString(), "string")
    row = raw.agg(F.min(CLUSTER), F.max(CLUSTER)).first()
    assert row is not None  # an aggregate without groups has one row
    if row[0] != row[1]:
        raise two_clusters(path, row[0], row[1])


def live_records(spark: SparkSession, options: ReplayOptions) -> DataFrame:
    """The raw records of a live cluster as of now. `ReplayError` within seconds if no broker answers."""
    assert options.bootstrap_servers is not None
    given = {f"kafka.{name}": value for name, value in options.client_config.items()}
    given["bootstrap.servers"] = options.bootstrap_servers
    given["topic"] = options.topic
    given["timeoutSeconds"] = str(options.timeout_seconds)
    if options.groups is not None:
        given["groups"] = json.dumps(options.groups)
    try:
        # One more request than Spark's own, so that the error of an unreachable cluster is no Java stack
        # trace.
        GroupRecordsReader(SourceOptions.parse(given)).partitions()
    except SourceError as error:
        raise ReplayError(str(error)) from None
    spark.dataSource.register(GroupRecordsSource)
    return spark.read.format(FORMAT).options(**given).load()


def recorded_catalogue(
    spark: SparkSession, path: str, damaged: Collection[Path]
) -> tuple[str, list[dict[str, Any]]] | None:
    """The path and the rows of the catalogue beside the records, times in microseconds, if there is one."""
    for name in TOPICS_NAMES:
        place = f"{path.rstrip('/')}/{name}"
        rows = read_parquet(spark, place, TOPICS, damaged)
        if rows is not None:
            topics_over_time = with_micros(_conforming(rows, TOPICS, place))
            return place, [row.asDict() for row in topics_over_time.collect()]
    return None


def _conforming(rows: DataFrame, columns: pa.Schema, path: str) -> DataFrame:
    """`rows` with these columns alone, in their types."""
    schema = spark_schema(columns)
    found = {field.name: field.dataType for field in rows.schema.fields}
    missing = [field.name for field in schema.fields if field.name not in found]
    if missing:
        raise missing_columns(path, missing, found)
    for field in schema.fields:
        if not _convertible(found[field.name], field.dataType):
            wanted, is_ = field.dataType.simpleString(), found[field.name].simpleString()
            raise wrong_type(path, field.name, is_, wanted)
    return rows.select(*(_value(rows[field.name], field).alias(field.name) for field in schema.fields))


def _value(column: Column, field: StructField) -> Column:
    """The column in the type of the field: null for a number that is too large, and with times that fit."""
    if isinstance(field.dataType, IntegralType):
        return column.try_cast(field.dataType)
    if isinstance(field.dataType, TimestampType):
        micros = F.unix_micros(column.cast(field.dataType))
        bounded = F.greatest(F.least(micros, F.lit(LAST_MICROS)), F.lit(FIRST_MICROS))
        return F.when(micros.isNotNull(), F.timestamp_micros(bounded))
    return column.cast(field.dataType)


def _convertible(found: DataType, wanted: DataType) -> bool:
    if isinstance(wanted, IntegralType):
        return isinstance(found, IntegralType)
    if isinstance(wanted, TimestampType):
        return isinstance(found, (TimestampType, TimestampNTZType))
    if isinstance(wanted, BinaryType):
        return isinstance(found, BinaryType)
    return found.simpleString() == wanted.simpleString()
