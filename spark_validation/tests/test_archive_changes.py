"""A topic that is deleted, truncated or has wrong times: losses are reported, and no records are mixed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import KafkaCluster
from kafka_assignors_replay.archive.folder import ArchiveError
from kafka_assignors_replay.archive.run import ArchiveResult, run_archive
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import ReplayOptions
from spark_validation.tests.archived_topic import ArchivedTopic

DAY_MS = 86_400_000
YEAR_10000_MS = 253_402_300_800_000
BEFORE_YEAR_1_MS = -62_135_596_800_001
LEAST, MOST = -(2**63) + 1, 2**63 - 1


def test_a_topic_that_is_made_anew_while_it_is_archived_ends_the_archiver(topic: ArchivedTopic) -> None:
    anew = threading.Event()

    def on_progress(_: str, step: ArchiveResult) -> None:
        if step.counts.records == 3 and not anew.is_set():
            anew.set()
            topic.kafka.delete_topic(topic.name)
            topic.create()
            topic.write(16)

    topic.write(4)
    before = topic.expected()
    options = replace(topic.options, once=False, interval_seconds=0.1)
    with pytest.raises(ArchiveError, match=r"recreated, .*; this one stays readable"):
        run_archive(options, on_progress, lambda _: None, threading.Event())
    assert topic.archived() == before


def test_records_deleted_before_they_are_archived_are_named_and_the_others_archived(
    topic: ArchivedTopic,
) -> None:
    topic.write(8)
    # Below the archived offset: no record is lost.
    topic.run()
    topic.delete_records(1, before=4)
    # Above the archived offset, over more than one batch.
    topic.write(40)
    topic.delete_records(2, before=40)
    found = topic.run()
    assert [warning for warning in found.warnings if "the log begins at" in warning] == [
        f"{topic.name}[2]: the log begins at offset 40, and the archive ended at 8: 32 offsets were deleted "
        "before they were archived; run the archiver without --once, or more often than records are deleted"
    ]
    assert (found.counts.missing, found.complete) == (32, True)
    assert found.batches > 2
    kept = [row for row in topic.expected() if row[0] != 2]
    second = [row for row in topic.expected() if row[0] == 2]
    assert topic.archived() == kept + second[:2] + second[10:]


@pytest.fixture(scope="module")
def own_kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster() as cluster:
        yield cluster


@pytest.mark.exhaustive
class TestTruncatedLog:
    """Our own broker, which loses the log of a partition."""

    @pytest.fixture
    def lost(self, own_kafka: KafkaCluster, tmp_path: Path) -> ArchivedTopic:
        topic = ArchivedTopic(own_kafka, tmp_path / "archive")
        topic.write(8)
        topic.run()
        own_kafka.lose_log(1, topic.name, 2)
        return topic

    def test_a_log_that_is_shorter_than_its_archive_ends_the_archiver(self, lost: ArchivedTopic) -> None:
        before = lost.expected()
        lost.write(4)
        message = (
            rf"{lost.name}\[2\]: the log ends at offset 4, and .* has it up to 8: the log was truncated "
            r".* begin another archive; this one stays readable"
        )
        for once in (True, False):
            with pytest.raises(ArchiveError, match=message):
                lost.run(once=once)
        assert lost.archived() == before

    def test_a_log_that_has_grown_again_is_not_taken_for_the_old_one(self, lost: ArchivedTopic) -> None:
        before = lost.expected()
        lost.write(12)
        message = rf"{lost.name}\[2\]: the records before offset 8 are no longer those that were read"
        with pytest.raises(ArchiveError, match=message):
            lost.run()
        assert lost.archived() == before

    def test_a_broker_that_was_restarted_with_its_log_is_no_loss(
        self, own_kafka: KafkaCluster, tmp_path: Path
    ) -> None:
        topic = ArchivedTopic(own_kafka, tmp_path / "archive")
        for _ in range(2):
            topic.write(8)
            topic.run()
            own_kafka.restart(1)
        assert topic.run().complete
        assert topic.archived() == topic.expected()


@pytest.mark.exhaustive
def test_an_archiver_whose_broker_is_away_goes_on_when_it_is_back(
    own_kafka: KafkaCluster, tmp_path: Path
) -> None:
    topic, stop, warnings = ArchivedTopic(own_kafka, tmp_path / "archive"), threading.Event(), list[str]()
    killed: list[int] = []
    deadline = time.monotonic() + HANG_S

    def on_progress(_: str, step: ArchiveResult) -> None:
        if step.batches == 1 and not killed:
            killed.append(1)
            own_kafka.kill(1)
        if step.counts.records == 6 or time.monotonic() > deadline:
            stop.set()

    def on_warning(text: str) -> None:
        if "trying again" in text and not warnings:
            warnings.append(text)
            own_kafka.start(1)
            topic.write(4)

    topic.write(4)
    options = replace(topic.options, once=False, interval_seconds=0.1, timeout_seconds=2)
    run_archive(options, on_progress, on_warning, stop)
    assert warnings
    assert topic.archived() == topic.expected()


@pytest.mark.exhaustive
def test_every_time_that_a_producer_may_give_is_archived_and_replayed(topic: ArchivedTopic) -> None:
    dates_of = {
        1: "1970-01-01",
        20_000 * DAY_MS: "2024-10-04",
        10_000 * DAY_MS: "1997-05-19",
        -2: "1969-12-31",
        -DAY_MS: "1969-12-31",
        YEAR_10000_MS - 1: "9999-12-31",
        YEAR_10000_MS: "9999-12-31",
        BEFORE_YEAR_1_MS: "0001-01-01",
        MOST: "9999-12-31",
        LEAST: "0001-01-01",
        5 * DAY_MS: "1970-01-06",
    }
    topic.write_history(list(dates_of))
    found = topic.run(max_offsets_per_batch=1)
    assert (found.complete, found.counts.records) == (True, len(dates_of))
    rows = pq.read_table(topic.archive / "raw").to_pylist()
    rows.sort(key=lambda row: row["offset"])
    assert [str(row["date"]) for row in rows] == list(dates_of.values())
    assert [row["timestamp"].date().isoformat() for row in rows] == list(dates_of.values())
    for source in (
        {"path": str(topic.archive)},
        {"bootstrap_servers": topic.kafka.bootstrap, "topic": topic.name},
    ):
        options = ReplayOptions(strategies=("range",), **source)  # type: ignore[arg-type]
        assert run_replay(options, lambda _: None).history.records == len(dates_of)
