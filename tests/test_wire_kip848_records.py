"""Values of the records of KIP-848 groups, compared with those of a broker.

`data/offsets_topic.jsonl` has records of a Kafka 4.3.1 broker, with the output of its kafka-dump-log.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.wire import ProtocolError
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupKey, ConsumerGroupRecord, decode_key
from kafka_assignors_replay.history.kip848_records import (
    ConsumerGroupMemberState,
    CurrentAssignment,
    decode_consumer_group_value,
)
from tests.java_group_fields import (
    consumer_group_fields,
    consumer_group_value,
    encode_consumer_group_fields,
    read_fields,
)

Json = dict[str, Any]
_LINES = (Path(__file__).parent / "data" / "offsets_topic.jsonl").read_text().splitlines()
KINDS = {str(record.value) for record in ConsumerGroupRecord}
BY_BROKER = [
    record for record in map(json.loads, _LINES) if record["dumped_key"]["type"] in KINDS and record["value"]
]

TOPIC = "KuxAUbb3SYG5cqJamlpx_Q"
MEMBER: Json = {
    "instanceId": "pod-0",
    "rackId": "a",
    "clientId": "client",
    "clientHost": "/10.0.0.1",
    "subscribedTopicNames": ["orders"],
    "subscribedTopicRegex": "pay.*",
    "rebalanceTimeoutMs": 300_000,
    "serverAssignor": "uniform",
    "classicMemberMetadata": {
        "sessionTimeoutMs": 45_000,
        "supportedProtocols": [{"name": "range", "metadata": base64.b64encode(b"subscription").decode()}],
    },
}
FIELDS: Mapping[ConsumerGroupRecord, Json] = {
    ConsumerGroupRecord.METADATA: {"epoch": 7, "metadataHash": -5},
    ConsumerGroupRecord.PARTITION_METADATA: {
        "topics": [
            {
                "topicId": TOPIC,
                "topicName": "orders",
                "numPartitions": 2,
                "partitionMetadata": [
                    {"partition": 0, "racks": ["a", "b"]},
                    {"partition": 1, "racks": []},
                ],
            }
        ]
    },
    ConsumerGroupRecord.MEMBER_METADATA: MEMBER,
    ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA: {
        "assignmentEpoch": 7,
        "assignmentTimestamp": 1_795_225_270_436,
    },
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: {
        "topicPartitions": [{"topicId": TOPIC, "partitions": [0, 1]}]
    },
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: {
        "memberEpoch": 7,
        "previousMemberEpoch": 6,
        "state": int(ConsumerGroupMemberState.UNREVOKED_PARTITIONS),
        "assignedPartitions": [{"topicId": TOPIC, "partitions": [0], "assignmentEpochs": [7]}],
        "partitionsPendingRevocation": [{"topicId": TOPIC, "partitions": [1]}],
    },
    ConsumerGroupRecord.REGULAR_EXPRESSION: {"topics": ["payments"], "version": 12, "timestamp": 34},
}
"""A value of each kind with every field, in the terms of Java."""

EVERY_RECORD = pytest.mark.parametrize("record", ConsumerGroupRecord, ids=lambda record: record.name)


def where(record: Json) -> str:
    return f"{record['partition']}@{record['offset']}"


@pytest.mark.parametrize("record", BY_BROKER, ids=where)
def test_a_value_reads_as_the_broker_dumps_it(record: Json) -> None:
    key = decode_key(bytes.fromhex(record["key"]))
    assert isinstance(key, ConsumerGroupKey)
    data = bytes.fromhex(record["value"])
    value = decode_consumer_group_value(key.type, data)
    dumped = record["dumped_value"]["data"]
    assert consumer_group_fields(value) == read_fields(dumped)
    assert value == consumer_group_value(key.type, dumped)
    assert encode_consumer_group_fields(key.type, dumped) == data


def test_the_broker_s_records_are_of_every_kind_that_it_writes() -> None:
    assert {record["dumped_key"]["type"] for record in BY_BROKER} == {"3", "5", "6", "7", "8"}


@EVERY_RECORD
def test_a_value_reads_back_and_cut_anywhere_says_where(record: ConsumerGroupRecord) -> None:
    data = encode_consumer_group_fields(record, FIELDS[record])
    assert decode_consumer_group_value(record, data) == consumer_group_value(record, FIELDS[record])
    for length in range(len(data)):
        with pytest.raises(ProtocolError) as error:
            decode_consumer_group_value(record, data[:length])
        assert 0 <= error.value.offset <= length
        assert error.value.subject
    with pytest.raises(ProtocolError, match="ends here, but 1 byte follow"):
        decode_consumer_group_value(record, data + b"x")


@EVERY_RECORD
def test_a_newer_version_is_refused(record: ConsumerGroupRecord) -> None:
    data = b"\0\1" + encode_consumer_group_fields(record, FIELDS[record])[2:]
    with pytest.raises(ProtocolError, match="1 is not known: this reads version 0"):
        decode_consumer_group_value(record, data)


UNKNOWN = bytes([9, 3]) + b"new"
"""A tagged field of a later broker: its tag, its size, its bytes."""


@pytest.mark.parametrize(
    ("record", "data"),
    [
        (ConsumerGroupRecord.METADATA, "0000 00000007 02 0008 fffffffffffffffb" + UNKNOWN.hex()),
        (
            ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA,
            "0000 00000007 02 0008 000001a1fbc3b8a4" + UNKNOWN.hex(),
        ),
        (
            ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER,
            "0000 02 2aec4051b6f74981b972a25a9a5a71fd 03 00000000 00000001 01"
            + UNKNOWN.hex()
            + "01"
            + UNKNOWN.hex(),
        ),
        (
            ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT,
            "0000 00000007 00000006 01"
            "02 2aec4051b6f74981b972a25a9a5a71fd 02 00000000 02 0005 02 00000007"
            + UNKNOWN.hex()
            + "02 2aec4051b6f74981b972a25a9a5a71fd 02 00000001 00 01"
            + UNKNOWN.hex(),
        ),
        (
            ConsumerGroupRecord.REGULAR_EXPRESSION,
            "0000 02 09 7061796d656e7473 000000000000000c 0000000000000022 01" + UNKNOWN.hex(),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ConsumerGroupRecord) else "",
)
def test_tagged_fields_of_a_later_broker_are_skipped(record: ConsumerGroupRecord, data: str) -> None:
    expected = consumer_group_value(record, FIELDS[record])
    assert decode_consumer_group_value(record, bytes.fromhex(data)) == expected


def test_a_member_without_the_tagged_field_is_a_classic_one_as_in_java() -> None:
    said = {**MEMBER, "classicMemberMetadata": {"sessionTimeoutMs": 0, "supportedProtocols": []}}
    record = ConsumerGroupRecord.MEMBER_METADATA
    data = encode_consumer_group_fields(record, said)
    assert data.endswith(b"\0")
    assert decode_consumer_group_value(record, data) == consumer_group_value(record, said)


def test_a_tagged_field_that_does_not_end_where_it_says_is_refused() -> None:
    data = bytes.fromhex("0000 00000007 01 0009 fffffffffffffffb 00")
    with pytest.raises(ProtocolError, match="has 9 bytes, but 8 bytes are read") as error:
        decode_consumer_group_value(ConsumerGroupRecord.METADATA, data)
    assert (error.value.field, error.value.offset) == ("tagged_fields[0].data", 9)


def test_a_count_that_the_bytes_left_cannot_hold_is_refused_before_the_first_element() -> None:
    data = bytes.fromhex("0000 ffffffff0f 2aec4051b6f74981b972a25a9a5a71fd 01 00")
    with pytest.raises(ProtocolError, match="claims 4294967294 elements") as error:
        decode_consumer_group_value(ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER, data)
    assert (error.value.field, error.value.offset) == ("topic_partitions", 2)


def test_a_topic_that_is_named_twice_is_refused() -> None:
    topic = "2aec4051b6f74981b972a25a9a5a71fd 01 00"
    with pytest.raises(ProtocolError, match=f"{TOPIC} is there twice") as error:
        decode_consumer_group_value(
            ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER, bytes.fromhex(f"0000 03 {topic} {topic} 00")
        )
    assert (error.value.field, error.value.offset) == ("topic_partitions[1].topic_id", 21)


def test_a_state_that_this_release_does_not_know_reads_as_unknown() -> None:
    data = bytes.fromhex("0000 00000007 00000006 05 01 01 00")
    value = decode_consumer_group_value(ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT, data)
    assert isinstance(value, CurrentAssignment)
    assert value.state is ConsumerGroupMemberState.UNKNOWN


@pytest.mark.parametrize(
    ("record", "data"),
    [
        (ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA, "0000 00000007 01 00 03 000000"),
        # All fields null or empty, then three bytes of a struct that needs more.
        (ConsumerGroupRecord.MEMBER_METADATA, "0000 00 00 01 01 01 00 00000001 00 01 00 03 01 0000"),
        # A topic without partitions, whose epochs claim nine elements in one byte.
        (
            ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT,
            f"0000 00000007 00000006 00 02 {'11' * 16} 01 01 00 01 0a 01 00",
        ),
    ],
)
def test_broken_bytes_of_a_tagged_field_that_no_replay_needs_are_refused(
    record: ConsumerGroupRecord, data: str
) -> None:
    with pytest.raises(ProtocolError):
        decode_consumer_group_value(record, bytes.fromhex(data))
