"""Sums over what was replayed, checked and recorded: the rows of the verdict.

`docs/replay.md` defines every figure.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kafka_assignors_spark.folds.generations import CLASSIC, CONSUMER
from kafka_assignors_spark.folds.records import RecordKind
from kafka_assignors_spark.options import RECORDED, Mode

__all__ = [
    "daily",
    "day",
    "digest",
    "group_facts",
    "misplaced",
    "record_counts",
    "replayed_facts",
    "verdicts",
]

_SHOWN_FAILURES = 5


def record_counts(events: DataFrame) -> DataFrame:
    """One row: what kinds of records the history has, and how many of each."""

    def count(condition: Column) -> Column:
        return F.count(F.when(condition, 1))

    kind = F.col("kind")
    classic = kind.isin(RecordKind.GENERATION.value, RecordKind.EMPTY.value, RecordKind.TOMBSTONE.value)
    return events.agg(
        F.sum("copies").alias("records"),
        F.sum(F.col("copies") - 1).alias("duplicates"),
        F.count_distinct(F.when(classic, F.col("group"))).alias("groups"),
        count(kind == RecordKind.GENERATION.value).alias("generations"),
        count(kind == RecordKind.EMPTY.value).alias("empty_generations"),
        count(kind == RecordKind.TOMBSTONE.value).alias("tombstones"),
        count(kind == RecordKind.KIP848.value).alias("kip848_records"),
        F.count_distinct(F.when(kind == RecordKind.KIP848.value, F.col("group"))).alias("kip848_groups"),
        count(kind == RecordKind.OTHER.value).alias("other_records"),
        count(F.col("reason").isNotNull()).alias("undecodable"),
        F.unix_micros(F.min("timestamp")).alias("first_timestamp"),
        F.unix_micros(F.max("timestamp")).alias("last_timestamp"),
    )


def misplaced(events: DataFrame) -> DataFrame:
    """One row: how many records have a partition, an offset or a time that no record of Kafka has."""
    no_number = {name: F.col(name).isNull() | (F.col(name) < 0) for name in ("partition", "offset")}
    no_place = {**no_number, "timestamp": F.col("timestamp").isNull()}
    return events.agg(*(F.count(F.when(wrong, 1)).alias(name) for name, wrong in no_place.items()))


def digest(events: DataFrame) -> int:
    """A digest that is equal for the same records in any order; for other records it differs, up to a chance
    of 1 in 2^64."""
    of_record = F.xxhash64("partition", "offset", "timestamp", "copies", "group", "key", "value", "reason")
    row = events.agg(F.bit_xor(of_record)).first()
    assert row is not None  # an aggregate without groups has one row
    return int(row[0] or 0)


def verdicts(replayed: DataFrame) -> DataFrame:
    """One row per group, strategy and mode over the rebalances that could be replayed."""
    return _figures(replayed, "group", "strategy", "mode").orderBy("group", "mode", "strategy")


def daily(replayed: DataFrame) -> DataFrame:
    """The verdicts per UTC day of the record, in the column `date`: the table `metrics`."""
    return _figures(replayed.withColumn("date", day()), "date", "group", "strategy", "mode")


def day() -> Column:
    """The UTC day of `timestamp`, regardless of the session's time zone."""
    return F.date_from_unix_date(F.floor(F.unix_seconds("timestamp") / 86_400).cast("int"))


