"""The engine on Spark: one pass over the records.

The JVM cuts the group's id from the key, one shuffle brings the records of a group together, a sort within
the partitions orders them, and `folds.group` turns them into outputs, which come to this process as pickles.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from kafka_assignors_replay.engine import OnTasks, Survey
from kafka_assignors_replay.folds.group import (
    SORTED_BY,
    FoldWork,
    Output,
    SortedRecord,
    fold_groups,
    sort_records,
)
from kafka_assignors_replay.folds.records import OFFSET_COMMITS, group_bytes
from kafka_assignors_replay.history import DamagedError
from kafka_assignors_replay.result import TOPICS_NAMES, ReplayError, ReplayOptions
from kafka_assignors_replay.schemas import TOPICS
from kafka_assignors_replay.spark.read import count_other_topics, read_first, recorded_records
from kafka_assignors_replay.spark.session import (
    SPARK_ERRORS,
    apply_to_batches,
    collect_with_micros,
    is_damage,
    one_line,
    spark_session,
    task_progress,
)

_TASK_BYTES = 4 << 20
_MOST_TASKS_A_CORE = 32
"""A task has about this many bytes of records: groups differ in size, and a core without a task idles."""

_OUTPUT = pa.schema([("output", pa.binary())])


class SparkEngine:
    """See `engine.Engine`."""

    def __init__(self, spark: SparkSession, options: ReplayOptions, damaged: frozenset[Path]) -> None:
        assert options.path is not None
        self._spark = spark
        self._options = options
        self._path = options.path
        self._damaged = damaged
        self._raw = recorded_records(spark, options.path, damaged, options.topic)
        self._records = _group_records(self._raw, options.groups)
        self._bytes = 0

    @classmethod
    @contextlib.contextmanager
    def opened(
        cls, options: ReplayOptions, damaged: frozenset[Path], on_tasks: OnTasks
    ) -> Iterator[SparkEngine]:
        with (
            spark_session(options.master, options.spark_config) as spark,
            _one_line_errors(),
            task_progress(spark, on_tasks),
        ):
            yield cls(spark, options, damaged)

    def survey(self) -> Survey:
        found = self._by_group().collect()[0].asDict()
        misplaced = {name: found[name] or 0 for name in ("partition", "offset", "timestamp")}
        if any(misplaced.values()):
            return Survey(misplaced=misplaced)
        self._bytes = found["bytes"] or 0
        return Survey(
            frozenset(bytes(each) for each in found["torn"]),
            frozenset((row[0], row[1]) for row in self._collisions().collect()),
        )

    def _by_group(self) -> DataFrame:
        """One row about all groups."""
        no_number = {name: F.col(name).isNull() | (F.col(name) < 0) for name in ("partition", "offset")}
        no_place = {**no_number, "timestamp": F.col("micros").isNull()}
        place = F.col("partition")
        groups = self._records.groupBy("group").agg(
            F.sum(F.coalesce(F.length("value"), F.lit(0))).alias("bytes"),
            F.coalesce(F.min(place) != F.max(place), F.lit(False)).alias("several"),
            *(F.count(F.when(wrong, 1)).alias(name) for name, wrong in no_place.items()),
        )
        torn = F.col("group").isNotNull() & F.col("several")
        return groups.agg(
            F.sum("bytes").alias("bytes"),
            *(F.sum(name).alias(name) for name in no_place),
            F.collect_list(F.when(torn, F.col("group"))).alias("torn"),
        )

    def _collisions(self) -> DataFrame:
        """The places that have different records."""
        contents = F.xxhash64("micros", "key", "value")
        records = self._records.withColumn("content", contents)
        differ = (F.min("content") != F.max("content")).alias("differ")
        return records.groupBy("partition", "offset").agg(differ).where("differ").drop("differ")

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None:
        found = read_first(self._spark, self._path, TOPICS_NAMES, TOPICS, self._damaged)
        return found and (found[0], collect_with_micros(found[1]))

    def fold(self, work: FoldWork, on_tasks: OnTasks) -> Iterator[Output]:
        cores = self._spark.sparkContext.defaultParallelism
        tasks = min(max(cores, self._bytes // _TASK_BYTES), _MOST_TASKS_A_CORE * cores)
        rows = self._records.repartition(tasks, "group").sortWithinPartitions(*SORTED_BY)
        folded = apply_to_batches(rows, _fold_batches(work), _OUTPUT)
        # All tasks run at once for the count, and their outputs then come to this process task by task.
        folded.persist()
        try:
            folded.count()
            for row in folded.toLocalIterator(prefetchPartitions=True):
                yield pickle.loads(row[0])
        finally:
            with contextlib.suppress(*SPARK_ERRORS):
                folded.unpersist()

    def records_of(self, groups: Iterable[str]) -> list[SortedRecord]:
        if not (names := [*map(group_bytes, groups)]):
            return []
        rows = self._records.where(_is_one_of(names)).collect()
        return sort_records(
            SortedRecord(_bytes(group), partition, offset, _bytes(key), micros, _bytes(value))
            for group, partition, offset, key, micros, value in rows
        )

    def count_commits(self) -> int:
        return self._raw.where(_is_commit()).count()

    def count_other_topics(self) -> int:
        return count_other_topics(self._spark, self._options, self._damaged)


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
    """The records of groups in the columns of a `SortedRecord`, with the bytes of the group's id (see
    `folds.records`). Offset commits are left out in the JVM."""
    length = F.conv(F.hex(F.substring("key", 3, 2)), 16, 10).cast("int")
    group = F.when(F.length("key") >= 4, F.substring(F.col("key"), F.lit(5), length))
    records = raw.where(~_is_commit()).select(
        group.alias("group"),
        "partition",
        "offset",
        "key",
        F.unix_micros("timestamp").alias("micros"),
        "value",
    )
    return records if groups is None else records.where(_is_one_of(map(group_bytes, groups)))


def _is_one_of(groups: Iterable[bytes]) -> Column:
    return F.col("group").isin(*map(bytearray, groups))


# Inside the tasks


def _fold_batches(work: FoldWork) -> Any:
    import_path = tuple(sys.path)

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sys.path.extend(path for path in import_path if path not in sys.path)
        columns = ([column.to_pylist() for column in batch.columns] for batch in batches)
        records = (SortedRecord._make(row) for each in columns for row in zip(*each, strict=True))
        for output in fold_groups(records, work):
            yield pa.RecordBatch.from_pydict(
                {"output": [pickle.dumps(output, pickle.HIGHEST_PROTOCOL)]}, _OUTPUT
            )

    return fold
