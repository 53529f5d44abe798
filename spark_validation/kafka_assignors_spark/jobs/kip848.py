"""KIP-848 groups on Spark: their many records become generations like those of classic groups.

`folds.kip848` does the folding, one record at a time; Spark brings the records of a group together and in
order. Groups that never were KIP-848 groups pass unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kafka_assignors.wire import (
    AssignedPartitions,
    ConsumerGroupKey,
    ConsumerGroupRecord,
    CurrentAssignment,
    decode_consumer_group_value,
    decode_key,
)
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.fast_decode import totals_of
from kafka_assignors_spark.folds.generations import CLASSIC, CONSUMER, TORN, FoldedGeneration
from kafka_assignors_spark.folds.kip848 import EpochFold
from kafka_assignors_spark.folds.records import CONSUMER_PROTOCOL_TYPE, MemberRecord, RecordKind
from kafka_assignors_spark.jobs.history import member_row
from kafka_assignors_spark.jobs.per_group import apply_to_groups, apply_to_rows
from kafka_assignors_spark.schemas import CURRENT, EVENTS, FOLDED
from kafka_assignors_spark.timestamps import from_micros, to_micros

__all__ = ["current", "fold", "named_topics"]

_OF_EVENTS = [field.name for field in EVENTS.fields if field.name in FOLDED.names]


def named_topics(events: DataFrame) -> Iterator[str]:
    """The topics that members of either protocol subscribe to; computed when the first is taken."""
    for row in events.select(F.explode("topics")).distinct().collect():
        yield row[0]


def fold(
    events: DataFrame, catalogue: Catalogue, keep: Callable[[DataFrame], DataFrame] = lambda rows: rows
) -> DataFrame:
    """`schemas.EVENTS` with generations in place of the records of KIP-848 groups, as `schemas.FOLDED`.

    The catalogue names the topics, which the records have by their ids. Every row of a torn group has that as
    its problem. `keep` receives the costly part, the generations of KIP-848 groups, so that the caller can
    cache it.
    """

    class Kip848Rows:
        """Spark makes one for every group, and hands it the group's records in order."""

        def __init__(self) -> None:
            self._folder = EpochFold(catalogue)

        def eval(self, row: Any) -> Iterator[tuple[Any, ...]]:
            if row["key"] is None:
                yield from self._classic(row)
                return
            key = decode_key(bytes(row["key"]))
            assert isinstance(key, ConsumerGroupKey)
            if row["kind"] == RecordKind.UNDECODABLE.value:
                self._folder.unreadable(key)
                return
            value = row["value"]
            said = None if value is None else decode_consumer_group_value(key.type, bytes(value))
            for generation in self._folder.feed(row["offset"], from_micros(row["timestamp"]), key, said):
                yield _folded_row(row, generation)

        def _classic(self, row: Any) -> Iterator[tuple[Any, ...]]:
            kind = row["kind"]
            continues = False
            if kind == RecordKind.TOMBSTONE.value:
                self._folder.classic_tombstone()
            elif kind in (RecordKind.GENERATION.value, RecordKind.EMPTY.value):
                continues = self._folder.classic(row["generation"], kind == RecordKind.GENERATION.value)
            yield (*(row[name] for name in _OF_EVENTS), None, CLASSIC, continues, None, 0, None, [], [])

    # A broadcast, so that the values of the other groups need no shuffle.
    of_kip848 = F.broadcast(events.where(F.col("kind") == RecordKind.KIP848.value).select("group").distinct())
    classic = events.select(*_OF_EVENTS).join(of_kip848, "group", "left_anti")
    folded = apply_to_groups(
        events.join(of_kip848, "group", "left_semi"), ("group",), ("partition", "offset"), Kip848Rows, FOLDED
    )
    rows = classic.unionByName(keep(folded), allowMissingColumns=True)
    return rows.join(F.broadcast(_torn(events)), "group", "left").select(
        *(F.coalesce("torn", "problem").alias(n) if n == "problem" else F.col(n) for n in FOLDED.names)
    )


def _torn(events: DataFrame) -> DataFrame:
    """The groups whose records lie in several partitions, each with that as a problem, `torn`.

    A group lives in the partition that its name chooses, so either the topic was given more partitions or
    these are records of two clusters.
    """
    several = F.min("partition") != F.max("partition")
    of_groups = events.where(F.col("group").isNotNull()).groupBy("group").agg(several.alias("several"))
    return of_groups.where("several").select("group", F.lit(TORN).alias("torn"))


def _folded_row(row: Any, generation: FoldedGeneration) -> tuple[Any, ...]:
    summary = totals_of(generation.members)
    return (
        row["partition"],
        generation.offset,
        to_micros(generation.timestamp),
        row["copies"],
        generation.kind.value,
        row["group"],
        None,
        CONSUMER_PROTOCOL_TYPE,
        None,
        generation.generation,
        generation.protocol,
        None,
        summary.count,
        list(summary.clients),
        list(summary.topics),
        summary.holds,
        sum(map(_bytes_of, generation.members)),
        None,
        [member_row(member) for member in generation.members],
        CONSUMER,
        generation.continues,
        generation.starts_late,
        generation.lost,
        generation.problem,
        list(generation.unknown_topics),
        list(generation.facts),
    )


def _bytes_of(member: MemberRecord) -> int:
    """The approximate size of the member in the value of a classic group."""
    texts = (member.member_id, member.client_id, member.client_host, *member.topics, *member.assigned)
    return sum(map(len, texts)) + 4 * sum(map(len, member.assigned.values()))


def current(events: DataFrame, catalogue: Catalogue) -> DataFrame:
    """The progress of members of KIP-848 groups towards their target: one row for each record, as
    `schemas.CURRENT`."""

    class CurrentRows:
        """Spark makes one per task, and hands it one record after the other."""

        def eval(self, row: Any) -> Iterator[tuple[Any, ...]]:
            key = decode_key(bytes(row["key"]))
            assert isinstance(key, ConsumerGroupKey)
            place = (row["group"], row["partition"], row["offset"], row["timestamp"], key.member_id)
            if row["value"] is None:
                yield (*place, None, None, None, None, None, None)
                return
            said = decode_consumer_group_value(key.type, bytes(row["value"]))
            assert isinstance(said, CurrentAssignment)
            unknown: set[str] = set()
            yield (
                *place,
                said.epoch,
                said.previous_epoch,
                said.state.name.lower().replace("_", " "),
                _by_name(said.assigned, catalogue, unknown),
                _by_name(said.pending_revocation, catalogue, unknown),
                sorted(unknown),
            )

    about = bytearray(ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT.to_bytes(2, "big"))
    progress = events.where(
        (F.col("kind") == RecordKind.KIP848.value) & (F.substring("key", 1, 2) == F.lit(about))
    )
    return apply_to_rows(progress, CurrentRows, CURRENT)


def _by_name(
    assigned: Sequence[AssignedPartitions], catalogue: Catalogue, unknown: set[str]
) -> Mapping[str, list[int]]:
    by_name: dict[str, list[int]] = {}
    for share in assigned:
        name = catalogue.name_of(share.topic_id)
        if name is None:
            unknown.add(share.topic_id)
        else:
            by_name[name] = list(share.partitions)
    return by_name
