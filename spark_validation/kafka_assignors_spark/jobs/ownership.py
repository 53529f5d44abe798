"""The owners of partitions over time, on Spark, for the few groups that a report draws."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_assignors_spark.folds.ownership import OwnershipFold
from kafka_assignors_spark.folds.rebalances import COLUMNS, Generation
from kafka_assignors_spark.jobs.per_group import apply_to_groups, with_micros
from kafka_assignors_spark.options import RECORDED
from kafka_assignors_spark.result import GroupSummary, OwnershipSpan, Verdict
from kafka_assignors_spark.schemas import OWNERSHIP
from kafka_assignors_spark.timestamps import from_micros

__all__ = ["drawn_groups", "ownership_of"]

_MOST_GROUPS = 20
_MOST_PARTITIONS = 120
_MOST_GENERATIONS = 200
_MOST_SPANS = 2_000


class _GroupOwnership:
    """Spark makes one for every group, and hands it the group's records in order."""

    def __init__(self) -> None:
        self._folder = OwnershipFold()

    def eval(self, row: Any) -> Iterator[tuple[Any, ...]]:
        for span in self._folder.feed(Generation.from_row(row)):
            yield span.row()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        for span in self._folder.finish():
            yield span.row()


def drawn_groups(groups: Iterable[GroupSummary], verdicts: Iterable[Verdict]) -> list[str]:
    """The groups with the most recorded moves, of those that are small enough to draw."""
    moved = {verdict.group: verdict.moved for verdict in verdicts if verdict.strategy == RECORDED}
    small = [g.group for g in groups if 0 < g.max_partitions <= _MOST_PARTITIONS and g.group in moved]
    return sorted(small, key=lambda group: (-moved[group], group))[:_MOST_GROUPS]


def ownership_of(steps: DataFrame, groups: Iterable[str]) -> tuple[OwnershipSpan, ...]:
    """The spans of ownership in the last generations of these groups, a bounded number for each group."""
    latest = Window.partitionBy("group").orderBy(F.desc("partition"), F.desc("offset"))
    of_groups = (
        steps.where(F.col("group").isin(*groups))
        .withColumn("age", F.row_number().over(latest))
        .where(F.col("age") <= _MOST_GENERATIONS)
        .select("partition", *COLUMNS)
    )
    spans = apply_to_groups(of_groups, ("group",), ("partition", "offset"), _GroupOwnership, OWNERSHIP)
    ended = Window.partitionBy("group").orderBy(F.desc("end"), "topic", "partition")
    rows = (
        with_micros(spans)
        .withColumn("age", F.row_number().over(ended))
        .where(F.col("age") <= _MOST_SPANS)
        .drop("age")
        .orderBy("group", "topic", "partition", "begin")
    )
    return tuple(
        OwnershipSpan(**{**row, "begin": from_micros(row["begin"]), "end": from_micros(row["end"])})
        for row in (each.asDict() for each in rows.collect())
    )
