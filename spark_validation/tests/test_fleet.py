"""The synthetic fleet: it is reproducible, and a replay can use all of it except the intended defects."""

from __future__ import annotations

from datetime import timezone
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.consumer_offsets import group_partition
from kafka_assignors_replay.history.rebalances import HISTORY_STARTS
from kafka_assignors_replay.history.records import MemberDecoder, RecordKind, decode_record
from kafka_assignors_replay.history_files import catalogue_rows
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import RECORDED, Mode, ReplayOptions, ReplayResult
from spark_validation.fleet import history
from spark_validation.fleet.life import Record, life
from spark_validation.fleet.profile import (
    FleetOptions,
    GroupProfile,
    generations_of_each,
    profile_of,
)
from spark_validation.tests.folding import fold, raw_rows

pytestmark = pytest.mark.exhaustive

SMALL = FleetOptions(groups=25, generations=500, days=0.1, seed=4)
WIDE = FleetOptions(groups=120, generations=3_000, days=1.0, seed=2)


def profiles(options: FleetOptions) -> list[GroupProfile]:
    return [profile_of(options, index, count) for index, count in enumerate(generations_of_each(options))]


@pytest.fixture(scope="module")
def lives() -> dict[GroupProfile, list[Record]]:
    return {profile: list(life(WIDE, profile)) for profile in profiles(WIDE)}


def test_the_fleet_is_the_same_for_any_division_of_the_work(spark: SparkSession) -> None:
    def records(options: FleetOptions, tasks: int) -> list[tuple[object, ...]]:
        return sorted(
            tuple(row) for row in history.raw(spark, options, tasks=tasks).drop("timestamp").collect()
        )

    once = records(SMALL, 1)
    assert records(SMALL, 7) == once
    assert records(FleetOptions(SMALL.groups, SMALL.generations, SMALL.days, seed=5), 1) != once


def test_a_fleet_has_the_generations_it_was_asked_for(lives: dict[GroupProfile, list[Record]]) -> None:
    made = sum(len(records) for records in lives.values())
    assert 0.75 * WIDE.generations < made < 1.25 * WIDE.generations


def test_a_few_groups_have_most_of_the_generations(lives: dict[GroupProfile, list[Record]]) -> None:
    sizes = sorted(map(len, lives.values()), reverse=True)
    assert sum(sizes[: len(sizes) // 5]) > 0.4 * sum(sizes)


def test_everything_that_is_to_happen_happens(lives: dict[GroupProfile, list[Record]]) -> None:
    for flaw in ("static", "racks", "flapping", "starts_late", "reborn"):
        assert {getattr(profile, flaw) for profile in lives} == {True, False}, flaw
    assert {profile.strategy for profile in lives} == {"range", "roundrobin", "sticky", "cooperative-sticky"}
    assert {profile.value_version for profile in lives} >= {2, 3, 4}
    assert any(len(profile.clients) > 1 for profile in lives)
    assert any(profile.topics != profile.later_topics for profile in lives)
    kinds = {decode_record(r.key, r.value).kind for records in lives.values() for r in records}
    assert kinds == {RecordKind.GENERATION, RecordKind.EMPTY, RecordKind.TOMBSTONE}


def test_members_decode_alike_whichever_records_were_decoded_before(
    lives: dict[GroupProfile, list[Record]],
) -> None:
    for records in lives.values():
        members = MemberDecoder()
        for record in records:
            alone = decode_record(record.key, record.value)
            assert decode_record(record.key, record.value, members) == alone


def test_time_goes_on_in_every_group(lives: dict[GroupProfile, list[Record]]) -> None:
    for records in lives.values():
        times = [record.at_ms for record in records]
        assert times == sorted(set(times))


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("fleet") / "out")
    history.write(spark, SMALL, path)
    return path


@pytest.fixture(scope="module")
def replayed(written: str) -> ReplayResult:
    options = ReplayOptions(
        path=written, strategies=("range", "cooperative-sticky"), modes=(Mode.STEADY_STATE,)
    )
    return run_replay(options, lambda _: None)


def test_every_record_decodes_and_lies_in_the_partition_of_its_group(
    spark: SparkSession, written: str, replayed: ReplayResult
) -> None:
    assert replayed.undecodable == ()
    assert replayed.history.groups == SMALL.groups
    for row in spark.read.parquet(f"{written}/raw").select("partition", "key").distinct().collect():
        group = decode_record(bytes(row["key"]), None).group
        assert group is not None
        assert row["partition"] == group_partition(group, SMALL.offsets_partitions)


@pytest.mark.parametrize("strategies", [("range",), ("roundrobin", "range"), ("sticky",)])
@pytest.mark.parametrize("modes", [(Mode.STEADY_STATE,), tuple(Mode)])
def test_a_row_depends_on_no_other_strategy_and_on_no_other_mode(
    written: str, strategies: tuple[str, ...], modes: tuple[Mode, ...]
) -> None:
    _, topics = catalogue_rows(written) or ("", [])
    catalogue = Catalogue.from_rows(topics)
    rows = [{**row, "timestamp": row["timestamp"].replace(tzinfo=timezone.utc)} for row in raw_rows(written)]
    every = ("cooperative-sticky", "range", "roundrobin", "sticky")
    everything = fold(rows, catalogue, strategies=every).tables["replayed"]
    alone = fold(rows, catalogue, strategies=strategies, modes=modes).tables["replayed"]
    found = [row for row in everything if row["strategy"] in (*strategies, RECORDED) and row["mode"] in modes]

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["group"], row["offset"], row["mode"], row["strategy"]

    assert len(alone) > SMALL.generations
    assert sorted(alone, key=place) == sorted(found, key=place)


def test_only_what_is_meant_to_be_missing_cannot_be_replayed(replayed: ReplayResult) -> None:
    late = {profile.group for profile in profiles(SMALL) if profile.starts_late}
    assert late
    for group in replayed.groups:
        assert set(group.not_replayed) == ({HISTORY_STARTS} if group.group in late else set())
        assert group.inferred_topics == ()


def test_its_leaders_are_believed_by_the_check_of_truth(replayed: ReplayResult) -> None:
    assert replayed.truth.holds
    assert sum(client.checked for client in replayed.truth.clients) > 100
    assert all(client.unexplained == 0 for client in replayed.truth.clients)
