"""Values of the records of KIP-848 groups, compared with those of a broker.

`data/offsets_topic.jsonl` has records of a Kafka 4.3.1 broker, with the output of its kafka-dump-log.
"""

from __future__ import annotations

import pytest

from kafka_assignors.wire import ProtocolError
from kafka_assignors_replay.history import kip848_records
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from tests.java_fields import decode_fields, fields_as_read
from tests.test_wire_records import BY_BROKER, Json, where

KINDS = {str(record.value) for record in ConsumerGroupRecord}
OF_CONSUMER_GROUPS = [
    record for record in BY_BROKER if record["dumped_key"]["type"] in KINDS and record["value"]
]

TOPIC, TOPIC_ID = "KuxAUbb3SYG5cqJamlpx_Q", "2aec4051b6f74981b972a25a9a5a71fd"
EVERY_RECORD = pytest.mark.parametrize("record", ConsumerGroupRecord, ids=lambda record: record.name)


@pytest.mark.parametrize("record", OF_CONSUMER_GROUPS, ids=where)
def test_a_value_reads_as_the_broker_dumps_it(record: Json) -> None:
    fields = decode_fields(
        "consumer_group", int(record["dumped_key"]["type"]), bytes.fromhex(record["value"])
    )
    assert fields == fields_as_read("consumer_group", record["dumped_value"]["data"])


def test_the_broker_s_records_are_of_every_kind_that_it_writes() -> None:
    assert {record["dumped_key"]["type"] for record in OF_CONSUMER_GROUPS} == {"3", "5", "6", "7", "8"}


@EVERY_RECORD
def test_a_newer_version_is_refused(record: ConsumerGroupRecord) -> None:
    with pytest.raises(ProtocolError, match="1 is not known: this reads version 0"):
        kip848_records.decode_consumer_group_value(record, b"\0\1")


UNKNOWN = (bytes([9, 3]) + b"new").hex()
"""A tagged field of a later broker: its tag, its size, its bytes."""


@pytest.mark.parametrize(
    ("record", "data", "value"),
    [
        (
            ConsumerGroupRecord.METADATA,
            f"0000 00000007 02 0008 fffffffffffffffb {UNKNOWN}",
            kip848_records.GroupEpoch(7, -5),
        ),
        (
            ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA,
            f"0000 00000007 02 0008 000001a1fbc3b8a4 {UNKNOWN}",
            kip848_records.TargetAssignmentEpoch(7),
        ),
        (
            ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER,
            f"0000 02 {TOPIC_ID} 03 00000000 00000001 01 {UNKNOWN} 01 {UNKNOWN}",
            kip848_records.TargetAssignment({TOPIC: (0, 1)}),
        ),
        (
            ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT,
            f"0000 00000007 00000006 01 02 {TOPIC_ID} 02 00000000 02 0005 02 00000007 {UNKNOWN}"
            f"02 {TOPIC_ID} 02 00000001 00 01 {UNKNOWN}",
            kip848_records.CurrentAssignment(),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ConsumerGroupRecord) else "",
)
def test_tagged_fields_of_a_later_broker_are_skipped(
    record: ConsumerGroupRecord, data: str, value: kip848_records.ConsumerGroupValue
) -> None:
    assert kip848_records.decode_consumer_group_value(record, bytes.fromhex(data)) == value


def test_a_topic_that_is_named_twice_is_refused() -> None:
    topic = f"{TOPIC_ID} 01 00"
    with pytest.raises(ProtocolError, match=f"{TOPIC} is there twice") as error:
        kip848_records.decode_consumer_group_value(
            ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER, bytes.fromhex(f"0000 03 {topic} {topic} 00")
        )
    assert (error.value.field, error.value.offset) == ("topic_partitions[1].topic_id", 21)
