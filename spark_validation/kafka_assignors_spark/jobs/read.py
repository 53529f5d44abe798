"""A replay's records and catalogue as Spark reads them: from Parquet of any origin, or from a live cluster.

Spark has no type for nanoseconds. With the setting of `jobs.session` it reads them as whole numbers, and a
file says in its footer alone that these are times. A folder may hold files of several writers, so the footer
of each file counts. Footers are read by the Parquet library of Spark, which reaches every file system.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    TimestampNTZType,
    TimestampType,
)

from kafka_assignors_spark.history import (
    missing_columns,
    no_parquet,
    no_records_yet,
    not_parquet,
    parquet_files,
    two_clusters,
    wrong_type,
)
from kafka_assignors_spark.jobs.arrow_frames import spark_schema, with_micros
from kafka_assignors_spark.jobs.directory import Directory
from kafka_assignors_spark.jobs.session import SPARK_ERRORS, one_line
from kafka_assignors_spark.live_cluster import SourceError
from kafka_assignors_spark.options import MANIFEST, RAW_NAMES, TOPICS_NAMES, ReplayError, ReplayOptions
from kafka_assignors_spark.schemas import RAW, TOPICS
from kafka_assignors_spark.source import FORMAT, GroupRecordsReader, GroupRecordsSource, SourceOptions
from kafka_assignors_spark.timestamps import FIRST_MICROS, LAST_MICROS

__all__ = ["CLUSTER", "live_records", "read_parquet", "recorded_catalogue", "recorded_records"]

CLUSTER = "cluster_id"
"""The column of an archive that is read beside the wanted ones, if it is there."""

_FOOTERS_AT_A_TIME = 8

_PATTERN = re.compile(r"[\[\]{}*?\\]")
"""What Spark takes as a pattern in a path."""


def read_parquet(
    spark: SparkSession, path: str, wanted: pa.Schema, damaged: Collection[Path]
) -> DataFrame | None:
    """The Parquet at `path`, in which times in nanoseconds are timestamps; None if the path does not exist
    or has `damaged` files alone.

    Of files in nanoseconds there are the `wanted` columns and `CLUSTER` alone, as far as the files have them.
    `ReplayError` if a file is no Parquet.
    """
    try:
        files = parquet_files(Path(path)) if damaged else []
        kept = [file for file in files if file not in damaged]
        if len(kept) == len(files):
            rows = spark.read.parquet(path)
        elif kept:
            rows = _read_files(spark, path, [str(file.absolute()) for file in kept])
        else:
            return None
    except SPARK_ERRORS as error:
        nothing = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
        if isinstance(error, AnalysisException) and error.getCondition() in nothing:
            return None
        raise not_parquet(path, one_line(error)) from None
    for column in wanted:
        if pa.types.is_timestamp(column.type):
            rows = _with_instants(rows, path, column.name, [*wanted.names, CLUSTER])
    return rows


def _with_instants(rows: DataFrame, path: str, column: str, names: Sequence[str]) -> DataFrame:
    kind = next((field.dataType for field in rows.schema if field.name == column), None)
    times = isinstance(kind, (TimestampType, TimestampNTZType))
    # Spark has the type from one file. On a disk the footers of the others cost little; at a URL a file in
    # nanoseconds after others is an error of Spark that names the file.
    if not isinstance(kind, LongType) and not (times and "://" not in path):
        return rows
    files = rows.inputFiles()
    with ThreadPoolExecutor(_FOOTERS_AT_A_TIME) as pool:
        found = pool.map(lambda file: _has_nanoseconds(rows.sparkSession, file, column), files)
        nanos = [file for file, has in zip(files, found, strict=True) if has]
    if not nanos:
        return rows
    if len(nanos) == len(files):
        return rows.withColumn(column, _of_nanoseconds(rows[column]))
    in_nanos, others = (
        _read_files(
            rows.sparkSession, path, [str(_hadoop_path(rows.sparkSession, file).toString()) for file in part]
        )
        for part in (nanos, sorted(set(files).difference(nanos)))
    )
    is_ = others.schema[column].dataType if column in others.columns else kind
    if not isinstance(is_, (TimestampType, TimestampNTZType)):
        raise wrong_type(path, column, is_.simpleString() if is_ else "void", "timestamp")
    in_nanos = in_nanos.withColumn(column, _of_nanoseconds(in_nanos[column]))
    others = others.withColumn(column, others[column].cast(TimestampType()))
    both = ([each for each in part.columns if each in names] for part in (in_nanos, others))
    of_nanos, of_others = both
    return in_nanos.select(of_nanos).unionByName(others.select(of_others), allowMissingColumns=True)


def _of_nanoseconds(column: Column) -> Column:
    """The microsecond in which the time lies."""
    whole, thousand = F.call_function("div", column, F.lit(1_000)), F.lit(1_000)
    before_1970 = (column < 0) & (F.pmod(column, thousand) != 0)
    return F.timestamp_micros(whole - F.when(before_1970, 1).otherwise(0))


def _read_files(spark: SparkSession, path: str, files: Sequence[str]) -> DataFrame:
    """These files of `path`."""
    reader = spark.read if _PATTERN.search(path) else spark.read.option("basePath", path)
    return reader.parquet(*(_PATTERN.sub(r"\\\g<0>", file) for file in files))


def _has_nanoseconds(spark: SparkSession, file: str, column: str) -> bool:
    """Whether a file says that the column has times in nanoseconds."""
    hadoop: Any = cast(Any, spark._jvm).org.apache.parquet.hadoop
    session: Any = spark._jsparkSession
    try:
        source = hadoop.util.HadoopInputFile.fromPath(
            _hadoop_path(spark, file), session.sessionState().newHadoopConf()
        )
        reader = hadoop.ParquetFileReader.open(source)
        try:
            schema = reader.getFileMetaData().getSchema()
            if not schema.containsField(column):
                return False
            meaning = schema.getType(schema.getFieldIndex(column)).getLogicalTypeAnnotation()
            return meaning is not None and str(meaning.toString()).startswith("TIMESTAMP(NANOS")
        finally:
            reader.close()
    except SPARK_ERRORS as error:
        raise not_parquet(_hadoop_path(spark, file).toUri().getPath(), one_line(error)) from None


def _hadoop_path(spark: SparkSession, file: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))


def recorded_records(spark: SparkSession, path: str, damaged: Collection[Path] = ()) -> DataFrame:
    """The raw records under `path`: a history directory, or Parquet itself, without the `damaged` files.
    `ReplayError` if neither."""
    for place in (*(f"{path.rstrip('/')}/{name}" for name in RAW_NAMES), path):
        if place == path and Directory(spark, path).exists(MANIFEST):
            raise no_records_yet(path)
        if (raw := read_parquet(spark, place, RAW, damaged)) is not None:
            _require_one_cluster(raw, place)
            return _conforming(raw, RAW, place)
    raise no_parquet(path)


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
