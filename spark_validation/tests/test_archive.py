"""An archive of a topic on a real broker: every record once, in bounded batches, and ready for a replay."""

from __future__ import annotations

import json
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_cli.app import run
from kafka_assignors_replay.archive import run as run_module
from kafka_assignors_replay.archive.folder import ArchiveError
from kafka_assignors_replay.archive.run import ArchiveResult, run_archive
from kafka_assignors_replay.replay import run_replay
from kafka_assignors_replay.result import ReplayError, ReplayOptions
from spark_validation.tests.archived_topic import ArchivedTopic
from spark_validation.tests.groups import Log, member


def test_every_group_record_is_archived_once_in_batches_of_bounded_size(topic: ArchivedTopic) -> None:
    topic.write(16)
    first = topic.run()
    assert topic.archived() == topic.expected()
    assert (first.counts.offsets, first.counts.records, first.counts.offset_commits) == (48, 12, 36)
    assert first.counts.missing == 0
    assert first.complete
    assert (first.batches, first.lag_offsets) == (3, 0)
    json.dumps(first.to_json())

    # A run without new group records writes nothing. It reads the offset commits after the newest file again.
    files = sorted(topic.archive.rglob("*.parquet"))
    again = topic.run()
    assert (again.batches, again.counts.records) == (0, 0)
    assert sorted(topic.archive.rglob("*.parquet")) == files
    topic.write(8)
    more = topic.run()
    assert topic.archived() == topic.expected()
    assert more.counts.records == 6

    # Records that the broker deletes before the archiver reads them are counted, and the archive continues.
    topic.write(8)
    admin = AdminClient({"bootstrap.servers": topic.kafka.bootstrap})
    for future in admin.delete_records([TopicPartition(topic.name, 2, 28)]).values():
        future.result()
    topic.written = (
        [row for row in topic.written if row[0] != 2]
        + [row for row in topic.written if row[0] == 2][:6]
        + [row for row in topic.written if row[0] == 2][7:]
    )
    gone = topic.run()
    assert gone.counts.missing == 4
    assert "4 of 24 offsets had no record any more" in gone.warnings[-1]
    assert topic.archived() == topic.expected()


def test_the_archive_goes_on_until_it_is_told_to_stop(topic: ArchivedTopic) -> None:
    stop, deadline = threading.Event(), time.monotonic() + HANG_S

    def on_progress(_: str, step: ArchiveResult) -> None:
        if step.counts.records == 3 and len(topic.written) == 3:
            topic.write(4)
        if step.counts.records == 6 or time.monotonic() > deadline:
            stop.set()

    topic.write(4)
    options = replace(topic.options, once=False, interval_seconds=0.1)
    result = run_archive(options, on_progress, lambda _: None, stop)
    assert topic.archived() == topic.expected()
    assert result.counts.records == 6
    assert result.batches >= 2


@pytest.mark.exhaustive
def test_an_archive_is_replayed_as_it_is_with_the_topics_of_its_time(topic: ArchivedTopic) -> None:
    orders = f"orders-{time.time_ns()}"
    topic.kafka.create_topic(orders, partitions=2)
    log = Log()
    log.generation("g", 1, member("a", [orders], {orders: [0, 1]}))
    log.generation("g", 2, member("a", [orders], {orders: [0]}), member("b", [orders], {orders: [1]}))
    producer = Producer({"bootstrap.servers": topic.kafka.bootstrap, "enable.idempotence": True})
    for record in log.records:
        producer.produce(topic.name, record["value"], record["key"], partition=1)  # type: ignore[arg-type]
    producer.flush()
    try:
        # Other tests may use the cluster, too, and create topics.
        assert topic.run().topics_changed >= 1
        topic.kafka.add_partitions(orders, 4)
        assert topic.run().topics_changed >= 1
        topic.run()
        rows = [row for row in pq.read_table(topic.archive / "topics").to_pylist() if row["topic"] == orders]
        rows.sort(key=lambda row: row["partitions"])
        assert [(row["partitions"], row["from"] is None) for row in rows] == [(2, True), (4, False)]
        assert rows[0]["topic_id"] == rows[1]["topic_id"]

        options = ReplayOptions(path=str(topic.archive), strategies=("range",))
        from_archive = run_replay(options, lambda _: None)
        assert from_archive.groups[0].inferred_topics == ()
        assert from_archive.truth.holds
        assert [group.rebalances for group in from_archive.groups] == [2]
    finally:
        topic.kafka.delete_topic(orders)

    # Add records of a second cluster; then remove all records.
    (file,) = (topic.archive / "raw").glob("*/*.parquet")
    table = pq.read_table(file, partitioning=None)
    others = pa.array(["another"] * table.num_rows)
    pq.write_table(table.set_column(5, "cluster_id", others), file.with_name("copied.parquet"))
    with pytest.raises(ReplayError, match=r"records of two clusters, .* and .*, lie in one place"):
        run_replay(options, lambda _: None)
    shutil.rmtree(topic.archive / "raw")
    with pytest.raises(ReplayError, match="this archive has no records yet"):
        run_replay(options, lambda _: None)


def test_an_archive_that_cannot_go_on_says_why(topic: ArchivedTopic) -> None:
    topic.write(4)
    topic.run()
    topic.kafka.add_partitions(topic.name, 4)
    with pytest.raises(ArchiveError, match=r"has other partitions, .* \(its partitions was 3, and is 4\)"):
        topic.run()
    topic.kafka.delete_topic(topic.name)
    topic.kafka.create_topic(topic.name, partitions=3)
    with pytest.raises(ArchiveError, match="the topic was recreated"):
        topic.run()
    (topic.archive / "archive.json").unlink()
    with pytest.raises(ArchiveError, match=r"(raw|topics).* is there already, and no archive\.json"):
        topic.run()


def test_a_topic_that_gets_partitions_while_no_record_comes_ends_the_archiver(
    topic: ArchivedTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "_LOOK_S", 0.1)
    stop, deadline, grown = threading.Event(), time.monotonic() + HANG_S, threading.Event()

    def on_progress(_: str, step: ArchiveResult) -> None:
        if step.batches == 1 and not grown.is_set():
            grown.set()
            topic.kafka.add_partitions(topic.name, 4)
        if time.monotonic() > deadline:
            stop.set()

    topic.write(4)
    options = replace(topic.options, once=False, interval_seconds=0.1)
    with pytest.raises(ArchiveError, match=r"has other partitions, .* \(its partitions was 3, and is 4\)"):
        run_archive(options, on_progress, lambda _: None, stop)


def test_a_cluster_that_does_not_answer_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "archive"
    cluster = ["--bootstrap-server", "127.0.0.1:1", "--timeout", "2"]
    assert run(["archive", "--to", str(archive), *cluster, "--once"]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("kafka-assignors: error: no answer from 127.0.0.1:1 within 2 s: ")
    assert not archive.exists()
