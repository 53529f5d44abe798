"""Why groups rebalanced, on Spark: `folds.causes` over every group, and the result's counts of causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.causes import CauseFinder
from kafka_assignors_spark.folds.rebalances import COLUMNS, Generation
from kafka_assignors_spark.jobs.metrics import day
from kafka_assignors_spark.jobs.per_group import apply_to_groups
from kafka_assignors_spark.result import Churn
from kafka_assignors_spark.schemas import CAUSES

__all__ = ["causes_of", "churn_by_day", "churn_of"]


def causes_of(steps: DataFrame, catalogue: Catalogue) -> DataFrame:
    """The causes of each generation in `history.steps`, as `schemas.CAUSES`."""

    class CauseRows:
        """Spark makes one for every group, and hands it the group's generations in order."""

        def __init__(self) -> None:
            self._finder = CauseFinder(catalogue)

        def eval(self, row: Any) -> Iterator[tuple[Any, ...]]:
            found = self._finder.feed(Generation.from_row(row))
            place = (row["group"], row["partition"], row["offset"], row["generation"], row["timestamp"])
            yield (*place, [cause.value for cause in found])

    rows = steps.select("partition", *COLUMNS)
    return apply_to_groups(rows, ("group",), ("partition", "offset"), CauseRows, CAUSES)


def churn_by_day(causes: DataFrame) -> DataFrame:
    """One row per day, group and cause in `schemas.CAUSES`: how many generations it made.

    A generation of several causes is in the row of each, so that the rows may add up to more than there are.
    """
    return (
        causes.withColumn("date", day())
        .select("date", "group", F.explode("causes").alias("cause"))
        .groupBy("date", "group", "cause")
        .agg(F.count("*").alias("generations"))
    )


def churn_of(churned: DataFrame) -> tuple[Churn, ...]:
    """The rows of `churn_by_day` over all days, the most frequent cause of each group first."""
    rows = (
        churned.groupBy("group", "cause")
        .agg(F.sum("generations").alias("generations"))
        .orderBy("group", F.desc("generations"), "cause")
    )
    return tuple(Churn(**row.asDict()) for row in rows.collect())
