"""The clients and deployments that made groups rebalance, on Spark: `folds.faults` over every group, and the
result's summary."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_assignors_spark.folds.faults import FaultFinder, FaultKind, FaultRules
from kafka_assignors_spark.folds.rebalances import COLUMNS, Generation
from kafka_assignors_spark.jobs.per_group import apply_to_groups, with_micros
from kafka_assignors_spark.result import Culprit
from kafka_assignors_spark.schemas import FAULTS
from kafka_assignors_spark.timestamps import from_micros

__all__ = ["culprits_of", "find_faults"]

_MOST_CULPRITS = 20
"""Of each group, those that made it rebalance most often; the table `faults` has all."""

_SUMS = ("joins", "leaves", "restarts", "expiries", "generations", "alone")


def find_faults(steps: DataFrame, rules: FaultRules) -> DataFrame:
    """The clients and deployments that made the groups of `history.steps` rebalance, as `schemas.FAULTS`."""

    class GroupFaults:
        """Spark makes one for every group, and hands it the group's records in order."""

        def __init__(self) -> None:
            self._finder = FaultFinder(rules)

        def eval(self, row: Any) -> Iterator[tuple[Any, ...]]:
            for fault in self._finder.feed(Generation.from_row(row)):
                yield fault.row()

        def terminate(self) -> Iterator[tuple[Any, ...]]:
            for fault in self._finder.finish():
                yield fault.row()

    rows = steps.select("partition", *COLUMNS)
    return apply_to_groups(rows, ("group",), ("partition", "offset"), GroupFaults, FAULTS)


def culprits_of(faults: DataFrame) -> tuple[Culprit, ...]:
    """The rows of `find_faults` over all days: of each group, those that made it rebalance most often."""
    who = ("client_id", "client_host", "instance_id")
    ranked = Window.partitionBy("group").orderBy(F.desc("generations"), "kind", "first_timestamp", *who)
    rows = (
        faults.groupBy("group", "kind", *who)
        .agg(
            F.max_by("member_id", "last_timestamp").alias("member_id"),
            F.count("*").alias("episodes"),
            F.max("members").alias("members"),
            *(F.sum(name).alias(name) for name in _SUMS),
            F.min("first_timestamp").alias("first_timestamp"),
            F.max("last_timestamp").alias("last_timestamp"),
        )
        .withColumn("rank", F.row_number().over(ranked))
        .where(F.col("rank") <= _MOST_CULPRITS)
        .orderBy("group", "rank")
        .drop("rank")
    )
    return tuple(_culprit(row.asDict()) for row in with_micros(rows).collect())


def _culprit(values: dict[str, Any]) -> Culprit:
    for name in ("first_timestamp", "last_timestamp"):
        values[name] = from_micros(values[name])
    return Culprit(**{**values, "kind": FaultKind(values["kind"])})
