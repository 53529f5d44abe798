"""Committed offsets in an archive: on request, each once wherever a run ends, without other changes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_replay.archive import ArchiveError, ArchiveOptions
from kafka_assignors_replay.archive.store import BatchWriter, Ledger, remove_files_of
from kafka_assignors_replay.engine_choice import ENGINES
from kafka_assignors_replay.folds.consumer_offsets import (
    OffsetCommit,
    OffsetCommitKey,
    encode_key,
    encode_offset_commit,
)
from kafka_assignors_replay.folds.rates import CommitThinner
from kafka_assignors_replay.history import rates_of_history
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.report.as_json import json_report
from kafka_assignors_replay.result import Mode, ReplayOptions
from kafka_assignors_replay.schemas import COMMITTED, REPORTED, REPORTED_WITH_COMMITS
from kafka_assignors_replay.source.messages import MessageCounts, RangeReport
from kafka_assignors_replay.spark.directory import Directory
from spark_validation.tests.archived_topic import ArchivedTopic
from spark_validation.tests.test_archive_writer import begun, killed_and_tried_again

MIDNIGHT = datetime(2026, 3, 2, tzinfo=timezone.utc)
COUNTS = MessageCounts(10, {2: 2}, 8, commits_kept=3, commits_undecodable=1)
REPORT = RangeReport(0, 0, 10, COUNTS, 1_772_323_200_000)
RECORDS = (
    (0, 3, MIDNIGHT - timedelta(milliseconds=1), b"\0\2a", b"before midnight"),
    (0, 8, MIDNIGHT, b"\0\2a", None),
)
COMMITS = (
    (0, 2, MIDNIGHT - timedelta(seconds=5), "g", "orders", 0, 17, 60),
    (0, 6, MIDNIGHT, "g", "orders", 0, 40, 60),
    (0, 7, MIDNIGHT, "g", "orders", 1, None, 60),
)


_RAW = "raw/*/*.parquet"


def batch(spark: SparkSession, report: RangeReport = REPORT, *, with_commits: bool = True) -> DataFrame:
    wide: list[tuple[object, ...]] = [(*row, *(None,) * 6) for row in RECORDS]
    wide += [(*row[:3], None, None, None, *row[3:]) for row in COMMITS]
    wide.append((report.partition, *(None,) * 4, report.to_json(), *(None,) * 5))
    if with_commits:
        return spark.createDataFrame(wide, from_arrow_schema(REPORTED_WITH_COMMITS))
    narrow = [row[:6] for row in wide if row[6] is None]
    return spark.createDataFrame(narrow, from_arrow_schema(REPORTED))


def committed(archive: Path) -> list[tuple[Any, ...]]:
    rows = pq.read_table(archive / "committed", partitioning=None).to_pylist()
    names = (
        "partition",
        "offset",
        "timestamp",
        "group",
        "topic",
        "topic_partition",
        "committed",
        "interval_s",
    )
    return sorted((tuple(row[name] for name in names) for row in rows), key=lambda row: row[:2])


def test_a_batch_with_commits_arrives_once_wherever_the_first_attempt_ends(
    spark: SparkSession, tmp_path: Path
) -> None:
    for path in killed_and_tried_again(spark, tmp_path, batch(spark).cache(), partitions=1):
        assert committed(path) == list(COMMITS)
        assert pq.read_table(path / "raw", partitioning=None).num_rows == len(RECORDS)
        latest = Ledger(Directory(spark, str(path))).latest
        assert latest is not None
        assert latest.counts == COUNTS


def test_the_records_are_the_same_bytes_with_commits_and_without(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("with", "without"):
        folder = Directory(spark, str(tmp_path / name))
        report = (
            REPORT
            if name == "with"
            else replace(REPORT, counts=replace(COUNTS, commits_kept=0, commits_undecodable=0))
        )
        BatchWriter(folder, begun(folder, partitions=1), "c").write(
            batch(spark, report, with_commits=name == "with")
        )
    files = [
        {file.relative_to(tmp_path / name): file.read_bytes() for file in (tmp_path / name).glob(_RAW)}
        for name in ("with", "without")
    ]
    assert len(files[0]) == 2
    assert files[0] == files[1]
    assert not (tmp_path / "without" / "committed").exists()


def test_commits_lie_by_date_in_their_own_columns(spark: SparkSession, tmp_path: Path) -> None:
    folder = Directory(spark, str(tmp_path))
    BatchWriter(folder, begun(folder, partitions=1), "c").write(batch(spark))
    files = sorted(tmp_path.glob("committed/*/*.parquet"))
    assert [file.parent.name for file in files] == ["date=2026-03-01", "date=2026-03-02"]
    assert {file.name for file in files} == {file.name for file in tmp_path.glob("raw/*/*.parquet")}
    found = pq.read_schema(files[0])
    columns = [each for each in COMMITTED if each.name != "date"]
    assert [(each.name, each.type) for each in found] == [(each.name, each.type) for each in columns]


def test_files_of_commits_that_no_run_would_complete_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("0000000003-aa.parquet", "0000000004-bb.parquet"):
        (tmp_path / "committed" / "date=2026-03-01").mkdir(parents=True, exist_ok=True)
        (tmp_path / "committed" / "date=2026-03-01" / name).touch()
    remove_files_of(Directory(spark, str(tmp_path)), 4)
    assert {file.name for file in tmp_path.glob("committed/*/*.parquet")} == {"0000000003-aa.parquet"}


# On a broker


def produced(topic: ArchivedTopic, rows: Sequence[tuple[int, int, bytes, bytes | None]]) -> None:
    """Write rows to partition 0: a time in milliseconds, the commit's partition, key and value."""
    producer = Producer({"bootstrap.servers": topic.kafka.bootstrap, "enable.idempotence": True})
    for timestamp_ms, _, key, value in rows:
        producer.produce(topic.name, value, key, partition=0, timestamp=timestamp_ms)  # type: ignore[arg-type]
    assert producer.flush(HANG_S) == 0


