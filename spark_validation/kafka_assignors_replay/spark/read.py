"""Reads a replay's records and catalogue with Spark, from Parquet of any origin.

Spark has no type for nanoseconds. With the setting of `spark.spark_session` it reads them as integers, and
only the footer of a file says that these are times. Milliseconds are also read as integers: as times they
fail the job where their microseconds do not fit into 64 bits. A folder may hold files of several writers, so
the footer of each file is read, by Spark's Parquet library, which reaches every file system.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import DataType, LongType, StructField, StructType, TimestampNTZType, TimestampType

from kafka_assignors_replay.history.records import FIRST_MICROS, LAST_MICROS
from kafka_assignors_replay.history_files import (
    CLUSTER,
    OPTIONAL,
    TOPIC,
    columns_of,
    no_parquet,
    no_records_yet,
    not_parquet,
    parquet_files,
    table_format,
    two_clusters,
)
from kafka_assignors_replay.result import MANIFEST, OFFSETS_TOPIC, RAW_NAMES, ReplayError
from kafka_assignors_replay.schemas import RAW
from kafka_assignors_replay.spark.spark_session import SPARK_ERRORS, one_line

TABLE = "table://"
"""The prefix of a table's name in a catalog of Spark, or of a namespace with tables `raw` and `topics`."""

_PATTERN = re.compile(r"[\[\]{}*?\\]")
"""The characters that Spark takes as a pattern in a path."""


def recorded_records(
    spark: SparkSession, path: str, damaged: Collection[Path] = (), topic: str = OFFSETS_TOPIC
) -> tuple[DataFrame, DataFrame | None]:
    """The raw records under `path`, a history directory or Parquet itself, without the `damaged` files; and
    the rows of other topics than `topic` there. `ReplayError` if there are none."""
    found = read_first(spark, path, RAW_NAMES, RAW, damaged)
    if found is None and not path.startswith(TABLE) and MANIFEST in _names_in(spark, path, ""):
        raise no_records_yet(path)
    found = found or read_first(spark, path, ("",), RAW, damaged)
    if found is None and path.startswith(TABLE):
        name = path.removeprefix(TABLE)
        raise ReplayError(
            f"{path}: Spark's catalogs have no table {name} and no table {name}.raw; the file of "
            "--spark-config configures a catalog (spark.sql.catalog.NAME)"
        )
    if found is None:
        raise no_parquet(path)
    place, rows = found
    others = None
    if TOPIC in rows.columns:
        is_of = F.coalesce(F.col(TOPIC) == topic, F.lit(False))
        rows, others = rows.where(is_of), rows.where(~is_of)
    if CLUSTER in rows.columns:
        row = rows.agg(F.min(CLUSTER), F.max(CLUSTER)).first()
        assert row is not None  # an aggregate without groups has one row
        if row[0] != row[1]:
            raise two_clusters(place, row[0], row[1])
    return rows.select(RAW.names), others


def read_first(
    spark: SparkSession, path: str, names: Sequence[str], wanted: pa.Schema, damaged: Collection[Path]
) -> tuple[str, DataFrame] | None:
    """The first place of these names under `path` that exists, and its rows in the `wanted` columns, and
    those in `OPTIONAL` that it has."""
    for name in names:
        place = f"{path.rstrip('/')}/{name}" if name else path
        if parts := [_conforming(part, wanted, place) for part in _parts(spark, place, wanted, damaged)]:
            return place, reduce(partial(DataFrame.unionByName, allowMissingColumns=True), parts)
    return None


def _conforming(rows: DataFrame, wanted: pa.Schema, path: str) -> DataFrame:
    """The rows in these columns and types: null for a number that is too large, times within the limits."""
    kinds = {each.name: each.type for each in (*OPTIONAL, *wanted)}
    found = {
        each.name: _arrow_type(each.dataType) if each.name in kinds else pa.null() for each in rows.schema
    }

    def value(name: str) -> Column:
        kind = from_arrow_type(kinds[name])
        if not isinstance(kind, TimestampType):
            return rows[name].try_cast(kind).alias(name)
        micros = F.unix_micros(rows[name].cast(kind))
        bounded = F.greatest(F.least(micros, F.lit(LAST_MICROS)), F.lit(FIRST_MICROS))
        return F.when(micros.isNotNull(), F.timestamp_micros(bounded)).alias(name)

    return rows.select(*map(value, columns_of(found, wanted, path)))


def _arrow_type(kind: DataType) -> pa.DataType:
    # PySpark's own conversion of times differs between its releases.
    return pa.timestamp("us") if isinstance(kind, (TimestampType, TimestampNTZType)) else to_arrow_type(kind)


