"""From raw records to the history of groups: `raw -> events -> folded -> generations, members, …`.

Every function takes data frames and returns one; `tables` has their columns. This module records facts and
interprets none: a generation keeps its place in the group's life (incarnation, skipped numbers), and
`folds.rebalances` decides the meaning for a replay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from kafka_assignors_spark.folds.clients import client_of
from kafka_assignors_spark.folds.decode import decode_batches
from kafka_assignors_spark.folds.generations import CLASSIC, TORN
from kafka_assignors_spark.folds.rebalances import members_of
from kafka_assignors_spark.folds.records import CONSUMER_PROTOCOL_TYPE, MemberRecord, RecordKind
from kafka_assignors_spark.jobs.per_group import apply_to_batches, apply_to_rows
from kafka_assignors_spark.schemas import EVENTS, FACT, MEMBERS
from kafka_assignors_spark.source import key_prefixes

__all__ = [
    "assignments",
    "decode",
    "generations",
    "group_records",
    "member_row",
    "members",
    "only_groups",
    "steps",
    "undecodable",
    "unique",
]

_MOST_SKIPPED = 2**31 - 1


def group_records(raw: DataFrame) -> DataFrame:
    """`raw` without offset commits, which the first two bytes of the key identify, before any row reaches
    Python."""
    version = F.substring("key", 1, 2)
    commit = version.isin(bytearray(b"\0\0"), bytearray(b"\0\1"))
    return raw.where(F.col("key").isNull() | ~commit)


def only_groups(raw: DataFrame, groups: Iterable[str]) -> DataFrame:
    """The records of these groups alone. Every key has the group's id after its version."""
    wanted = F.lit(False)
    for prefix in key_prefixes(groups):
        wanted = wanted | (F.substring("key", 3, len(prefix)) == F.lit(bytearray(prefix)))
    return raw.where(wanted)


def unique(raw: DataFrame) -> DataFrame:
    """One row for each (partition, offset), with the number of `copies` found.

    Sinks repeat records after a crash, and archives overlap; those copies are equal. `conflict` says that
    they differ: the place has records of two clusters, or of a topic that was created again. Neither is known
    to be right, so the value is null; the least key and the greatest (with no copies) have a row each, so
    that both groups are known to lack a record.
    """
    contents = F.xxhash64("timestamp", "key", "value")
    conflict = F.col("conflict")
    several = conflict & (F.col("key") != F.col("last_key"))
    keys = F.when(several, F.array("key", "last_key")).otherwise(F.array("key"))
    return (
        raw.groupBy("partition", "offset")
        .agg(
            F.min("timestamp").alias("timestamp"),
            F.min("key").alias("key"),
            F.max("key").alias("last_key"),
            F.first("value").alias("value"),
            F.count("*").alias("copies"),
            (F.min(contents) != F.max(contents)).alias("conflict"),
        )
        .select("*", F.posexplode(keys).alias("place", "one_key"))
        .select(
            "partition",
            "offset",
            "timestamp",
            F.col("one_key").alias("key"),
            F.when(~conflict, F.col("value")).alias("value"),
            F.when(F.col("place") == 0, F.col("copies")).otherwise(0).alias("copies"),
            "conflict",
        )
    )


def decode(records: DataFrame) -> DataFrame:
    """`unique` records as `schemas.EVENTS`. A record that does not decode is a row that says why."""
    return apply_to_batches(records, decode_batches, EVENTS)


def undecodable(events: DataFrame) -> DataFrame:
    """The positions of records that do not decode, and of generations with a member that does not."""
    return events.where(F.col("reason").isNotNull()).select("partition", "offset", "group", "reason")


def _in_group() -> Any:
    """The records of one group in the order in which its coordinator wrote them."""
    return Window.partitionBy("group").orderBy("partition", "offset")


