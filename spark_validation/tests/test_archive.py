"""An archive of a topic on a real broker: every record once, also when the topic or the broker changes."""

from __future__ import annotations

import itertools
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition

from compat_tests.hostile.groups import GROUP_IDS, hostile_groups
from compat_tests.support.group_records import encode_key
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster
from kafka_assignors_cli.app import run as command_line
from kafka_assignors_replay.archive import run as run_module
from kafka_assignors_replay.archive.folder import ArchiveError
from kafka_assignors_replay.archive.run import ArchiveOptions, ArchiveResult, run_archive
from kafka_assignors_replay.history.consumer_offsets import GroupMetadataKey, OffsetCommitKey, decode_key
from kafka_assignors_replay.result import ReplayError
from spark_validation.tests.groups import Log, member
from spark_validation.tests.replaying import replay

COMMIT = encode_key(OffsetCommitKey("g", "orders", 0))
DAY_MS = 86_400_000
YEAR_10000_MS = 253_402_300_800_000
BEFORE_YEAR_1_MS = -62_135_596_800_001
LEAST, MOST = -(2**63) + 1, 2**63 - 1


def history(topic: str = "orders") -> Log:
    log = Log().generation("g", 1, member("a", [topic], {topic: [0, 1]}))
    return log.generation("g", 2, member("a", [topic], {topic: [0]}), member("b", [topic], {topic: [1]}))


