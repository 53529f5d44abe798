"""The engine on Spark: one pass over the records.

The JVM cuts the group's id from the key, one shuffle brings the records of a group together, a sort within
the partitions orders them, and `folds.group` turns them into rows of `OUTPUT`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from kafka_assignors_replay.engine import RECORD_BYTES, Limits, OnTasks, Survey
from kafka_assignors_replay.folds.group import (
    STATE_PLACE,
    FoldWork,
    Output,
    SortedRecord,
    fold_groups,
    sort_records,
)
from kafka_assignors_replay.folds.records import OFFSET_COMMITS, group_bytes
from kafka_assignors_replay.history import DamagedError
from kafka_assignors_replay.result import (
    TOPICS_NAMES,
    WHOLE_GROUPS,
    ReplayError,
    ReplayOptions,
    TableFile,
)
from kafka_assignors_replay.schemas import OUTPUT, TABLES, TOPICS, record_batch
from kafka_assignors_replay.spark.read import (
    count_other_topics,
    read_first,
    recorded_records,
)
from kafka_assignors_replay.spark.session import (
    SPARK_ERRORS,
    apply_to_batches,
    collect_with_micros,
    is_damage,
    one_line,
    settings,
    spark_session,
    task_progress,
)

_TASK_BYTES = 4 << 20
_MOST_TASKS_A_CORE = 32
"""A task has about this many bytes of records: groups differ in size, and a core without a task idles."""

_ROWS_IN_A_BATCH, _BYTES_IN_A_BATCH = 64, 8 << 20
"""The limits of a batch that a task returns."""

_IN_MICROSECONDS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}
"""Spark's default, 96 bits, is deprecated in Parquet, and has no time zone for other readers."""

_SORTED = ("g", "part", "partition", "offset", "key", "micros")


