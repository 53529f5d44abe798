"""The stream reader: bounded batches, planned without Spark's position, and reported."""

from __future__ import annotations

import pickle
import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_replay.folds.consumer_offsets import GroupMetadataKey, OffsetCommitKey, encode_key
from kafka_assignors_replay.live_catalogue import SourceError
from kafka_assignors_replay.source import GroupRecordsStreamReader
from kafka_assignors_replay.source.messages import MessageCounts, RangeReport
from kafka_assignors_replay.source.planning import Bound, OffsetRange, SourceOptions, bounded, cut


def test_a_batch_is_shared_out_and_what_one_partition_does_not_need_goes_to_the_others() -> None:
    start, end = {0: 5, 1: 0, 2: 0}, {0: 5, 1: 10, 2: 1000}
    assert bounded(start, end, 100) == {0: 5, 1: 10, 2: 90}
    assert bounded(start, end, 10) == {0: 5, 1: 5, 2: 5}
    assert bounded(start, end, 5000) == end


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_batches_of_any_size_come_to_the_end_and_none_before_is_empty(most: int) -> None:
    at, end = {0: 3, 1: 0, 2: 0, 3: 9}, {0: 3, 1: 12, 2: 1, 3: 10}
    while at != end:
        next_ = bounded(at, end, most)
        assert 0 < sum(next_.values()) - sum(at.values()) <= most
        at = next_


def test_ranges_cover_what_they_are_cut_from() -> None:
    assert cut(4, 10, 25, 10, 12) == [OffsetRange(4, 10, 20, 12), OffsetRange(4, 20, 25, 12)]
    assert cut(4, 10, 10, 10) == []


def test_an_offset_of_its_own_goes_before_an_end_of_the_log() -> None:
    assert Bound(True).of(1, 5, 9) == 9
    assert Bound(False).of(1, 5, 9) == 5
    assert [Bound(False, {1: 7}).of(partition, 5, 9) for partition in (1, 2)] == [7, 5]


def test_a_report_survives_its_json() -> None:
    report = RangeReport(3, 10, 90, MessageCounts(80, {2: 7, -1: 1}, 60, 1, 11, 8), 1_772_323_200_000)
    assert RangeReport.from_json(report.to_json()) == report


# On a broker

COMMIT = encode_key(OffsetCommitKey("g", "orders", 0))
GENERATION = encode_key(GroupMetadataKey("g"))


