"""Values of KIP-848 groups in the terms of Java's JSON for their schemas, and their bytes.

Java omits a tagged field that has its default. Our decoder drops the fields in `UNREAD`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from compat_tests.support.group_records import RecordWriter
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from kafka_assignors_replay.history.kip848_records import (
    ConsumerGroupMember,
    ConsumerGroupMemberState,
    ConsumerGroupValue,
    CurrentAssignment,
    GroupEpoch,
    PartitionMetadata,
    Partitions,
    ResolvedRegularExpression,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicMetadata,
)

__all__ = [
    "consumer_group_fields",
    "consumer_group_value",
    "encode_consumer_group_fields",
    "encode_consumer_group_value",
    "read_fields",
]

Fields = dict[str, Any]

UNREAD = frozenset(
    {
        *("assignmentEpochs", "assignmentTimestamp", "classicMemberMetadata", "partitionMetadata"),
        *("timestamp", "version"),
    }
)


def read_fields(fields: Any) -> Any:
    """The fields of a consumer group's record without those that our decoder drops."""
    if isinstance(fields, dict):
        return {name: read_fields(value) for name, value in fields.items() if name not in UNREAD}
    return [read_fields(each) for each in fields] if isinstance(fields, list) else fields


def consumer_group_value(record: ConsumerGroupRecord, fields: Fields) -> ConsumerGroupValue:
    """The value that our decoder reads from the bytes of these fields."""
    if record is ConsumerGroupRecord.METADATA:
        return GroupEpoch(fields["epoch"], fields.get("metadataHash", 0))
    if record is ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA:
        return TargetAssignmentEpoch(fields["assignmentEpoch"])
    if record is ConsumerGroupRecord.PARTITION_METADATA:
        topics = (
            (topic["topicId"], topic["topicName"], topic["numPartitions"]) for topic in fields["topics"]
        )
        return PartitionMetadata(tuple(TopicMetadata(*each) for each in topics))
    if record is ConsumerGroupRecord.MEMBER_METADATA:
        said = ((name, field) for name, field in _MEMBER.items() if name != "subscribedTopicNames")
        given = {field: fields[name] for name, field in said}
        return ConsumerGroupMember(**given, topics=tuple(fields["subscribedTopicNames"]))
    if record is ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER:
        return TargetAssignment(_partitions(fields["topicPartitions"]))
    if record is ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT:
        return CurrentAssignment(
            fields["memberEpoch"],
            fields["previousMemberEpoch"],
            ConsumerGroupMemberState(fields["state"]),
            _partitions(fields["assignedPartitions"]),
            _partitions(fields["partitionsPendingRevocation"]),
        )
    return ResolvedRegularExpression(tuple(fields["topics"]))


def consumer_group_fields(value: ConsumerGroupValue) -> Fields:
    """The fields of a decoded value."""
    if isinstance(value, GroupEpoch):
        return {"epoch": value.epoch} | ({"metadataHash": value.metadata_hash} if value.metadata_hash else {})
    if isinstance(value, TargetAssignmentEpoch):
        return {"assignmentEpoch": value.epoch}
    if isinstance(value, PartitionMetadata):
        return {
            "topics": [
                {"topicId": topic.topic_id, "topicName": topic.topic, "numPartitions": topic.partitions}
                for topic in value.topics
            ]
        }
    if isinstance(value, ConsumerGroupMember):
        said = {name: getattr(value, attribute) for name, attribute in _MEMBER.items()}
        return said | {"subscribedTopicNames": list(value.topics)}
    if isinstance(value, TargetAssignment):
        return {"topicPartitions": _partition_fields(value.partitions)}
    if isinstance(value, CurrentAssignment):
        return {
            "memberEpoch": value.epoch,
            "previousMemberEpoch": value.previous_epoch,
            "state": int(value.state),
            "assignedPartitions": _partition_fields(value.assigned),
            "partitionsPendingRevocation": _partition_fields(value.pending_revocation),
        }
    return {"topics": list(value.topics)}


_MEMBER = {
    "instanceId": "instance_id",
    "rackId": "rack",
    "clientId": "client_id",
    "clientHost": "client_host",
    "subscribedTopicNames": "topics",
    "subscribedTopicRegex": "regular_expression",
    "rebalanceTimeoutMs": "rebalance_timeout_ms",
    "serverAssignor": "assignor",
}


def _partitions(fields: list[Fields]) -> Partitions:
    return {topic["topicId"]: tuple(topic["partitions"]) for topic in fields}


def _partition_fields(partitions: Partitions) -> list[Fields]:
    return [{"topicId": topic_id, "partitions": list(numbers)} for topic_id, numbers in partitions.items()]


def encode_consumer_group_value(value: ConsumerGroupValue) -> bytes:
    """The bytes of a value; fields that it lacks have the values of a new member on a new broker."""
    record = next(record for record, kind in _CLASSES.items() if isinstance(value, kind))
    fields = consumer_group_fields(value)
    for topic in fields["topics"] if isinstance(value, PartitionMetadata) else ():
        topic["partitionMetadata"] = []
    unread = {
        ConsumerGroupRecord.MEMBER_METADATA: {"classicMemberMetadata": None},
        ConsumerGroupRecord.REGULAR_EXPRESSION: {"version": 1, "timestamp": 1},
    }
    return encode_consumer_group_fields(record, fields | unread.get(record, {}))


