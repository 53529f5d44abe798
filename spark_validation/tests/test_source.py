"""The data source over a real broker: every record, no other record, and never an empty answer."""

from __future__ import annotations

import json
import time
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer, Uuid
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_confluent.topics import topic_of
from kafka_assignors_replay.folds.consumer_offsets import (
    GroupMetadataKey,
    OffsetCommitKey,
    encode_key,
    group_partition,
)
from kafka_assignors_replay.folds.kip848_records import TargetAssignment, encode_consumer_group_value
from kafka_assignors_replay.folds.records import LAST_MICROS, from_micros
from kafka_assignors_replay.live_catalogue import SourceError
from kafka_assignors_replay.source import FORMAT, GroupRecordsReader, GroupRecordsSource
from kafka_assignors_replay.source.messages import RangeReport
from kafka_assignors_replay.source.planning import SourceOptions


@pytest.mark.parametrize(
    ("group", "code"),
    [
        ("", 0),
        ("hello", 99162322),
        ("Grüße", 69215351),
        ("😀", 1772899),  # two UTF-16 code units
        ("ledger", 1106662039),  # negative in Java
        ("polygenelubricants", 0),  # hashes to the one number without a positive counterpart
    ],
)
def test_a_group_lives_in_the_partition_that_java_computes(group: str, code: int) -> None:
    assert group_partition(group, 1 << 31) == code
    assert group_partition(group, 50) == code % 50


def test_brokers_put_groups_where_the_source_looks_for_them() -> None:
    # The partitions are those of a broker whose offsets topic had four partitions.
    groups = ("g-eager-range", "g-roundrobin", "g-coop-sticky", "g-static", "g-kip848-static")
    assert [group_partition(group, 4) for group in groups] == [2, 2, 1, 0, 3]


def test_topic_ids_of_a_live_cluster_are_those_in_its_records() -> None:
    printed = topic_of("orders", SimpleNamespace(partitions=[], topic_id=Uuid(-1, -5))).id
    assert printed is not None
    assert printed == "____________________-w"
    written = encode_consumer_group_value(TargetAssignment({printed: ()}))
    assert written[3:19] == bytes([0xFF] * 15 + [0xFB])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option 'bootstrap.servers' is missing"),
        ({"startingOffsets": "soon"}, "'startingOffsets' must be 'earliest', 'latest' or a JSON object of"),
        ({"reports": "yes"}, "'reports' must be 'true' or 'false', not 'yes'"),
        ({"batchIntervalSeconds": "-1"}, "'batchIntervalSeconds' must be a number not below 0, not '-1'"),
        ({"groups": "billing"}, "option 'groups' is not JSON"),
        ({"groups": "[]"}, "'groups' must be a JSON array of one or more group ids"),
        ({"timeoutSeconds": "-1"}, "'timeoutSeconds' must be a number above 0, not '-1'"),
        ({"maxOffsetsPerTask": "many"}, "'maxOffsetsPerTask' must be a number above 0, not 'many'"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], message: str) -> None:
    if options:
        options = {"bootstrap.servers": "localhost:1", **options}
    with pytest.raises(SourceError) as error:
        SourceOptions.parse(options)
    assert message in str(error.value)


def test_a_missing_broker_fails_within_the_timeout() -> None:
    options = {"bootstrap.servers": "127.0.0.1:1", "timeoutSeconds": "2"}
    started = time.monotonic()
    with pytest.raises(SourceError, match=r"no answer from 127\.0\.0\.1:1 within 2 s"):
        GroupRecordsReader(SourceOptions.parse(options)).partitions()
    assert time.monotonic() - started < HANG_S


def test_a_wrong_client_property_is_named() -> None:
    options = {"bootstrap.servers": "127.0.0.1:1", "kafka.no.such.property": "1"}
    with pytest.raises(SourceError, match=r"client properties: .*no\.such\.property"):
        GroupRecordsReader(SourceOptions.parse(options)).partitions()


GROUPS = [f"group-{number}" for number in range(12)]


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    """A topic like the offsets topic: four partitions, group records between offset commits."""
    name = f"offsets-{time.time_ns()}"
    kafka.create_topic(name, partitions=4)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for generation in range(20):
        for group in GROUPS:
            partition = group_partition(group, 4)
            commit = encode_key(OffsetCommitKey(group, "orders", 0))
            producer.produce(name, b"\0" * 20, commit, partition=partition)
            producer.produce(
                name, generation.to_bytes(4, "big"), encode_key(GroupMetadataKey(group)), partition=partition
            )
    producer.flush()
    return name


