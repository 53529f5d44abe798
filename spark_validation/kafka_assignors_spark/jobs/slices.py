"""A replay of any size, slice by slice: bounded work at a time, and a place to go on from.

The work is measured in bytes of records, which grow with members and partitions alike. A group with more than
`chunk_bytes` of them is a giant: it is cut into chunks of consecutive generations, one for each slice, and
the state at the end of one is where the next begins. Its chunks run in several parts, the strategies beside
each other. Every other group is complete in one slice, by a hash of its name.

A slice that is done is kept: in Spark's memory and on its disks, or as Parquet in the directory of a
checkpoint, from which a later run continues.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kafka_assignors.pause_model import PauseModel
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.jobs.replay import parts_of, replay_chunk, without_states
from kafka_assignors_spark.options import Mode

__all__ = ["InMemorySlices", "Limits", "SliceStore", "in_slices", "plan", "replay_slices"]

_RECORD_BYTES = 100
"""The cost of a record beside its value, in bytes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is replayed at a time: of one group, and of all of them."""

    chunk_bytes: int = 64 << 20
    slice_bytes: int = 512 << 20


class SliceStore(Protocol):
    """A place that keeps slices."""

    def keep(self, number: int, rows: DataFrame) -> DataFrame:
        """The rows of this slice, computed now if they are not there yet."""
        ...


class InMemorySlices:
    """A store that lasts as long as this process."""

    def __init__(self, keep: Callable[[DataFrame], DataFrame]) -> None:
        self._keep = keep

    def keep(self, number: int, rows: DataFrame) -> DataFrame:
        kept = self._keep(rows)
        kept.count()
        return kept


def plan(generations: DataFrame, limits: Limits) -> tuple[DataFrame, int]:
    """`history.generations` with the `slice` of each, whether its group is `giant`, and whether its slice is
    the `last` one of its group; and how many slices there are."""
    size = F.coalesce("value_bytes", F.lit(0)) + _RECORD_BYTES
    in_group = Window.partitionBy("group").orderBy("partition", "offset")
    before = F.sum(size).over(in_group.rowsBetween(Window.unboundedPreceding, -1))
    chunk = F.floor(F.coalesce(before, F.lit(0)) / limits.chunk_bytes).cast("int")
    chunked = generations.withColumn("chunk", chunk).withColumn(
        "last_chunk", F.max("chunk").over(Window.partitionBy("group"))
    )
    total = chunked.agg(F.max("last_chunk").alias("last_chunk"), F.sum(size).alias("bytes")).collect()[0]
    slices = max(1, (total["last_chunk"] or 0) + 1, math.ceil((total["bytes"] or 0) / limits.slice_bytes))
    giant = F.col("last_chunk") > 0
    planned = chunked.select(
        *generations.columns,
        F.when(giant, F.col("chunk"))
        .otherwise(F.pmod(F.xxhash64("group"), F.lit(slices)))
        .cast("int")
        .alias("slice"),
        giant.alias("giant"),
        (F.col("chunk") == F.col("last_chunk")).alias("last"),
    )
    return planned, slices


def in_slices(steps: DataFrame) -> DataFrame:
    """`history.steps` of a `plan` in an order in which a slice is found without reading the others: Spark
    knows the least and the greatest value of each cached batch."""
    return steps.repartition("group").sortWithinPartitions("slice")


def replay_slices(
    steps: DataFrame,
    slices: int,
    catalogue: Catalogue,
    strategies: Sequence[str],
    modes: Sequence[Mode],
    store: SliceStore,
    *,
    pauses: PauseModel | None = None,
    on_slice: Callable[[int], None] = lambda _: None,
) -> DataFrame:
    """`history.steps` of a `plan`, replayed as `schemas.REPLAYED`. `on_slice` hears which slice is begun."""
    parts = parts_of(strategies, modes)
    apart = F.array(*(F.lit(number) for number in range(1, len(parts))))
    done: list[DataFrame] = []
    for number in range(slices):
        on_slice(number)
        chunks = steps.where(F.col("slice") == number).withColumn(
            "part", F.explode(F.when(F.col("giant"), apart).otherwise(F.array(F.lit(0))))
        )
        states = done[-1].where(F.col("state").isNotNull()) if done else None
        done.append(store.keep(number, replay_chunk(chunks, states, catalogue, parts, pauses)))
    return without_states(reduce(DataFrame.unionAll, done))
