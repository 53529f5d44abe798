"""Reads a replay's records and catalogue with Spark, from Parquet of any origin.

Spark has no type for nanoseconds. With the setting of `spark.spark_session` it reads them as integers, and
only the footer of a file says that these are times. Milliseconds are also read as integers: as times they
fail the job where their microseconds do not fit into 64 bits. A folder may hold files of several writers, so
the footer of each file is read, by Spark's Parquet library, which reaches every file system.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from kafka_assignors_replay.history.records import FIRST_MICROS, LAST_MICROS
from kafka_assignors_replay.history_files import (
    CLUSTER,
    TOPIC,
    no_parquet,
    no_records_yet,
    not_parquet,
    parquet_files,
    require_columns,
    table_format,
    two_clusters,
    wrong_type,
)
from kafka_assignors_replay.result import MANIFEST, OFFSETS_TOPIC, RAW_NAMES, ReplayError, ReplayOptions
from kafka_assignors_replay.schemas import RAW
from kafka_assignors_replay.spark.spark_session import SPARK_ERRORS, one_line

TABLE = "table://"
"""The prefix of a table's name in a catalog of Spark, or of a namespace with tables `raw` and `topics`."""

_FOOTERS_AT_A_TIME = 8

_PATTERN = re.compile(r"[\[\]{}*?\\]")
"""The characters that Spark takes as a pattern in a path."""


def read_rows(
    spark: SparkSession, path: str, wanted: pa.Schema, damaged: Collection[Path]
) -> DataFrame | None:
    """The Parquet at `path` and in folders below it, with timestamps from times of any unit, or the table
    there; None if the path does not exist or has only `damaged` files.

    If files differ in units, the rows have only the `wanted` columns and `CLUSTER`, where a file has them.
    `ReplayError` if a file is not Parquet.
    """
    if path.startswith(TABLE):
        name = path.removeprefix(TABLE).replace("/", ".")
        return spark.read.table(name) if _has_table(spark, name) else None
    if (form := table_format(partial(_names_in, spark, path))) is not None:
        return _with_log(spark, path, form)
    try:
        files = parquet_files(Path(path)) if damaged else []
        kept = [file for file in files if file not in damaged]
        if len(kept) == len(files):
            rows = _reader(spark).parquet(path)
        elif kept:
            rows = _read_files(spark, [str(file.absolute()) for file in kept])
        else:
            return None
    except SPARK_ERRORS as error:
        nothing = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
        if isinstance(error, AnalysisException) and error.getCondition() in nothing:
            return None
        raise not_parquet(path, one_line(error)) from None
    for column in wanted:
        if pa.types.is_timestamp(column.type):
            rows = _with_instants(rows, path, column.name, [*wanted.names, CLUSTER, TOPIC])
    return rows


