"""The check of the machinery: what Spark computed is what the core computes here, row for row.

A few groups are drawn, their raw records are brought to this process, and replayed by plain Python without
any of Spark's part: no table function, no window over the history, no slices. Whatever differs is a defect of
ours and no result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_assignors.pauses import PauseModel
from kafka_assignors.protocol import decode_consumer_group_value
from kafka_assignors.strategies.contract import Strategy
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.decode import CONFLICT
from kafka_assignors_spark.folds.generations import CLASSIC, CONSUMER, TORN, FoldedGeneration
from kafka_assignors_spark.folds.kip848 import EpochFolder
from kafka_assignors_spark.folds.rebalances import Generation
from kafka_assignors_spark.folds.records import CONSUMER_PROTOCOL_TYPE, Event, Kind, decode_record
from kafka_assignors_spark.folds.replay import replay_group
from kafka_assignors_spark.jobs import history
from kafka_assignors_spark.jobs.per_group import with_micros
from kafka_assignors_spark.result import Mode, ReplayError, SampleCheck
from kafka_assignors_spark.schemas import REPLAYED
from kafka_assignors_spark.timestamps import from_micros

__all__ = ["check_sample", "draw", "local_generations"]

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
    # Of records that collide only one may be of these groups.
    of_groups = F.col("group").isin(*groups)
    places = ["partition", "offset"]
    conflicts = events.where((F.col("reason") == CONFLICT) & of_groups).select(*places).collect()
    collided = frozenset((row["partition"], row["offset"]) for row in conflicts)
    records = history.unique(history.only_groups(raw, groups))
    rows_of: dict[str, list[Any]] = {group: [] for group in groups}
    for row in with_micros(records).orderBy(*places).collect():
        group = decode_record(_bytes(row["key"]), None).group
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


def local_generations(
    rows: Iterable[Any], catalogue: Catalogue, collided: Set[tuple[int, int]] = frozenset()
) -> Iterator[Generation]:
    """The generations of one group of either protocol, or of both, from its raw records in order, timestamps
    in microseconds; `collided` are the places where others lie, too.

    It is what `consumer_groups.fold` and `history.generations` find in another way.
    """
    folder = EpochFolder(catalogue)
    records = list(rows)
    torn = len({row["partition"] for row in records}) > 1
    last: tuple[str, int | None] | None = None  # type and number; a tombstone has none
    incarnation = unreadable = 0
    for row in records:
        value = _bytes(row["value"])
        event = decode_record(_bytes(row["key"]), value)
        if (row["partition"], row["offset"]) in collided:
            event = replace(event, kind=Kind.UNDECODABLE, reason=CONFLICT)
        type_ = CLASSIC if event.part is None else CONSUMER
        unreadable += event.kind is Kind.UNDECODABLE and event.part is None
        for seen in _seen(folder, event, row["offset"], from_micros(row["timestamp"]), value):
            number, lost, unreadable = seen.generation, seen.lost + unreadable, 0
            last_type, previous = last or (type_, None)
            last = (type_, number)
            if number is None:
                continue
            if seen.continues:
                previous = number
            anew = number < (previous or 0) or (last_type != type_ and not seen.continues)
            starts = previous is None or (anew and not torn)
            incarnation += starts
            skipped = 0 if starts or torn or previous is None else max(number - previous - 1, 0)
            empty = seen.kind is Kind.EMPTY
            if type_ == CLASSIC and event.protocol_type != CONSUMER_PROTOCOL_TYPE and not empty:
                continue
            yield Generation(
                group=event.group or "",
                incarnation=incarnation,
                generation=number,
                offset=seen.offset,
                timestamp=seen.timestamp,
                protocol=seen.protocol or "",
                empty=empty,
                replacement=not (starts or torn) and number == previous,
                skipped=skipped,
                starts_late=starts and seen.starts_late,
                decodes=event.reason is None,
                members={member.member_id: member for member in seen.members},
                leader=event.leader,
                type=type_,
                lost=lost,
                problem=TORN if torn else seen.problem,
                facts=seen.facts,
            )


def _seen(
    folder: EpochFolder, event: Event, offset: int, timestamp: datetime, value: bytes | None
) -> Iterator[FoldedGeneration]:
    """The generation, or the end of the group, that a record is or completes."""
    if event.part is not None:
        if event.kind is Kind.UNDECODABLE:
            folder.unreadable(event.part)
            return
        said = None if value is None else decode_consumer_group_value(event.part.type, value)
        yield from folder.feed(offset, timestamp, event.part, said)
    elif event.kind is Kind.TOMBSTONE:
        folder.classic_tombstone()
        yield FoldedGeneration(event.kind, offset, timestamp)
    elif event.kind in (Kind.GENERATION, Kind.EMPTY) and event.generation is not None:
        yield FoldedGeneration(
            event.kind,
            offset,
            timestamp,
            event.generation,
            event.protocol,
            event.members,
            continues=folder.classic(event.generation, event.kind is Kind.GENERATION),
            starts_late=event.generation > 1,
        )


def _bytes(value: bytearray | bytes | None) -> bytes | None:
    return None if value is None else bytes(value)


def _tidy(row: Any) -> tuple[Any, ...]:
    """The values of a row, those to sort by first."""
    values = {name: row[name] for name in _NAMES}
    values["inferred_topics"] = tuple(values["inferred_topics"] or ())
    # What a strategy of somebody's raises may say another thing each time, such as where an object lies.
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
