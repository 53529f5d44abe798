"""Rows of `jobs.metrics` as the values of a result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from pyspark.sql import DataFrame, Row, Window
from pyspark.sql import functions as F

from kafka_assignors_spark.folds.rebalances import EAGER_STRATEGIES
from kafka_assignors_spark.folds.records import CONSUMER_PROTOCOL_TYPE
from kafka_assignors_spark.jobs.per_group import with_micros
from kafka_assignors_spark.options import Mode
from kafka_assignors_spark.result import GroupSummary, TimelineRow, Verdict
from kafka_assignors_spark.timestamps import from_micros

__all__ = ["group_summary", "timeline_of", "verdict_of"]

_TIMELINE_REBALANCES = 1_000
"""The latest rebalances of a group, strategy and mode that become rows of the timeline."""

_TIMELINE_ROWS = 200_000
"""How many rows these are in all, about: they have to fit into this process. Each series has one at least."""

_MAY_BE_UNKNOWN = {"rack_misses", "least_rack_misses", "paused_eager_s", "paused_cooperative_s"}


def group_summary(facts: Row, judged: Row | None) -> GroupSummary:
    not_replayed: dict[str, int] = {}
    if judged is not None:
        not_replayed.update(judged["not_replayed"] or {})
    elif facts["protocol_type"] not in (CONSUMER_PROTOCOL_TYPE, None, ""):
        not_replayed[f"members of protocol type {facts['protocol_type']!r} are no consumers"] = facts[
            "generations"
        ]
    protocols = tuple(facts["protocols"] or ())
    classic_protocols = facts["classic_protocols"] or ()
    cooperative, kip848 = facts["cooperative"], facts["kip848"]
    eager = not (cooperative or kip848) or EAGER_STRATEGIES.intersection(classic_protocols)
    return GroupSummary(
        group=facts["group"],
        generations=facts["generations"],
        rebalances=judged["rebalances"] if judged is not None else facts["generations"],
        replayed_rebalances=judged["replayed_rebalances"] if judged is not None else 0,
        not_replayed=not_replayed,
        incarnations=facts["incarnations"],
        skipped_numbers=facts["skipped_numbers"],
        clock_jumps=facts["clock_jumps"],
        protocols=protocols,
        rebalance_protocols=(("eager",) if eager else ())
        + (("cooperative",) if cooperative else ())
        + (("kip-848",) if kip848 else ()),
        clients=tuple(facts["clients"] or ()),
        min_members=facts["min_members"] or 0,
        max_members=facts["max_members"] or 0,
        topics=tuple(facts["topics"] or ()),
        max_partitions=(judged["max_partitions"] or 0) if judged is not None else 0,
        first_timestamp=from_micros(facts["first_timestamp"]),
        last_timestamp=from_micros(facts["last_timestamp"]),
        partition=facts["partition"],
        first_offset=facts["first_offset"],
        last_offset=facts["last_offset"],
        inferred_topics=tuple(judged["inferred_topics"]) if judged is not None else (),
    )


def verdict_of(row: Row) -> Verdict:
    values = row.asDict()
    values["mode"] = Mode(values["mode"])
    values["failures"] = tuple(values["failures"])
    # A strategy that failed every time has no figures.
    figures: dict[str, Any] = {
        name: 0 if value is None and name not in _MAY_BE_UNKNOWN else value for name, value in values.items()
    }
    return Verdict(**figures)


def timeline_of(replayed: DataFrame, groups: Sequence[str], series: int) -> tuple[TimelineRow, ...]:
    """The latest rebalances of these groups, of which each has so many series."""
    most = max(1, min(_TIMELINE_REBALANCES, _TIMELINE_ROWS // max(1, series * len(groups))))
    latest_first = Window.partitionBy("group", "strategy", "mode").orderBy(F.desc("offset"))
    names = [field.name for field in fields(TimelineRow) if field.name != "second_round"]
    rows = (
        with_micros(replayed.where(F.col("problem").isNull() & F.col("group").isin(*groups)))
        .withColumn("age", F.row_number().over(latest_first))
        .where(F.col("age") <= most)
        .select(*names, (F.col("rounds") > 1).alias("second_round"))
        .orderBy("group", "mode", "strategy", "offset")
    )
    return tuple(
        TimelineRow(**{**row, "mode": Mode(row["mode"]), "timestamp": from_micros(row["timestamp"])})
        for row in (each.asDict() for each in rows.collect())
    )