class SparkEngine:
    """See `engine.Engine`."""

    def __init__(
        self,
        spark: SparkSession,
        options: ReplayOptions,
        damaged: frozenset[Path],
        cached: contextlib.ExitStack,
    ) -> None:
        self._spark = spark
        self._options = options
        self._damaged = damaged
        self._cached = cached
        assert options.path is not None
        raw = recorded_records(spark, options.path, damaged, options.topic)
        self._raw = raw
        self._records = _group_records(raw, options.groups)
        self._bytes = 0
        self._slices = 1
        self._bounds: dict[bytes | None, list[tuple[int, int]]] = {}
        self._done: list[DataFrame] = []
        self._work: FoldWork

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, options: ReplayOptions, damaged: frozenset[Path], on_tasks: OnTasks
    ) -> Iterator[SparkEngine]:
        with (
            spark_session(options.master, options.spark_config) as spark,
            _one_line_errors(),
            contextlib.ExitStack() as cached,
            task_progress(spark, on_tasks),
        ):
            yield cls(spark, options, damaged, cached)

    def _keep(self, rows: DataFrame) -> DataFrame:
        rows.persist()
        self._cached.callback(rows.unpersist)
        return rows

    def survey(self, limits: Limits) -> Survey:
        found = self._by_group(limits).collect()[0].asDict()
        misplaced = {name: found[name] or 0 for name in ("partition", "offset", "timestamp")}
        if any(misplaced.values()):
            return Survey(misplaced=misplaced)
        self._bytes = found["bytes"] or 0
        self._bounds = self._chunks([bytes(each) for each in found["giants"]], limits)
        chunks = {group: len(bounds) + 1 for group, bounds in self._bounds.items()}
        self._slices = limits.slices(self._bytes, chunks)
        return Survey(
            self._slices,
            chunks,
            frozenset(bytes(each) for each in found["torn"]),
            frozenset((row[0], row[1]) for row in self._collisions().collect()),
        )

    def _by_group(self, limits: Limits) -> DataFrame:
        """One row about all groups."""
        no_number = {name: F.col(name).isNull() | (F.col(name) < 0) for name in ("partition", "offset")}
        no_place = {**no_number, "timestamp": F.col("micros").isNull()}
        place = F.col("partition")
        groups = self._records.groupBy("g").agg(
            F.sum(F.coalesce(F.length("value"), F.lit(0)) + RECORD_BYTES).alias("bytes"),
            F.coalesce(F.min(place) != F.max(place), F.lit(False)).alias("several"),
            *(F.count(F.when(wrong, 1)).alias(name) for name, wrong in no_place.items()),
        )
        named = F.col("g").isNotNull()
        return groups.agg(
            F.sum("bytes").alias("bytes"),
            *(F.sum(name).alias(name) for name in no_place),
            F.collect_list(F.when(named & F.col("several"), F.col("g"))).alias("torn"),
            F.collect_list(F.when(named & (F.col("bytes") > limits.chunk_bytes), F.col("g"))).alias("giants"),
        )

    def _collisions(self) -> DataFrame:
        """The places that have different records."""
        contents = F.xxhash64("micros", "key", "value")
        records = self._records.withColumn("content", contents)
        differ = (F.min("content") != F.max("content")).alias("differ")
        return records.groupBy("partition", "offset").agg(differ).where("differ").drop("differ")

    def _chunks(self, giants: Sequence[bytes], limits: Limits) -> dict[bytes | None, list[tuple[int, int]]]:
        """The places where the second and later chunks of each giant begin."""
        if not giants:
            return {}
        size = F.coalesce(F.length("value"), F.lit(0)) + RECORD_BYTES
        in_group = Window.partitionBy("g").orderBy("partition", "offset")
        before = F.sum(size).over(in_group.rangeBetween(Window.unboundedPreceding, Window.currentRow)) - size
        chunk = F.floor(before / limits.chunk_bytes)
        placed = self._records.where(_is_one_of(giants)).select(
            "g", "partition", "offset", chunk.alias("chunk")
        )
        begins = placed.groupBy("g", "chunk").agg(F.min(F.struct("partition", "offset")).alias("place"))
        bounds: dict[bytes | None, list[tuple[int, int]]] = {}
        for row in begins.where("chunk > 0").orderBy("g", "chunk").collect():
            bounds.setdefault(bytes(row["g"]), []).append((row["place"][0], row["place"][1]))
        return bounds

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None:
        assert self._options.path is not None
        found = read_first(self._spark, self._options.path, TOPICS_NAMES, TOPICS, self._damaged)
        return found and (found[0], collect_with_micros(found[1]))

    def begin(self, work: FoldWork) -> None:
        self._work = work

    def run_slice(self, number: int, on_tasks: OnTasks) -> Iterator[bytes]:
        cores = self._spark.sparkContext.defaultParallelism
        size = self._bytes // self._slices
        tasks = min(max(cores, size // _TASK_BYTES), _MOST_TASKS_A_CORE * cores)
        rows = self._slice(number).repartition(tasks, "g", "part").sortWithinPartitions(*_SORTED)
        folded = apply_to_batches(
            rows, _fold_batches(self._work, number), OUTPUT if self._work.tables else OUTPUT_OF_SUMS
        )
        kept = self._keep(folded)
        self._done.append(kept)
        for row in kept.where(F.col("sums").isNotNull()).select("sums").collect():
            yield bytes(row[0])

    def _slice(self, number: int) -> DataFrame:
        """The records of a slice. The chunks of giants are repeated for each part, with their states."""
        columns = self._records.columns[1:]
        small = self._records.select("g", F.lit(0).alias("part"), *columns)
        if self._slices > 1:
            small = small.where(F.pmod(F.xxhash64("g"), F.lit(self._slices)) == number)
        if not self._bounds:
            return small
        giants = _is_one_of(self._bounds)
        parts = F.explode(F.array(*(F.lit(part) for part in range(1, len(self._work.parts)))))
        chunk = reduce(
            Column.__or__, (_in_chunk(group, bounds, number) for group, bounds in self._bounds.items())
        )
        rows = small.where(~F.coalesce(giants, F.lit(False)))
        rows = rows.unionAll(self._records.where(chunk).select("g", parts.alias("part"), *columns))
        if not self._done:
            return rows
        states = self._done[-1].where(F.col("state").isNotNull())
        place = F.lit(STATE_PLACE)
        states = states.select(
            *("g", "part", place.alias("partition"), place.cast("long").alias("offset")),
            *(F.lit(0).cast("long").alias("micros"), F.col("state").alias("value")),
        )
        return rows.unionByName(states, allowMissingColumns=True)

    def details(self, groups: Iterable[bytes]) -> dict[bytes, list[bytes]]:
        wanted = list(groups)
        if not wanted:
            return {}
        numbered = (
            done.where(F.col("detail").isNotNull() & _is_one_of(wanted)).select(
                F.lit(number).alias("slice"), "g", "part", "detail"
            )
            for number, done in enumerate(self._done)
        )
        found: dict[bytes, list[bytes]] = {}
        for row in sorted(reduce(DataFrame.unionAll, numbered).collect(), key=lambda row: (row[0], row[2])):
            found.setdefault(bytes(row["g"]), []).append(bytes(row["detail"]))
        return found

    def records_of(self, groups: Iterable[str]) -> list[SortedRecord]:
        names = map(group_bytes, groups)
        rows = self._records.where(_is_one_of(names)).collect()
        return sort_records(
            SortedRecord(_bytes(g), 0, partition, offset, _bytes(key), micros, _bytes(value), *more)
            for g, partition, offset, key, micros, value, *more in rows
        )

    def write_tables(self, folder: str) -> tuple[TableFile, ...]:
        folder = folder.rstrip("/")
        with settings(self._spark, _IN_MICROSECONDS):
            for name in TABLES:
                frames = (done.where(F.col(name).isNotNull()).select(f"{name}.*") for done in self._done)
                reduce(DataFrame.unionAll, frames).write.mode("overwrite").parquet(f"{folder}/{name}")
        read = (
            self._spark.read.parquet(f"{folder}/{name}").select(
                "group", F.lit(name).alias("table"), F.col("_metadata.file_name").alias("file")
            )
            for name in WHOLE_GROUPS
        )
        counted = reduce(DataFrame.unionAll, read).groupBy("group", "table", "file").count()
        rows = counted.orderBy("group", "table", "file").collect()
        return tuple(TableFile(row[0], row[1], f"{row[1]}/{row[2]}", row[3]) for row in rows)

    def count_commits(self) -> int:
        return self._raw.where(_is_commit()).count()

    def count_other_topics(self) -> int:
        return count_other_topics(self._spark, self._options, self._damaged)


OUTPUT_OF_SUMS = pa.schema([each for each in OUTPUT if each.name not in TABLES])


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    try:
        yield
    except SPARK_ERRORS as error:
        kind = DamagedError if is_damage(error) else ReplayError
        raise kind(f"Spark failed: {one_line(error)}") from error


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


# Columns


def _is_commit() -> Column:
    return F.coalesce(F.substring("key", 1, 2).isin(*map(bytearray, OFFSET_COMMITS)), F.lit(False))


def _group_records(raw: DataFrame, groups: Sequence[str] | None) -> DataFrame:
    """The records of groups in the columns of a `SortedRecord`, with the bytes of the group's id as `g` (see
    `folds.records`). Offset commits are left out in the JVM."""
    length = F.conv(F.hex(F.substring("key", 3, 2)), 16, 10).cast("int")
    group = F.when(F.length("key") >= 4, F.substring(F.col("key"), F.lit(5), length))
    records = raw.where(~_is_commit()).select(
        *(
            group.alias("g"),
            "partition",
            "offset",
            "key",
            F.unix_micros("timestamp").alias("micros"),
            "value",
        ),
        F.lit(None).cast("string").alias("file"),
    )
    if groups is None:
        return records
    return records.where(_is_one_of(map(group_bytes, groups)))


def _is_one_of(groups: Iterable[bytes | None]) -> Column:
    return F.col("g").isin(*(bytearray(group or b"") for group in groups))


def _in_chunk(group: bytes | None, bounds: Sequence[tuple[int, int]], number: int) -> Column:
    """Whether a record is in this chunk of the group."""
    place = F.struct("partition", "offset")

    def at(bound: tuple[int, int]) -> Column:
        return F.struct(F.lit(bound[0]).cast("int"), F.lit(bound[1]).cast("long"))

    inside = F.lit(number <= len(bounds))
    if 0 < number <= len(bounds):
        inside = inside & (place >= at(bounds[number - 1]))
    if number < len(bounds):
        inside = inside & (place < at(bounds[number]))
    return _is_one_of([group]) & inside


# Inside the tasks


def _fold_batches(work: FoldWork, chunk: int) -> Any:
    import_path = tuple(sys.path)
    schema = OUTPUT if work.tables else OUTPUT_OF_SUMS

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sys.path.extend(path for path in import_path if path not in sys.path)
        rows = ((column.to_pylist() for column in batch.columns) for batch in batches)
        records = (record for columns in rows for record in map(SortedRecord, *columns))
        yield from _batches_of(fold_groups(records, work, chunk), schema)

    return fold


def _batches_of(outputs: Iterable[Output], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A row for each output, and one for each row of a table."""
    rows: list[dict[str, Any]] = []
    size = 0
    for group, part, state, sums, detail, tables in outputs:
        for name, of_table in tables.items():
            batch = record_batch(of_table, TABLES[name])
            column = pa.StructArray.from_arrays(batch.columns, fields=list(TABLES[name]))
            nothing = [None] * len(column)
            columns = {"g": [group] * len(column), "part": [part] * len(column), name: column}
            yield pa.RecordBatch.from_pydict(
                {each: columns.get(each, nothing) for each in schema.names}, schema
            )
        if state is not None or sums is not None:
            rows.append({"g": group, "part": part, "state": state, "sums": sums, "detail": detail})
            size += len(state or b"") + len(sums or b"") + len(detail or b"")
        if len(rows) == _ROWS_IN_A_BATCH or size > _BYTES_IN_A_BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema)
            rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema)