def _parts(spark: SparkSession, path: str, wanted: pa.Schema, damaged: Collection[Path]) -> list[DataFrame]:
    """The Parquet at `path` and in folders below it, a part for each unit of times, all of them as
    timestamps; or the table there. None if the path does not exist or has only `damaged` files."""
    if path.startswith(TABLE):
        name = path.removeprefix(TABLE).replace("/", ".")
        exists = False
        with contextlib.suppress(AnalysisException):  # The name has too many parts, or another catalog.
            exists = spark.catalog.tableExists(name)
        return [spark.read.table(name)] if exists else []
    if (form := table_format(partial(_names_in, spark, path))) is not None:
        return [_with_log(spark, path, form)]
    names = [path]
    if "://" not in path:
        names = [_as_name(str(file.absolute())) for file in parquet_files(Path(path)) if file not in damaged]
        if not names:
            return []
    try:
        rows = _reader(spark).parquet(*names)
    except SPARK_ERRORS as error:
        nothing = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
        if isinstance(error, AnalysisException) and error.getCondition() in nothing:
            return []
        raise not_parquet(path, one_line(error)) from None
    times = next(each.name for each in wanted if pa.types.is_timestamp(each.type))
    return _with_instants(rows, path, times)


def _names_in(spark: SparkSession, path: str, folder: str) -> list[str]:
    """The names in a folder of any file system of Hadoop; none if there is no such folder."""
    place, conf = _in_hadoop(spark, f"{path.rstrip('/')}/{folder}")
    files = place.getFileSystem(conf)
    return [str(each.getPath().getName()) for each in files.listStatus(place)] if files.exists(place) else []


def _in_hadoop(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """The path, and the configuration of file systems, in the JVM."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    return jvm.org.apache.hadoop.fs.Path(path), session.sessionState().newHadoopConf()


def _with_log(spark: SparkSession, path: str, form: str) -> DataFrame:
    """The table with a log at `path`, by the reader of its format, which is not part of Spark."""
    try:
        return spark.read.format(form).load(path)
    except SPARK_ERRORS as error:
        if "DATA_SOURCE_NOT_FOUND" in str(error):
            raise ReplayError(
                f"{path}: this is a table of the format {form}, and Spark has no reader for it: name its "
                "package, for the version of Spark, as spark.jars.packages in the file of --spark-config"
            ) from None
        raise ReplayError(f"{path}: cannot be read as a table of {form}: {one_line(error)}") from None


def _with_instants(rows: DataFrame, path: str, column: str) -> list[DataFrame]:
    """The rows with times in a column that has times of any unit."""
    kind = next((field.dataType for field in rows.schema if field.name == column), None)
    # Spark takes the type from one file. On a disk the footers of the others cost little. At a URL, a later
    # file in nanoseconds is an error of Spark that names the file.
    several = (LongType,) if "://" in path else (LongType, TimestampType, TimestampNTZType)
    if not isinstance(kind, several):
        return [rows]
    spark, of_unit = rows.sparkSession, dict[str, list[str]]()
    files = [unquote(file) for file in rows.inputFiles()]
    with ThreadPoolExecutor() as pool:
        for file, unit in zip(files, pool.map(partial(_unit_of, spark, column), files), strict=True):
            of_unit.setdefault(unit, []).append(_as_name(file))
    if of_unit.keys() <= {""}:
        return [rows]
    parts = []
    for unit, own in sorted(of_unit.items()):
        part = _reader(spark).parquet(*own)
        if unit == "MILLIS":
            number = StructField(column, LongType())
            schema = StructType([number if each.name == column else each for each in part.schema])
            part = _reader(spark).schema(schema).parquet(*own)
        parts.append(part.withColumn(column, F.expr(_INSTANTS[unit].format(column))) if unit else part)
    return parts


_INSTANTS = {
    # The microsecond in which the time lies, before 1970 too.
    "NANOS": "timestamp_micros(`{0}` div 1000 - cast(`{0}` % 1000 < 0 AS int))",
    # Within the years 1 to 9999; `greatest` and `least` leave out null.
    "MILLIS": "if(`{0}` IS NULL, NULL, timestamp_millis("
    f"greatest(least(`{{0}}`, {LAST_MICROS // 1_000}), {FIRST_MICROS // 1_000})))",
}
"""Makes timestamps of integers, by their unit in Parquet; Spark has a type for all others."""


def _reader(spark: SparkSession) -> DataFrameReader:
    """A reader of all folders below a path. By default Spark reads only folders named `column=value`, and
    takes columns from their names; here the files have all columns."""
    return spark.read.option("recursiveFileLookup", "true")


def _as_name(path: str) -> str:
    """The path for Spark, which takes it as a name and not as a pattern."""
    return _PATTERN.sub(r"\\\g<0>", path)


def _unit_of(spark: SparkSession, column: str, file: str) -> str:
    """The key in `_INSTANTS` for the unit that a file names for its column of times, or ""."""
    place, conf = _in_hadoop(spark, file)
    hadoop: Any = cast(Any, spark._jvm).org.apache.parquet.hadoop
    try:
        footer = hadoop.ParquetFileReader.readFooter(conf, place)
        schema = str(footer.getFileMetaData().getSchema())
    except SPARK_ERRORS as error:
        raise not_parquet(file.removeprefix("file://"), one_line(error)) from None
    unit = re.search(rf"^  \w+ int64 {column} \(TIMESTAMP\((\w+)", schema, re.MULTILINE)
    return unit[1] if unit is not None and unit[1] in _INSTANTS else ""
