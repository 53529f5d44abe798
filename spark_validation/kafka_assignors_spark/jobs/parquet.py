"""Parquet of any origin as Spark reads it, also with times in nanoseconds.

Spark has no type for nanoseconds. With the setting of `jobs.session` it reads them as whole numbers, and a
file says in its footer alone that these are times. A folder may hold files of several writers, so the footer
of each file counts. Footers are read by the Parquet library of Spark, which reaches every file system.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, TimestampNTZType, TimestampType

from kafka_assignors_spark.history_errors import not_parquet, wrong_type
from kafka_assignors_spark.jobs.spark_errors import SPARK_ERRORS, one_line
from kafka_assignors_spark.parquet_files import parquet_files

__all__ = ["CLUSTER", "read_parquet"]

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
