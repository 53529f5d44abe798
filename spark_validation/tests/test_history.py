"""Raw records become generations and members, and what cannot be read is said, not lost."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_assignors.wire import OffsetCommitKey, encode_key
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.rebalances import Generation
from kafka_assignors_spark.folds.records import RecordKind
from kafka_assignors_spark.jobs import history, kip848
from kafka_assignors_spark.jobs.per_group import with_micros
from kafka_assignors_spark.jobs.read import recorded_records
from spark_validation.tests.groups import START, Log, member, write_history

ALL = {"orders": [0, 1, 2, 3]}


def story() -> Log:
    """One partition with everything that can happen to groups in it."""
    log = Log()
    log.generation("g", 0)
    log.append(encode_key(OffsetCommitKey("g", "orders", 0)), b"")
    log.generation("g", 1, member("a", gets=ALL))
    log.generation("g", 1, member("a2", gets=ALL))
    log.generation("late", 7, member("x", gets=ALL))
    log.generation("g", 4, member("a2", gets={"orders": [0, 1]}), member("b", gets={"orders": [2, 3]}))
    log.generation("g", 5)
    log.tombstone("g")
    log.tombstone("g")
    log.generation("g", 1, member("c", gets=ALL))
    log.epoch("g-kip848-static", 2)
    log.append(b"\x7f\xff", b"\1")
    return log


NO_TOPICS = Catalogue(())


@pytest.fixture(scope="module")
def events(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    path = write_history(tmp_path_factory.mktemp("history"), story())
    return decoded(spark, path)


def decoded(spark: SparkSession, path: str) -> DataFrame:
    return history.decode(history.unique(history.group_records(recorded_records(spark, path)))).cache()


def generations_of(events: DataFrame, catalogue: Catalogue = NO_TOPICS) -> DataFrame:
    return history.generations(kip848.fold(events, catalogue))


def test_each_record_is_of_one_kind(events: DataFrame) -> None:
    kinds = [row["kind"] for row in events.orderBy("offset").collect()]
    generation, tombstone = RecordKind.GENERATION.value, RecordKind.TOMBSTONE.value
    assert kinds == [
        RecordKind.EMPTY.value,
        *[generation] * 4,
        RecordKind.EMPTY.value,
        *[tombstone] * 2,
        generation,
        RecordKind.KIP848.value,
        RecordKind.OTHER.value,
    ]


def test_generations_know_their_place_in_the_life_of_the_group(events: DataFrame) -> None:
    rows = generations_of(events).where("group = 'g'").orderBy("offset").collect()
    facts = [
        (
            row["incarnation"],
            row["generation"],
            row["empty"],
            row["replacement"],
            row["skipped"],
            row["gap_before"],
        )
        for row in rows
    ]
    assert facts == [
        (1, 0, True, False, 0, False),
        (1, 1, False, False, 0, False),
        (1, 1, False, True, 0, False),
        (1, 4, False, False, 2, True),
        (1, 5, True, False, 0, False),
        (2, 1, False, False, 0, False),
    ]
    assert not any(row["starts_late"] for row in rows)


def test_a_first_generation_that_cannot_be_the_first_starts_late(events: DataFrame) -> None:
    (row,) = generations_of(events).where("group = 'late'").collect()
    assert row["starts_late"]
    assert row["skipped"] == 0


def test_a_group_that_starts_over_without_a_tombstone_is_another_incarnation(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log()
    for number in (1, 2, 1, 2):
        log.generation("g", number, member("a", gets=ALL))
    rows = generations_of(decoded(spark, write_history(tmp_path, log))).orderBy("offset").collect()
    assert [row["incarnation"] for row in rows] == [1, 1, 2, 2]


def test_members_have_what_they_asked_for_and_what_they_got(events: DataFrame) -> None:
    folded = kip848.fold(events, NO_TOPICS)
    rows = history.members(folded).where("generation = 4").orderBy("member_id").collect()
    assert [(row["member_id"], row["topics"], row["assigned"], row["client"]) for row in rows] == [
        ("a2", ["orders"], {"orders": [0, 1]}, "java"),
        ("b", ["orders"], {"orders": [2, 3]}, "java"),
    ]


def test_steps_carry_the_members_of_each_generation(events: DataFrame) -> None:
    folded = kip848.fold(events, NO_TOPICS)
    steps = history.steps(history.generations(folded), folded)
    records = [Generation.from_row(row) for row in with_micros(steps).collect()]
    assert {record.offset: sorted(record.members) for record in records} == {
        0: [],
        2: ["a"],
        3: ["a2"],
        4: ["x"],
        5: ["a2", "b"],
        6: [],
        9: ["c"],
        10: [],
    }


def test_generations_are_summed_up(events: DataFrame) -> None:
    rows = generations_of(events).where("group = 'g'").orderBy("offset").collect()
    assert [(row["member_count"], row["clients"], row["topics"], row["holds"]) for row in rows] == [
        (0, [], [], False),
        (1, ["java"], ["orders"], False),
        (1, ["java"], ["orders"], False),
        (2, ["java"], ["orders"], False),
        (0, [], [], False),
        (1, ["java"], ["orders"], False),
    ]


def test_timestamps_stay_the_instants_they_were(events: DataFrame) -> None:
    rows = with_micros(events).select("offset", "timestamp").collect()
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    seen = {row["offset"]: epoch + timedelta(microseconds=row["timestamp"]) for row in rows}
    assert all(instant == START + timedelta(seconds=offset) for offset, instant in seen.items())


def test_records_that_do_not_decode_are_listed_with_place_and_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log()
    log.generation("g", 1, member("a", gets=ALL))
    whole = log.records[0]["value"]
    key = log.records[0]["key"]
    assert isinstance(whole, bytes)
    assert isinstance(key, bytes)
    log.append(key, whole[:-3])
    log.append(key[:-1], whole)
    log.append(None, whole)
    log.append(key, whole.replace(b"orders", b"\xff\xfe\xfd\xfc\xfb\xfa"))
    events = decoded(spark, write_history(tmp_path, log))
    listed = history.undecodable(events).orderBy("offset").collect()
    assert [(row["partition"], row["offset"], row["group"]) for row in listed] == [
        (0, 1, "g"),
        (0, 2, None),
        (0, 3, None),
        (0, 4, "g"),
    ]
    assert "assignment" in listed[0]["reason"]
    assert listed[2]["reason"] == "key: is null"
    assert "member 'a'" in listed[3]["reason"]
    assert events.where("kind = 'undecodable'").count() == 3


def test_copies_are_counted_and_conflicting_records_are_not_chosen_between(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log()
    for number in (1, 2):
        log.generation("g", number, member("a", gets=ALL))
    log.records += [dict(log.records[0]), {**log.records[1], "value": b"\0\3"}]
    events = decoded(spark, write_history(tmp_path, log)).orderBy("offset").collect()
    assert [(row["offset"], row["copies"], row["kind"]) for row in events] == [
        (0, 2, "generation"),
        (1, 2, "undecodable"),
    ]
    assert "different records" in events[1]["reason"]


def test_groups_are_picked_by_their_whole_name(spark: SparkSession, tmp_path: Path) -> None:
    log = Log()
    for group in ("g", "gg", "ü", "g-1"):
        log.generation(group, 1, member("a", gets=ALL))
    raw = recorded_records(spark, write_history(tmp_path, log))
    events = history.decode(history.unique(history.only_groups(raw, ["g", "ü"])))
    assert sorted(row["group"] for row in events.collect()) == ["g", "ü"]