_CLASSES: Mapping[ConsumerGroupRecord, type] = {
    ConsumerGroupRecord.METADATA: GroupEpoch,
    ConsumerGroupRecord.PARTITION_METADATA: PartitionMetadata,
    ConsumerGroupRecord.MEMBER_METADATA: ConsumerGroupMember,
    ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA: TargetAssignmentEpoch,
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: TargetAssignment,
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: CurrentAssignment,
    ConsumerGroupRecord.REGULAR_EXPRESSION: ResolvedRegularExpression,
}


def encode_consumer_group_fields(record: ConsumerGroupRecord, fields: Fields) -> bytes:
    """The bytes of these fields, as the broker of Kafka 4.4 writes them."""
    writer = RecordWriter(record.name, flexible=True)
    writer.int16("version", 0)
    _SCHEMAS[record](writer, "", fields)
    return writer.getvalue()


_Write = Callable[[RecordWriter, str, Any], None]


def _struct(*of_fields: tuple[str, _Write], tagged: tuple[str, _Write, Any] | None = None) -> _Write:
    """Writes these fields in order, and the tagged field 0 unless it has its default."""

    def write(writer: RecordWriter, _: str, fields: Any) -> None:
        for name, write_field in of_fields:
            write_field(writer, name, fields[name])
        if tagged is None or fields.get(tagged[0], tagged[2]) == tagged[2]:
            writer.no_tagged_fields()
        else:
            name, write_field, _default = tagged
            of_tag = RecordWriter(name, flexible=True)
            write_field(of_tag, name, fields[name])
            writer.tagged_fields({0: of_tag.getvalue()})

    return write


def _array(element: _Write) -> _Write:
    def write(writer: RecordWriter, name: str, values: Any) -> None:
        for value in writer.items(name, values):
            element(writer, name, value)

    return write


def _nullable(struct: _Write) -> _Write:
    def write(writer: RecordWriter, name: str, value: Any) -> None:
        writer.uvarint(0 if value is None else 1)
        if value is not None:
            struct(writer, name, value)

    return write


def _nullable_int32s(writer: RecordWriter, name: str, value: Any) -> None:
    if value is None:
        writer.uvarint(0)
    else:
        writer.int32s(name, value)


def _base64(writer: RecordWriter, name: str, value: str) -> None:
    writer.byte_array(name, base64.b64decode(value))


_TOPIC = (("topicId", RecordWriter.uuid), ("partitions", RecordWriter.int32s))
_ASSIGNED = _array(_struct(*_TOPIC, tagged=("assignmentEpochs", _nullable_int32s, [])))
_CLASSIC_MEMBER = _struct(
    ("sessionTimeoutMs", RecordWriter.int32),
    ("supportedProtocols", _array(_struct(("name", RecordWriter.string), ("metadata", _base64)))),
)

_SCHEMAS: Mapping[ConsumerGroupRecord, _Write] = {
    ConsumerGroupRecord.METADATA: _struct(
        ("epoch", RecordWriter.int32), tagged=("metadataHash", RecordWriter.int64, 0)
    ),
    ConsumerGroupRecord.PARTITION_METADATA: _struct(
        (
            "topics",
            _array(
                _struct(
                    ("topicId", RecordWriter.uuid),
                    ("topicName", RecordWriter.string),
                    ("numPartitions", RecordWriter.int32),
                    (
                        "partitionMetadata",
                        _array(_struct(("partition", RecordWriter.int32), ("racks", RecordWriter.strings))),
                    ),
                )
            ),
        )
    ),
    ConsumerGroupRecord.MEMBER_METADATA: _struct(
        ("instanceId", RecordWriter.nullable_string),
        ("rackId", RecordWriter.nullable_string),
        ("clientId", RecordWriter.string),
        ("clientHost", RecordWriter.string),
        ("subscribedTopicNames", RecordWriter.strings),
        ("subscribedTopicRegex", RecordWriter.nullable_string),
        ("rebalanceTimeoutMs", RecordWriter.int32),
        ("serverAssignor", RecordWriter.nullable_string),
        # Brokers write null for a member of the new protocol; without the field it is an empty struct.
        tagged=(
            "classicMemberMetadata",
            _nullable(_CLASSIC_MEMBER),
            {"sessionTimeoutMs": 0, "supportedProtocols": []},
        ),
    ),
    ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA: _struct(
        ("assignmentEpoch", RecordWriter.int32), tagged=("assignmentTimestamp", RecordWriter.int64, 0)
    ),
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: _struct(("topicPartitions", _array(_struct(*_TOPIC)))),
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: _struct(
        ("memberEpoch", RecordWriter.int32),
        ("previousMemberEpoch", RecordWriter.int32),
        ("state", RecordWriter.int8),
        ("assignedPartitions", _ASSIGNED),
        ("partitionsPendingRevocation", _ASSIGNED),
    ),
    ConsumerGroupRecord.REGULAR_EXPRESSION: _struct(
        ("topics", RecordWriter.strings), ("version", RecordWriter.int64), ("timestamp", RecordWriter.int64)
    ),
}