class ArchivedTopic:
    """A topic with three partitions that resembles the offsets topic, and a folder for its archive."""

    def __init__(self, kafka: Kafka, archive: Path) -> None:
        self.kafka, self.archive, self.name = kafka, archive, f"offsets-{time.time_ns()}"
        self.options = ArchiveOptions(
            str(archive), kafka.bootstrap, once=True, topic=self.name, max_offsets_per_batch=20
        )
        self.written: list[tuple[int, bytes, bytes | None]] = []
        self.create()

    def create(self) -> None:
        kafka_takes_every_time = {"message.timestamp.after.max.ms": str(2**63 - 1)}
        self.kafka.create_topic(self.name, partitions=3, settings=kafka_takes_every_time)
        # A producer's sequence numbers belong to one topic id, so each topic gets its own producer.
        self._producer = Producer({"bootstrap.servers": self.kafka.bootstrap, "enable.idempotence": True})

    def write_history(self, log: Log, timestamps_ms: Sequence[int]) -> None:
        """Write a record of the log at each of these times to partition 0."""
        for timestamp_ms, record in zip(timestamps_ms, itertools.cycle(log.records), strict=False):
            where = {"partition": 0, "timestamp": timestamp_ms}
            self._producer.produce(self.name, record["value"], record["key"], **where)
        assert self._producer.flush(HANG_S) == 0

    def write(self, records: int) -> None:
        """Write this many records to each partition: a quarter are records of a group, the rest commits."""
        generations = [(record["key"], record["value"]) for record in history().records]
        for number in range(records):
            for partition in range(3):
                key, value = generations[number // 4 % 2] if number % 4 == 0 else (COMMIT, b"")
                self._producer.produce(self.name, value, key, partition=partition)
                if key != COMMIT:
                    self.written.append((partition, key, value))
        assert self._producer.flush(HANG_S) == 0

    def delete_records(self, partition: int, before: int) -> None:
        """Delete the records of a partition before the offset `before`."""
        with self.kafka.admin(f"delete records of {self.name}") as admin:
            for future in admin.delete_records([TopicPartition(self.name, partition, before)]).values():
                future.result(HANG_S)

    def run(self, **options: object) -> ArchiveResult:
        return self.follow(lambda step: False, **{"once": True, **options})

    def follow(
        self,
        ends: Callable[[ArchiveResult], bool],
        on_warning: Callable[[str], None] = lambda _: None,
        **options: object,
    ) -> ArchiveResult:
        """Archive until `ends` is true of what the run has done so far."""
        stop, deadline = threading.Event(), time.monotonic() + HANG_S

        def on_progress(_: str, step: ArchiveResult) -> None:
            if ends(step) or time.monotonic() > deadline:
                stop.set()

        given = {"once": False, "interval_seconds": 0.1, **options}
        return run_archive(replace(self.options, **given), on_progress, on_warning, stop)  # type: ignore[arg-type]

    def archived(self) -> list[tuple[int, bytes, bytes | None]]:
        rows = pq.read_table(self.archive / "raw").to_pylist()
        rows.sort(key=lambda row: (row["partition"], row["offset"]))
        return [(row["partition"], row["key"], row["value"]) for row in rows]

    def expected(self) -> list[tuple[int, bytes, bytes | None]]:
        return sorted(self.written, key=lambda row: row[0])


@pytest.fixture(scope="module")
def own_kafka(kafka: Kafka) -> Iterator[KafkaCluster]:
    """A broker that a test may stop: that of all tests, if we started it."""
    if isinstance(kafka, KafkaCluster):
        yield kafka
    else:
        with KafkaCluster() as cluster:
            yield cluster


@pytest.fixture
def topic(own_kafka: KafkaCluster, tmp_path: Path) -> Iterator[ArchivedTopic]:
    """A topic that is deleted after the test."""
    found = ArchivedTopic(own_kafka, tmp_path / "archive")
    yield found
    own_kafka.delete_topic(found.name)


@pytest.fixture
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The archiver looks for changes of the topic ten times a second, and not once a minute."""
    monkeypatch.setattr(run_module, "_LOOK_S", 0.1)


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


@pytest.mark.exhaustive
def test_an_archive_is_replayed_as_it_is_with_the_topics_of_its_time(topic: ArchivedTopic) -> None:
    orders = f"orders-{time.time_ns()}"
    topic.kafka.create_topic(orders, partitions=2)
    topic.write_history(history(orders), [1, 2])
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

        from_archive = replay(topic.archive, strategies=("range",))
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
    with pytest.raises(ReplayError, match=r"records of two clusters, '.*' and '.*', lie in one place"):
        replay(topic.archive)
    shutil.rmtree(topic.archive / "raw")
    with pytest.raises(ReplayError, match="this archive has no records yet"):
        replay(topic.archive)


def test_a_topic_that_gets_partitions_while_no_record_comes_ends_the_archiver(
    topic: ArchivedTopic, looking_often: None
) -> None:
    grown = threading.Event()

    def grow(step: ArchiveResult) -> bool:
        if step.batches == 1 and not grown.is_set():
            grown.set()
            topic.kafka.add_partitions(topic.name, 4)
        return False

    topic.write(4)
    with pytest.raises(ArchiveError, match=r"has other partitions, .* \(its partitions was 3, and is 4\)"):
        topic.follow(grow)


def test_a_topic_that_is_made_anew_while_it_is_archived_ends_the_archiver(topic: ArchivedTopic) -> None:
    anew = threading.Event()

    def make_anew(step: ArchiveResult) -> bool:
        if step.counts.records == 3 and not anew.is_set():
            anew.set()
            topic.kafka.delete_topic(topic.name)
            topic.create()
            topic.write(16)
        return False

    topic.write(4)
    before = topic.expected()
    with pytest.raises(ArchiveError, match=r"recreated, .*; this one stays readable"):
        topic.follow(make_anew)
    assert topic.archived() == before


@pytest.mark.exhaustive
def test_a_log_that_lost_records_ends_the_archiver_and_a_restarted_broker_does_not(
    own_kafka: KafkaCluster, topic: ArchivedTopic
) -> None:
    topic.write(8)
    topic.run()
    own_kafka.stop(1)
    own_kafka.start(1)
    topic.write(8)
    assert topic.run().complete
    before = topic.expected()
    assert topic.archived() == before

    own_kafka.lose_log(1, topic.name, 2)
    topic.write(4)
    message = (
        rf"{topic.name}\[2\]: the log ends at offset 4, and .* has it up to 16: the log was truncated "
        r".* begin another archive; this one stays readable"
    )
    for once in (True, False):
        with pytest.raises(ArchiveError, match=message):
            topic.run(once=once)
    # The log grows again, and is not taken for the old one.
    topic.write(20)
    message = rf"{topic.name}\[2\]: the records before offset 16 are no longer those that were read"
    with pytest.raises(ArchiveError, match=message):
        topic.run()
    assert topic.archived() == before


@pytest.mark.exhaustive
def test_an_archiver_whose_broker_is_away_goes_on_when_it_is_back(
    own_kafka: KafkaCluster, topic: ArchivedTopic, looking_often: None
) -> None:
    away, warnings = threading.Event(), list[str]()

    def stop_the_broker(step: ArchiveResult) -> bool:
        if step.batches == 1 and not away.is_set():
            away.set()
            own_kafka.stop(1)
        return step.counts.records == 6

    def start_it_again(text: str) -> None:
        if "trying again" in text and not warnings:
            warnings.append(text)
            own_kafka.start(1)
            topic.write(4)

    topic.write(4)
    topic.follow(stop_the_broker, start_it_again, timeout_seconds=2)
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
    topic.write_history(history(), list(dates_of))
    found = topic.run(max_offsets_per_batch=1)
    assert (found.complete, found.counts.records) == (True, len(dates_of))
    rows = pq.read_table(topic.archive / "raw").to_pylist()
    rows.sort(key=lambda row: row["offset"])
    assert [str(row["date"]) for row in rows] == list(dates_of.values())
    assert [row["timestamp"].date().isoformat() for row in rows] == list(dates_of.values())
    for source in (
        {"path": topic.archive},
        {"bootstrap_servers": topic.kafka.bootstrap, "topic": topic.name},
    ):
        assert replay(strategies=("range",), **source).history.records == len(dates_of)


@pytest.mark.exhaustive
@pytest.mark.slow
def test_with_one_broker_down_all_groups_of_any_name_are_archived_and_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, report = tmp_path / "archive", tmp_path / "report.json"
    with KafkaCluster(brokers=3, settings={"group.max.session.timeout.ms": 120_000}) as cluster:
        # The third broker has the only replica of a partition.
        cluster.create_topic("orders", replicas=[[3], [1]])
        with hostile_groups(cluster.bootstrap, "orders"):
            pass
        where = ["--bootstrap-server", cluster.bootstrap, "--timeout", f"{HANG_S:g}"]
        cluster.kill(3)
        # The two commands wait until the other two brokers lead the partitions of the third.
        for command in (
            ["archive", *where, "--to", str(archive), "--once"],
            ["replay", *where, "--strategy", "range", "--json", str(report)],
        ):
            assert command_line(command) == 0, capsys.readouterr().err
    keys = [decode_key(key) for key in pq.read_table(archive / "raw")["key"].to_pylist()]
    assert {key.group for key in keys if isinstance(key, GroupMetadataKey)} == {*GROUP_IDS.values()}
    groups = json.loads(report.read_text(encoding="utf-8"))["groups"]
    assert {group["group"] for group in groups} == {*GROUP_IDS.values()}