def generations(folded: DataFrame) -> DataFrame:
    """The generations of groups, from `jobs.kip848.fold`, with their place in the life of the group:

    * `type` is the protocol of the group: classic, or consumer for that of KIP-848.
    * `incarnation` counts from 1 the groups that were deleted and created again under the same name, which
      shows by the tombstone, by a generation that starts over, or by a change of protocol that is no
      migration.
    * `skipped` counts the numbers between this generation and the one recorded before it, and `gap_before`
      says that there are any. A generation is recorded when its leader's assignment arrives: one that the
      next join superseded never is, so skipped numbers alone are no lost history. `lost` counts lost records:
      records right before it that do not decode, and epochs of a KIP-848 group, which has a record of each.
    * `starts_late`: the first record seen of this incarnation, of a generation that cannot be its first.
    * `replacement`: the generation of the record before once more, as a restarted static member makes it, or
      a change of protocol.
    * `clock_back`: it is older, by the clock of the broker that wrote it, than the record before it. Offsets
      define the order.
    * `problem`: why members or partitions of a KIP-848 generation may be missing, or that the group is torn;
      null if there is no problem.
    """
    order = _in_group()
    continues = F.coalesce("continues", F.lit(False))
    type_ = F.coalesce("type", F.lit(CLASSIC))
    previous = F.when(continues, F.col("generation")).otherwise(F.lag("generation").over(order))
    ended = F.lag("kind").over(order) == RecordKind.TOMBSTONE.value
    other_type = F.lag(type_).over(order) != type_
    told = (RecordKind.GENERATION, RecordKind.EMPTY, RecordKind.TOMBSTONE, RecordKind.UNDECODABLE)
    unreadable = F.col("kind") == RecordKind.UNDECODABLE.value
    lives = (
        folded.where(F.col("group").isNotNull() & F.col("kind").isin(*(kind.value for kind in told)))
        .withColumn("unreadable", F.sum(unreadable.cast("int")).over(order))
        .where(~unreadable)
    )
    lost = F.coalesce("lost", F.lit(0)) + F.col("unreadable") - F.lag("unreadable", 1, 0).over(order)
    # The order of a torn group's records is not known, so its numbers show nothing.
    torn = F.coalesce(F.col("problem") == TORN, F.lit(False))
    anew: Column = ended | other_type | (F.col("generation") < previous)
    starts: Column = ~continues & (previous.isNull() | (~torn & anew))
    back = ~torn & F.coalesce(F.col("timestamp") < F.lag("timestamp").over(order), F.lit(False))
    marked = (
        lives.withColumn("previous", previous)
        .withColumn("starts", F.coalesce(starts, F.lit(True)))
        .withColumn("clock_back", back)
        .withColumn("lost", lost.cast("int"))
    )
    counted = marked.where(F.col("kind") != RecordKind.TOMBSTONE.value).withColumn(
        "incarnation", F.sum(F.col("starts").cast("int")).over(order).cast("int")
    )
    same_life = ~F.col("starts") & ~torn
    # A forged record may name any generation; the difference of two does not fit their type.
    between = F.col("generation").cast("long") - F.col("previous") - 1
    skipped = F.when(same_life, F.least(F.greatest(between, F.lit(0)), F.lit(_MOST_SKIPPED))).otherwise(0)
    return counted.select(
        "group",
        "partition",
        "offset",
        "timestamp",
        "incarnation",
        "generation",
        type_.alias("type"),
        "protocol_type",
        "protocol",
        "leader",
        "version",
        (F.col("kind") == RecordKind.EMPTY.value).alias("empty"),
        (same_life & (F.col("generation") == F.col("previous"))).alias("replacement"),
        skipped.cast("int").alias("skipped"),
        (skipped > 0).alias("gap_before"),
        "lost",
        (F.col("starts") & F.coalesce("starts_late", F.col("generation") > 1)).alias("starts_late"),
        "clock_back",
        "reason",
        "problem",
        F.coalesce("unknown_topics", F.array().cast("array<string>")).alias("unknown_topics"),
        F.coalesce("facts", F.array().cast(ArrayType(FACT))).alias("facts"),
        "member_count",
        "clients",
        "topics",
        "holds",
        "value_bytes",
    )


def _with_members(folded: DataFrame) -> DataFrame:
    return folded.where(F.col("kind") == RecordKind.GENERATION.value)


class _MemberReader:
    """The table function behind `members`."""

    def eval(self, row: Any) -> Iterator[tuple[Any, ...]]:
        for member in members_of(row):
            yield (row["group"], row["offset"], row["generation"], *member_row(member))


def member_row(member: MemberRecord) -> tuple[Any, ...]:
    """A member in the order of the columns of `schemas.MEMBERS` that are its own."""
    return (
        member.member_id,
        member.instance_id,
        member.rack,
        member.client_id,
        client_of(member.client_id),
        member.client_host,
        member.version,
        list(member.topics),
        {topic: list(partitions) for topic, partitions in member.owned.items()},
        member.owned_generation,
        member.revoked,
        {topic: list(partitions) for topic, partitions in member.assigned.items()},
        member.pattern,
        member.assignor,
    )


def members(folded: DataFrame) -> DataFrame:
    """The members of every generation, one row each, as `schemas.MEMBERS`."""
    columns = ("group", "offset", "generation", "value", "members")
    return apply_to_rows(_with_members(folded).select(*columns), _MemberReader, MEMBERS)


def assignments(members: DataFrame) -> DataFrame:
    """What members of a generation got, one row for each topic: its `topic` and `partitions`."""
    return members.select(
        "group", "offset", "generation", "member_id", F.explode("assigned").alias("topic", "partitions")
    )


def steps(generations: DataFrame, folded: DataFrame) -> DataFrame:
    """Generations with the columns that `rebalances.members_of` reads: the input of the replay and the
    accuracy check. Empty generations have no members.

    The join is a step of its own, after all windows, so that the bytes of hundreds of members are in no
    window.
    """
    members = _with_members(folded).select("partition", "offset", "value", "members")
    return generations.join(members, ["partition", "offset"], "left")


def of_consumers(steps: DataFrame) -> DataFrame:
    """The steps of consumer groups alone; an empty group may have no protocol type."""
    return steps.where((F.col("protocol_type") == CONSUMER_PROTOCOL_TYPE) | F.col("empty"))
