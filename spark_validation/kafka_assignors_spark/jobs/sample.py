"""The check of the machinery: Spark's rows equal those that plain Python computes, row by row.

The check draws a few groups, collects their raw records, and replays them in plain Python without any of
Spark's part: no table function, no window over the history, no slices. Every difference is a defect, and an
error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_assignors.pause_model import PauseModel
from kafka_assignors.strategy import Strategy
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.decode import CONFLICT
from kafka_assignors_spark.folds.local import bytes_of, local_generations
from kafka_assignors_spark.folds.records import decode_record
from kafka_assignors_spark.folds.replay import replay_group
from kafka_assignors_spark.jobs import history
from kafka_assignors_spark.jobs.per_group import with_micros
from kafka_assignors_spark.options import Mode, ReplayError
from kafka_assignors_spark.result import SampleCheck
from kafka_assignors_spark.schemas import REPLAYED

__all__ = ["check_sample", "draw"]

_MOST_GENERATIONS = 200
_MOST_BYTES = 1 << 20
_NAMES = REPLAYED.fieldNames()
_KEY = ("offset", "mode", "strategy")


def draw(generations: DataFrame, groups: int, seed: int) -> tuple[str, ...]:
    """Some groups of `history.generations`, the same for the same seed, none too large for one process."""
    small = (
        generations.groupBy("group")
        .agg(F.count("*").alias("generations"), F.sum("value_bytes").alias("bytes"))
        .where((F.col("generations") <= _MOST_GENERATIONS) & (F.coalesce("bytes", F.lit(0)) <= _MOST_BYTES))
    )
    drawn = small.orderBy(F.xxhash64("group", F.lit(seed)), "group").limit(groups)
    return tuple(row["group"] for row in drawn.collect())


def check_sample(
    raw: DataFrame,
    events: DataFrame,
    replayed: DataFrame,
    groups: Sequence[str],
    catalogue: Catalogue,
    strategies: Mapping[str, Strategy],
    modes: Sequence[Mode],
    pauses: PauseModel,
) -> SampleCheck:
    """Replay these groups here, from `raw` records; `ReplayError` if `replayed` differs."""
    if not groups:
        return SampleCheck((), 0)
    # Of colliding records only one may belong to these groups.
    of_groups = F.col("group").isin(*groups)
    places = ["partition", "offset"]
    conflicts = events.where((F.col("reason") == CONFLICT) & of_groups).select(*places).collect()
    collided = frozenset((row["partition"], row["offset"]) for row in conflicts)
    records = history.unique(history.only_groups(raw, groups))
    rows_of: dict[str, list[Any]] = {group: [] for group in groups}
    for row in with_micros(records).orderBy(*places).collect():
        group = decode_record(bytes_of(row["key"]), None).group
        if group in rows_of:
            rows_of[group].append(row)
    computed: dict[str, list[tuple[Any, ...]]] = {group: [] for group in groups}
    for row in with_micros(replayed.where(of_groups)).collect():
        computed[row["group"]].append(_tidy(row))
    rows = 0
    for group in groups:
        generations = local_generations(rows_of[group], catalogue, collided)
        expected = [
            _tidy(dict(zip(_NAMES, each.row(), strict=True)))
            for each in replay_group(generations, catalogue, strategies, modes, pauses)
        ]
        _compare(group, expected, computed[group])
        rows += len(expected)
    return SampleCheck(tuple(groups), rows)


def _tidy(row: Any) -> tuple[Any, ...]:
    """The values of a row, those to sort by first."""
    values = {name: row[name] for name in _NAMES}
    values["inferred_topics"] = tuple(values["inferred_topics"] or ())
    # The error text of a user's strategy may differ in each run, for example by the address of an object.
    values["problem"] = values["problem"] and values["problem"].partition(":")[0]
    return (*(values[name] for name in _KEY), values)


def _compare(group: str, expected: list[tuple[Any, ...]], computed: list[tuple[Any, ...]]) -> None:
    key = len(_KEY)
    here, there = ({each[:key]: each[key] for each in rows} for rows in (expected, computed))
    differing = sorted(place for place in here.keys() | there.keys() if here.get(place) != there.get(place))
    if not differing and len(expected) == len(computed):
        return
    if not differing:
        raise ReplayError(
            f"group {group!r}: Spark has {len(computed)} rows of it, and {len(expected)} are right"
        )
    place = differing[0]
    one, other = here.get(place), there.get(place)
    if one is None or other is None:
        what = "no such row here" if one is None else "no such row from Spark"
    else:
        what = "; ".join(
            f"{name} is {other[name]!r} from Spark and {one[name]!r} here"
            for name in _NAMES
            if one[name] != other[name]
        )
    raise ReplayError(
        f"Spark and this process replay group {group!r} differently, in {len(differing)} rows; first at "
        f"offset {place[0]}, {place[1]}, strategy {place[2]!r}: {what}. Do the executors have the same "
        "version of kafka-assignors and of the strategies, and do these depend on nothing but the group?"
    )