@pytest.fixture
def read(spark: SparkSession, kafka: Kafka, topic: str) -> DataFrame:
    spark.dataSource.register(GroupRecordsSource)
    return (
        spark.read.format(FORMAT)
        .option("bootstrap.servers", kafka.bootstrap)
        .option("topic", topic)
        .option("maxOffsetsPerTask", 50)
        .load()
    )


def test_the_source_reads_every_group_record_once_and_no_offset_commit(read: DataFrame) -> None:
    rows = read.collect()
    seen = sorted((bytes(row["key"]), bytes(row["value"])) for row in rows)
    expected = [
        (encode_key(GroupMetadataKey(group)), g.to_bytes(4, "big")) for group in GROUPS for g in range(20)
    ]
    assert seen == sorted(expected)
    assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows)


def test_a_filter_beside_an_unfiltered_use_of_the_same_frame_counts_right(read: DataFrame) -> None:
    assert read.where("partition = 1").union(read).count() == 240 + read.where("partition = 1").count()


def test_ranges_are_pinned_when_the_query_is_planned(kafka: Kafka, topic: str) -> None:
    options = SourceOptions.parse(
        {"bootstrap.servers": kafka.bootstrap, "topic": topic, "maxOffsetsPerTask": "50"}
    )
    reader = GroupRecordsReader(options)
    ranges = reader.partitions()
    assert sum(part.end - part.start for part in ranges) == 480
    assert max(part.end - part.start for part in ranges) == 50
    first = ranges[0]
    rows = [row for batch in reader.read(first) for row in batch.to_pylist()]
    assert all(first.start <= row["offset"] < first.end for row in rows)
    assert len(rows) == 25


def test_groups_are_read_from_their_own_partitions_alone(kafka: Kafka, topic: str) -> None:
    wanted = ["group-3", "group-7"]
    given = {"bootstrap.servers": kafka.bootstrap, "topic": topic, "groups": json.dumps(wanted)}
    reader = GroupRecordsReader(SourceOptions.parse(given))
    ranges = reader.partitions()
    assert {part.partition for part in ranges} == {group_partition(group, 4) for group in wanted}
    keys = {key for part in ranges for batch in reader.read(part) for key in batch.column("key").to_pylist()}
    assert keys == {encode_key(GroupMetadataKey(group)) for group in wanted}


def test_a_time_that_no_calendar_has_ends_no_read(kafka: Kafka) -> None:
    name = f"times-{time.time_ns()}"
    config = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(name, 1, config=config)])[name].result()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for timestamp_ms in (1, 2**62, 2**63 - 1):
        producer.produce(name, b"", encode_key(GroupMetadataKey("g")), partition=0, timestamp=timestamp_ms)
    producer.flush()
    given = {"bootstrap.servers": kafka.bootstrap, "topic": name, "reports": "true"}
    reader = GroupRecordsReader(SourceOptions.parse(given))
    rows = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    last = from_micros(LAST_MICROS)
    assert [row["timestamp"] for row in rows if row["offset"] is not None] == [from_micros(1_000), last, last]
    (report,) = (RangeReport.from_json(row["report"]) for row in rows if row["report"])
    assert report.last_timestamp_ms == LAST_MICROS // 1_000


def test_a_topic_that_does_not_exist_is_said_and_not_created(kafka: Kafka) -> None:
    given = {"bootstrap.servers": kafka.bootstrap, "topic": "no-such-topic"}
    for _ in range(2):
        with pytest.raises(SourceError, match="there is no topic 'no-such-topic'"):
            GroupRecordsReader(SourceOptions.parse(given)).partitions()


def test_nothing_to_read_is_an_error(kafka: Kafka, topic: str) -> None:
    given = {"bootstrap.servers": kafka.bootstrap, "topic": topic, "startingOffsets": "latest"}
    with pytest.raises(SourceError, match="nothing to read"):
        GroupRecordsReader(SourceOptions.parse(given)).partitions()