@pytest.fixture(scope="module")
def topic(kafka: Kafka) -> str:
    """Two partitions: 40 records, every fourth one of a group; and 10, of which the first 6 are deleted."""
    name = f"stream-{time.time_ns()}"
    kafka.create_topic(name, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for number in range(40):
        producer.produce(name, b"value", GENERATION if number % 4 == 0 else COMMIT, partition=0)
    for _ in range(10):
        producer.produce(name, b"value", GENERATION, partition=1)
    producer.flush()
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    for future in admin.delete_records([TopicPartition(name, 1, 6)]).values():
        future.result()
    return name


def reader(kafka: Kafka, topic: str, **options: str) -> GroupRecordsStreamReader:
    given = {"bootstrap.servers": kafka.bootstrap, "topic": topic, "reports": "true", **options}
    return GroupRecordsStreamReader(SourceOptions.parse(given))


def read(stream: GroupRecordsStreamReader, work: OffsetRange) -> tuple[list[int], RangeReport]:
    rows = [row for batch in stream.read(work) for row in batch.to_pylist()]
    assert [row["report"] is not None for row in rows] == [False] * (len(rows) - 1) + [True]
    return [row["offset"] for row in rows[:-1]], RangeReport.from_json(rows[-1]["report"])


def test_the_reader_remembers_where_it_is_where_spark_does_not_say(kafka: Kafka, topic: str) -> None:
    # PySpark 4.0 calls it without arguments.
    stream = reader(kafka, topic, maxOffsetsPerBatch="30")
    at = stream.initialOffset()
    assert at == {"0": 0, "1": 6}
    ends = []
    for _ in range(4):
        end = stream.latestOffset()
        assert end == stream.latestOffset()
        stream.partitions(at, end)
        ends.append(end)
        at = end
    assert ends == [{"0": 26, "1": 10}, {"0": 40, "1": 10}, {"0": 40, "1": 10}, {"0": 40, "1": 10}]


def test_the_reader_believes_spark_where_it_does_say(kafka: Kafka, topic: str) -> None:
    stream = reader(kafka, topic, maxOffsetsPerBatch="30")
    assert stream.latestOffset({"0": 20, "1": 6}, None) == {"0": 40, "1": 10}
    assert stream.latestOffset({"0": 0, "1": 10}, None) == {"0": 30, "1": 10}


def test_a_reader_that_goes_on_starts_where_it_is_told(kafka: Kafka, topic: str) -> None:
    stream = reader(
        kafka, topic, maxOffsetsPerBatch="5", startingOffsets='{"0": 30, "1": 10}', endingOffsets='{"0": 38}'
    )
    assert stream.latestOffset() == {"0": 35, "1": 10}
    stream.partitions({"0": 30, "1": 10}, {"0": 35, "1": 10})
    assert stream.latestOffset() == {"0": 38, "1": 10}


def test_a_reader_that_has_caught_up_waits_for_the_interval(kafka: Kafka, topic: str) -> None:
    stream = reader(kafka, topic, batchIntervalSeconds="3600")
    end = stream.latestOffset({"0": 0, "1": 6}, None)
    assert end == {"0": 40, "1": 10}
    assert stream.latestOffset({"0": 20, "1": 6}, None) == {"0": 20, "1": 6}


def test_records_left_out_are_counted_and_deleted_offsets_are_missing(kafka: Kafka, topic: str) -> None:
    stream = pickle.loads(pickle.dumps(reader(kafka, topic)))
    full, cut_off = stream.partitions({"0": 8, "1": 0}, {"0": 16, "1": 9})
    offsets, report = read(stream, full)
    assert offsets == [8, 12]
    assert (report.start, report.end, report.counts) == (8, 16, MessageCounts(8, {2: 2}, 6))
    offsets, report = read(stream, cut_off)
    assert offsets == [6, 7, 8]
    assert (report.counts.missing, report.counts.longest_gap, report.counts.group_records) == (6, 6, {2: 3})
    (gone,) = stream.partitions({"0": 8, "1": 0}, {"0": 8, "1": 4})
    offsets, report = read(stream, gone)
    assert offsets == []
    assert (report.counts.missing, report.last_timestamp_ms) == (4, None)


def test_available_now_ends_where_the_log_ended_when_it_began(kafka: Kafka, topic: str) -> None:
    stream = reader(kafka, topic, endingOffsets='{"0": 12, "1": 7}', maxOffsetsPerBatch="10")
    stream.prepareForTriggerAvailableNow()
    assert stream.latestOffset({"0": 4, "1": 6}, None) == {"0": 12, "1": 7}
    assert stream.latestOffset({"0": 12, "1": 7}, None) == {"0": 12, "1": 7}


def test_partitions_that_are_added_under_available_now_are_an_error(kafka: Kafka) -> None:
    name = f"grown-{time.time_ns()}"
    kafka.create_topic(name, partitions=1)
    stream = reader(kafka, name)
    stream.prepareForTriggerAvailableNow()
    kafka.add_partitions(name, 2)
    with pytest.raises(SourceError, match="has 2 partitions, and had 1"):
        stream.latestOffset({"0": 0}, None)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"0": 0, "1": 0, "2": 0}, "has 2 partitions, and had 3: its groups live in other partitions now"),
        ({"0": 41, "1": 0}, r"\[0\]: the log ends at 40, and was read up to 41: was the topic truncated"),
    ],
)
def test_a_topic_that_is_another_one_by_now_is_an_error(
    kafka: Kafka, topic: str, start: dict[str, int], message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        reader(kafka, topic).latestOffset(start, None)


def test_a_topic_of_another_id_is_an_error(kafka: Kafka, topic: str) -> None:
    with pytest.raises(SourceError, match="and should have 7Qs4: this is another cluster, or the topic was"):
        reader(kafka, topic, topicId="7Qs4").initialOffset()


@pytest.mark.parametrize("value", ["now", "[1]", '{"0": -1}', '{"a": 1}', '{"0": "1"}', '{"0": true}'])
def test_offsets_that_are_none_are_named(value: str) -> None:
    with pytest.raises(SourceError, match="'startingOffsets' must be 'earliest', 'latest' or a JSON object"):
        SourceOptions.parse({"bootstrap.servers": "localhost:1", "startingOffsets": value})