def commits(begin: int, count: int) -> Iterator[tuple[int, int, bytes, bytes | None]]:
    """Commits of three partitions, one every 700 ms. Each tenth is a tombstone, each ninth is invalid."""
    for number in range(begin, begin + count):
        partition = number % 3
        value: bytes | None = encode_offset_commit(OffsetCommit(3, number, "", 0))
        if number % 10 == 9:
            value = None
        elif number % 9 == 8:
            value = b"\0\3 and no commit"
        key = encode_key(OffsetCommitKey("g", "orders", partition))
        yield 1_772_323_200_000 + 700 * number, partition, key, value


def in_one(rows: Sequence[tuple[int, int, bytes, bytes | None]], interval_s: int) -> list[tuple[Any, ...]]:
    thinner = CommitThinner(interval_s)
    for offset, (timestamp_ms, _, key, value) in enumerate(rows):
        thinner.add(offset, timestamp_ms * 1_000, key, value)
    return [(each.offset, each.topic_partition, each.committed) for each in thinner.take()]


def test_small_batches_and_restarts_keep_what_one_reading_keeps(topic: ArchivedTopic) -> None:
    written = list(commits(0, 50))
    produced(topic, written)
    first = topic.run(committed_offsets_s=5)
    more = list(commits(50, 40))
    produced(topic, more)
    second = topic.run(committed_offsets_s=5)
    assert first.batches + second.batches >= 5
    assert (second.total.offset_commits, second.total.records) == (90, 0)
    hostile = sum(value is not None and value.endswith(b"no commit") for *_, value in (*written, *more))
    assert second.total.commits_undecodable == hostile
    rows = committed(topic.archive)
    assert second.total.commits_kept == len(rows)
    assert len({row[1] for row in rows}) == len(rows)
    last = {(row[5], int(row[2].timestamp()) // 5): (row[1], row[5], row[6]) for row in rows}
    assert sorted(last.values()) == in_one([*written, *more], 5)
    assert not (topic.archive / "raw").exists()

    # Without the option, no more commits are kept, and the kept ones stay.
    produced(topic, list(commits(90, 9)))
    third = topic.run()
    assert (third.counts.offset_commits, third.counts.commits_kept, third.counts.commits_undecodable) == (
        9,
        0,
        0,
    )
    assert committed(topic.archive) == rows


def test_an_interval_of_no_time_is_refused(topic: ArchivedTopic) -> None:
    with pytest.raises(ArchiveError, match="committed offsets has at least one second, not 0"):
        topic.run(committed_offsets_s=0)


RECORDS_A_ROUND = (450, 20, 20, 10)
"""The records of each partition: the first has nine tenths of the traffic."""


class RealGroup:
    """Members of librdkafka that consume a topic with uneven partitions and commit."""

    def __init__(self, kafka: Kafka) -> None:
        self.name = f"uneven-{time.time_ns()}"
        self._kafka = kafka
        kafka.create_topic(self.name, partitions=len(RECORDS_A_ROUND))
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap})
        self.members: list[Consumer] = []

    def join(self) -> None:
        """Add a member, and wait until each member has its share."""
        settings = {"group.id": self.name, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        member = Consumer({"bootstrap.servers": self._kafka.bootstrap, **settings})
        member.subscribe([self.name])
        self.members.append(member)
        share = len(RECORDS_A_ROUND) // len(self.members)
        self._until(lambda: all(len(member.assignment()) == share for member in self.members))

    def consume_a_round(self, number: int) -> None:
        """Write records, consume and commit them, and wait for the next second."""
        for partition, records in enumerate(RECORDS_A_ROUND):
            for _ in range(records):
                self._producer.produce(self.name, b"x", partition=partition)
        assert self._producer.flush(HANG_S) == 0
        read = [0] * len(RECORDS_A_ROUND)

        def all_read() -> bool:
            return read == list(RECORDS_A_ROUND)

        self._until(all_read, read)
        for member in self.members:
            member.commit(
                offsets=[
                    TopicPartition(self.name, each.partition, number * RECORDS_A_ROUND[each.partition])
                    for each in member.assignment()
                ],
                asynchronous=False,
            )
        second = int(time.time())
        while int(time.time()) == second:
            time.sleep(0.05)

    def _until(self, done: Any, read: list[int] | None = None) -> None:
        deadline = time.monotonic() + HANG_S
        while not done():
            assert time.monotonic() < deadline
            for member in self.members:
                message = member.poll(0.02)
                if message is not None and message.error() is None and read is not None:
                    read[message.partition() or 0] += 1

    def close(self) -> None:
        for member in self.members:
            member.close()


@pytest.fixture
def real_group(kafka: Kafka) -> Iterator[RealGroup]:
    group = RealGroup(kafka)
    yield group
    group.close()
    kafka.delete_topic(group.name)


@pytest.mark.exhaustive
def test_a_real_group_is_replayed_with_the_rates_at_which_it_consumed(
    spark: SparkSession, kafka: Kafka, topic: ArchivedTopic, real_group: RealGroup
) -> None:
    rounds = itertools.count(1)
    real_group.join()
    for _ in range(5):
        real_group.consume_a_round(next(rounds))
    real_group.join()
    for _ in range(3):
        real_group.consume_a_round(next(rounds))

    topic.options = ArchiveOptions(str(topic.archive), kafka.bootstrap, once=True, committed_offsets_s=1)
    archived = topic.run()
    assert archived.complete
    assert archived.counts.commits_kept >= 8 * len(RECORDS_A_ROUND)
    assert archived.counts.commits_undecodable == 0

    options = ReplayOptions(
        path=str(topic.archive), strategies=("range", "weighted"), groups=(real_group.name,)
    )
    found = [replace(run_replay(options, lambda _: None, engine=engine), seconds=0.0) for engine in ENGINES]
    assert json_report(found[0]) == json_report(found[1])
    assert found[0].warnings == ()
    by_strategy = {each.strategy: each for each in found[0].verdicts if each.mode is Mode.ONE_STEP}
    assert by_strategy["weighted"].rated >= 1
    assert by_strategy["weighted"].rate_over_bound == 1.0
    # range also gives partition 1 to the member with the heavy partition: 470 instead of 450.
    assert by_strategy["range"].worst_rate_over_bound == pytest.approx(470 / 450, rel=0.01)

    rates = rates_of_history(str(topic.archive), real_group.name, 100)[real_group.name]
    assert all(rate is not None for rate in rates)
    heavy, *_, light = (rate or 0 for rate in rates)
    assert heavy == pytest.approx(light * 45, rel=0.01)