def _figures(replayed: DataFrame, *keys: str) -> DataFrame:
    """The figures of the rows with the same `keys`.

    A rebalance that lacks a fact has one row, the recorded one, and is left out. A rebalance in which a
    strategy failed counts only as its failure.
    """
    judged = F.col("problem").isNull()
    spread = F.col("max_load") - F.col("min_load")
    could_stay = F.sum("could_stay")
    return (
        replayed.where(judged | (F.col("strategy") != RECORDED))
        .groupBy(*keys)
        .agg(
            F.count(F.when(judged, 1)).alias("rebalances"),
            F.sum(F.when(judged, F.col("rounds"))).alias("generations"),
            F.sum("moved").alias("moved"),
            F.sum("least_moved").alias("least_moved"),
            could_stay.alias("could_stay"),
            F.when(could_stay > 0, 1 - F.sum("moved") / could_stay).otherwise(1.0).alias("stickiness"),
            F.avg("max_over_mean").alias("max_over_mean"),
            F.max("max_over_mean").alias("worst_max_over_mean"),
            F.avg(spread).alias("max_minus_min"),
            F.max(spread).alias("worst_max_minus_min"),
            F.avg("load_stddev").alias("load_stddev"),
            F.count(F.when(F.col("rounds") > 1, 1)).alias("second_rounds"),
            F.sum("rack_misses").cast("long").alias("rack_misses"),
            F.sum("least_rack_misses").cast("long").alias("least_rack_misses"),
            F.sum("vacated").alias("vacated"),
            F.sum("paused_s").alias("paused_s"),
            *(
                F.when(F.count(name) == F.count(F.when(judged, 1)), F.sum(name)).alias(name)
                for name in ("paused_eager_s", "paused_cooperative_s")
            ),
            F.count(F.when(~judged, 1)).alias("failed"),
            F.slice(F.collect_set("problem"), 1, _SHOWN_FAILURES).alias("failures"),
        )
    )


def replayed_facts(replayed: DataFrame, modes: tuple[Mode, ...]) -> DataFrame:
    """One row per group: its logical rebalances, the number of judged ones, and the reasons for the
    others."""
    recorded = replayed.where((F.col("strategy") == RECORDED) & (F.col("mode") == modes[0].value))
    by_reason = (
        recorded.where(F.col("problem").isNotNull())
        .groupBy("group", "problem")
        .count()
        .groupBy("group")
        .agg(F.map_from_entries(F.collect_list(F.struct("problem", "count"))).alias("not_replayed"))
    )
    return (
        recorded.groupBy("group")
        .agg(
            F.count("*").alias("rebalances"),
            F.count(F.when(F.col("problem").isNull(), 1)).alias("replayed_rebalances"),
            F.max("partitions").alias("max_partitions"),
            F.array_sort(F.array_distinct(F.flatten(F.collect_list("inferred_topics")))).alias(
                "inferred_topics"
            ),
        )
        .join(by_reason, "group", "left")
    )


def group_facts(steps: DataFrame) -> DataFrame:
    """One row per group: the facts in its records, before any replay."""
    with_members = ~F.col("empty")
    size = F.when(with_members, F.col("member_count"))

    def all_of(each: Column) -> Column:
        return F.array_sort(F.array_distinct(F.flatten(F.collect_set(F.array_sort(F.array_distinct(each))))))

    in_order = F.array_sort(F.collect_list(F.when(with_members, F.struct("offset", "protocol", "type"))))

    def protocols_in(entries: Column) -> Column:
        return F.array_compact(F.array_distinct(F.transform(entries, lambda entry: entry["protocol"])))

    return (
        steps.groupBy("group")
        .agg(
            F.count(F.when(with_members & ~F.col("replacement"), 1)).alias("generations"),
            F.max("incarnation").alias("incarnations"),
            F.sum("skipped").alias("skipped_numbers"),
            F.count(F.when(F.col("clock_back"), 1)).alias("clock_jumps"),
            F.max("protocol_type").alias("protocol_type"),
            protocols_in(in_order).alias("protocols"),
            protocols_in(F.filter(in_order, lambda entry: entry["type"] == CLASSIC)).alias(
                "classic_protocols"
            ),
            F.max(with_members & (F.col("type") == CONSUMER)).alias("kip848"),
            F.max("holds").alias("cooperative"),
            all_of(F.col("clients")).alias("clients"),
            all_of(F.col("topics")).alias("topics"),
            F.min(size).alias("min_members"),
            F.max(size).alias("max_members"),
            F.unix_micros(F.min("timestamp")).alias("first_timestamp"),
            F.unix_micros(F.max("timestamp")).alias("last_timestamp"),
            F.min("partition").alias("partition"),
            F.min("offset").alias("first_offset"),
            F.max("offset").alias("last_offset"),
        )
        .orderBy("group")
    )