def _names_in(spark: SparkSession, path: str, folder: str) -> list[str]:
    """The names in a folder of any file system of Hadoop; none if there is no such folder."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    place = jvm.org.apache.hadoop.fs.Path(f"{path.rstrip('/')}/{folder}")
    files = place.getFileSystem(session.sessionState().newHadoopConf())
    return [str(each.getPath().getName()) for each in files.listStatus(place)] if files.exists(place) else []


def _has_table(spark: SparkSession, name: str) -> bool:
    try:
        return spark.catalog.tableExists(name)
    except AnalysisException:  # The name has too many parts, or another catalog.
        return False


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


def _with_instants(rows: DataFrame, path: str, column: str, names: Sequence[str]) -> DataFrame:
    kind = next((field.dataType for field in rows.schema if field.name == column), None)
    times = isinstance(kind, (TimestampType, TimestampNTZType))
    # Spark takes the type from one file. On a disk the footers of the others cost little. At a URL, a later
    # file in nanoseconds is an error of Spark that names the file.
    if not isinstance(kind, LongType) and not (times and "://" not in path):
        return rows
    spark, of_unit = rows.sparkSession, dict[str, list[str]]()
    files = rows.inputFiles()
    with ThreadPoolExecutor(_FOOTERS_AT_A_TIME) as pool:
        units = pool.map(lambda file: _unit_of(spark, file, column), files)
        for file, unit in zip(files, units, strict=True):
            of_unit.setdefault(unit, []).append(str(_hadoop_path(spark, file).toString()))
    if of_unit.keys() <= {""}:
        return rows
    parts = []
    for unit, own in sorted(of_unit.items()):
        part = _read_files(spark, own)
        if unit == _MILLIS:
            part = _read_files(spark, own, _with_number(part.schema, column))
        is_ = part.schema[column].dataType if column in part.columns else kind
        if not unit and not isinstance(is_, (TimestampType, TimestampNTZType)):
            raise wrong_type(path, column, is_.simpleString() if is_ else "void", "timestamp")
        parts.append(part.withColumn(column, _INSTANTS[unit](part[column])))
    if len(parts) > 1:
        parts = [part.select([each for each in part.columns if each in names]) for part in parts]
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), parts)


def _with_number(schema: StructType, column: str) -> StructType:
    """The schema with integers for the times of the column."""
    return StructType(
        [StructField(each.name, LongType()) if each.name == column else each for each in schema.fields]
    )


def _of_nanoseconds(column: Column) -> Column:
    """The microsecond in which the time lies."""
    whole, thousand = F.call_function("div", column, F.lit(1_000)), F.lit(1_000)
    before_1970 = (column < 0) & (F.pmod(column, thousand) != 0)
    return F.timestamp_micros(whole - F.when(before_1970, 1).otherwise(0))


def _of_milliseconds(column: Column) -> Column:
    """Times limited to the years 1 to 9999."""
    bounded = F.greatest(F.least(column, F.lit(LAST_MICROS // 1_000)), F.lit(FIRST_MICROS // 1_000))
    return F.when(column.isNotNull(), F.timestamp_millis(bounded))


_MILLIS = "MILLIS"

_INSTANTS: Mapping[str, Callable[[Column], Column]] = {
    "NANOS": _of_nanoseconds,
    _MILLIS: _of_milliseconds,
    "": lambda column: column.cast(TimestampType()),
}
"""Makes timestamps of a column, by its unit in Parquet; "" stands for all units that Spark has a type for."""


def _reader(spark: SparkSession) -> DataFrameReader:
    """A reader of all folders below a path. By default Spark reads only folders named `column=value`, and
    takes columns from their names; here the files have all columns."""
    return spark.read.option("recursiveFileLookup", "true")


def _read_files(spark: SparkSession, files: Sequence[str], schema: StructType | None = None) -> DataFrame:
    reader = _reader(spark) if schema is None else _reader(spark).schema(schema)
    return reader.parquet(*(_PATTERN.sub(r"\\\g<0>", file) for file in files))


def _unit_of(spark: SparkSession, file: str, column: str) -> str:
    """The key in `_INSTANTS` for the unit that a file names for its column of times."""
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
                return ""
            meaning = schema.getType(schema.getFieldIndex(column)).getLogicalTypeAnnotation()
            said = "" if meaning is None else str(meaning.toString())
            return next((unit for unit in _INSTANTS if unit and said.startswith(f"TIMESTAMP({unit}")), "")
        finally:
            reader.close()
    except SPARK_ERRORS as error:
        raise not_parquet(_hadoop_path(spark, file).toUri().getPath(), one_line(error)) from None


def _hadoop_path(spark: SparkSession, file: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(file))


def recorded_records(
    spark: SparkSession, path: str, damaged: Collection[Path] = (), topic: str = OFFSETS_TOPIC
) -> DataFrame:
    """The raw records under `path`, a history directory or Parquet itself, without the `damaged` files, and
    without rows of other topics than `topic`. `ReplayError` if there are none."""
    if (found := read_first(spark, path, RAW_NAMES, RAW, damaged, topic)) is not None:
        return found[1]
    if not path.startswith(TABLE) and MANIFEST in _names_in(spark, path, ""):
        raise no_records_yet(path)
    if (found := read_first(spark, path, ("",), RAW, damaged, topic)) is not None:
        return found[1]
    if path.startswith(TABLE):
        name = path.removeprefix(TABLE)
        raise ReplayError(
            f"{path}: Spark's catalogs have no table {name} and no table {name}.raw; the file of "
            "--spark-config configures a catalog (spark.sql.catalog.NAME)"
        )
    raise no_parquet(path)


def count_other_topics(spark: SparkSession, options: ReplayOptions, damaged: Collection[Path]) -> int:
    """How many rows of a history are of other topics than the offsets topic."""
    assert options.path is not None
    for name in (*RAW_NAMES, ""):
        place = f"{options.path.rstrip('/')}/{name}" if name else options.path
        if (rows := read_rows(spark, place, RAW, damaged)) is not None:
            return rows.where(~_is_of(options.topic)).count() if TOPIC in rows.columns else 0
    return 0


def _is_of(topic: str) -> Column:
    return F.coalesce(F.col(TOPIC) == topic, F.lit(False))


def read_first(
    spark: SparkSession,
    path: str,
    names: Sequence[str],
    wanted: pa.Schema,
    damaged: Collection[Path],
    topic: str = OFFSETS_TOPIC,
) -> tuple[str, DataFrame] | None:
    """The first place of these names under `path` that exists, and its rows in the `wanted` columns alone."""
    for name in names:
        place = f"{path.rstrip('/')}/{name}" if name else path
        if (rows := read_rows(spark, place, wanted, damaged)) is not None:
            if wanted is RAW:
                if TOPIC in rows.columns:
                    if not isinstance(kind := rows.schema[TOPIC].dataType, StringType):
                        raise wrong_type(place, TOPIC, kind.simpleString(), "string")
                    rows = rows.where(_is_of(topic))
                _require_one_cluster(rows, place)
            return place, _conforming(rows, wanted, place)
    return None


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


def _conforming(rows: DataFrame, columns: pa.Schema, path: str) -> DataFrame:
    """`rows` with these columns alone, in their types."""
    types = {each.name: each.dataType.simpleString() for each in rows.schema.fields}
    with_and_without_zone = {"timestamp_ntz": "timestamp"}
    require_columns(
        {name: with_and_without_zone.get(kind, kind) for name, kind in types.items()}, columns, path
    )
    return rows.select(
        *(_value(rows[field.name], field).alias(field.name) for field in from_arrow_schema(columns).fields)
    )


def _value(column: Column, field: StructField) -> Column:
    """The column in the type of the field: null for a number that is too large, times within the limits."""
    if isinstance(field.dataType, IntegralType):
        return column.try_cast(field.dataType)
    if isinstance(field.dataType, TimestampType):
        micros = F.unix_micros(column.cast(field.dataType))
        bounded = F.greatest(F.least(micros, F.lit(LAST_MICROS)), F.lit(FIRST_MICROS))
        return F.when(micros.isNotNull(), F.timestamp_micros(bounded))
    return column.cast(field.dataType)
