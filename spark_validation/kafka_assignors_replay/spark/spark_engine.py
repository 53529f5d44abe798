"""The engine on Spark: one pass over the records.

The JVM cuts the group's id from the key, one shuffle brings the records of a group together, a sort within
the partitions orders them, and `history.group_fold.fold_sorted` turns them into sums, which are pickles:
the version of this package that reads them has written them.
"""

from __future__ import annotations

import gc
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from kafka_assignors_replay.engine import OBJECTS, OnTasks, Survey
from kafka_assignors_replay.history.group_fold import FoldWork, SortedRow, fold_sorted
from kafka_assignors_replay.history.records import OFFSET_COMMITS, group_bytes
from kafka_assignors_replay.history.sums import GroupSums
from kafka_assignors_replay.history_files import rows_by_name
from kafka_assignors_replay.result import TOPICS_NAMES, ReplayOptions
from kafka_assignors_replay.schemas import SORTED, TOPICS, record_batch
from kafka_assignors_replay.spark.read import read_first, recorded_records
from kafka_assignors_replay.spark.spark_session import one_line_errors, spark_session, task_progress

_TASK_BYTES = 4 << 20
_MOST_TASKS_A_CORE = 32
"""A task has about this many bytes of records: groups differ in size, and a core without a task idles."""

_RECORD_BYTES = 100
"""The bytes that a record counts in addition to its value."""

_PLACE = ("partition", "offset", "timestamp")

_OUTPUT = pa.schema([("sums", pa.binary())])


class SparkEngine:
    """See `engine.Engine`."""

    def __init__(
        self, options: ReplayOptions, damaged: frozenset[Path], on_tasks: OnTasks, closing: ExitStack
    ) -> None:
        self._path, self._damaged = options.path or "", damaged
        self._spark = closing.enter_context(spark_session(options.spark_config))
        closing.enter_context(one_line_errors())
        closing.enter_context(task_progress(self._spark, on_tasks))
        raw, self._others = recorded_records(self._spark, self._path, damaged, options.topic)
        # The rows in the columns of `SORTED`, and whether they are a `commit`, which has no group here.
        commit = F.coalesce(F.substring("key", 1, 2).isin(*map(bytearray, OFFSET_COMMITS)), F.lit(False))
        length = F.conv(F.hex(F.substring("key", 3, 2)), 16, 10).cast("int")
        group = F.when(~commit & (F.length("key") >= 4), F.substring(F.col("key"), F.lit(5), length))
        rows = raw.withColumns({"commit": commit, "g": group, "micros": F.unix_micros("timestamp")})
        self._rows = rows.select("commit", *SORTED.names)
        if options.groups is not None:
            self._rows = self._rows.where(F.col("commit") | _is_one_of(map(group_bytes, options.groups)))
        self._records = self._rows.where(~F.col("commit")).drop("commit")
        self._bytes = 0

    def survey(self) -> Survey:
        by_group = self._rows.groupBy("commit", "g").agg(
            F.expr("count(*) AS rows"),
            F.expr(f"sum(coalesce(length(value), 0) + {_RECORD_BYTES}) AS bytes"),
            F.expr("coalesce(min(partition) != max(partition), false) AS several"),
            F.expr("count_if(partition IS NULL OR partition < 0) AS partition"),
            F.expr("count_if(offset IS NULL OR offset < 0) AS offset"),
            F.expr("count_if(micros IS NULL) AS timestamp"),
        )
        of_all = by_group.agg(
            F.expr("sum(rows) FILTER (WHERE commit) AS commits"),
            F.expr("collect_list(g) FILTER (WHERE several) AS torn"),
            *(F.expr(f"sum({each}) FILTER (WHERE NOT commit) AS {each}") for each in ("bytes", *_PLACE)),
        )
        contents = self._records.withColumn("content", F.xxhash64("micros", "key", "value"))
        differ = F.expr("min(content) != max(content) AS differ")
        by_place = contents.groupBy("partition", "offset").agg(differ).where("differ")
        found = of_all.collect()[0].asDict()
        self._bytes = found["bytes"] or 0
        torn = frozenset(bytes(each) for each in found["torn"])
        collided = frozenset((row[0], row[1]) for row in by_place.collect())
        misplaced = {name: found[name] for name in _PLACE if found[name]}
        others = 0 if self._others is None else self._others.count()
        return Survey(torn, collided, misplaced, found["commits"] or 0, others)

    def catalogue_rows(self) -> tuple[str, list[dict[str, Any]]] | None:
        found = read_first(self._spark, self._path, TOPICS_NAMES, TOPICS, self._damaged)
        return found and (found[0], rows_by_name(found[1].toArrow(), TOPICS))

    def run(self, work: FoldWork) -> Iterator[GroupSums]:
        cores = self._spark.sparkContext.defaultParallelism
        tasks = min(max(cores, self._bytes // _TASK_BYTES), _MOST_TASKS_A_CORE * cores)
        rows = self._records.repartition(tasks, "g").sortWithinPartitions(*SORTED.names[:-1])
        # Spark's `DataFrame.mapInArrow` refuses to start without pandas, although neither it nor its workers
        # use pandas (4.0 to 4.3: the check is in `pandas_udf`, which only gives the function its type).
        kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        fold = UserDefinedFunction(_fold_batches(work), from_arrow_schema(_OUTPUT), "fold", kind)
        applied: Any = fold(*rows.columns)
        in_jvm: Any = rows._jdf
        folded = DataFrame(in_jvm.mapInArrow(applied._jc, False, None), self._spark).toArrow()
        return map(pickle.loads, folded["sums"].to_pylist())

    def records_of(self, groups: Iterable[bytes]) -> Iterator[SortedRow]:
        found = self._records.where(_is_one_of(groups)).orderBy(*SORTED.names[:-1]).toArrow()
        return zip(*(column.to_pylist() for column in found.columns), strict=True)


def _is_one_of(groups: Iterable[bytes]) -> Column:
    return F.col("g").isin(*map(bytearray, groups))


def _fold_batches(work: FoldWork) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that folds the batches of a task."""
    import_path = tuple(sys.path)

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sys.path.extend(path for path in import_path if path not in sys.path)
        gc.set_threshold(OBJECTS)
        columns = ((column.to_pylist() for column in batch.columns) for batch in batches)
        rows = (row for each in columns for row in zip(*each, strict=True))
        for sums in fold_sorted(rows, work):
            yield record_batch([(pickle.dumps(sums),)], _OUTPUT)

    return fold
