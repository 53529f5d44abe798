"""Values of KIP-848 groups in the terms of Java's JSON for their schemas, and their bytes.

Java omits a tagged field that has its default. Our decoder drops the fields in `UNREAD`.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from compat_tests.support.group_records import RecordWriter
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from kafka_assignors_replay.history.kip848_records import (
    ConsumerGroupMember,
    ConsumerGroupValue,
    CurrentAssignment,
    GroupEpoch,
    PartitionMetadata,
    ResolvedRegularExpression,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicMetadata,
)

Fields = dict[str, Any]

UNREAD = frozenset(
    {
        *("assignmentEpochs", "assignmentTimestamp", "classicMemberMetadata", "partitionMetadata"),
        *("memberEpoch", "previousMemberEpoch", "state", "assignedPartitions", "partitionsPendingRevocation"),
        *("rebalanceTimeoutMs", "timestamp", "version"),
    }
)


def read_fields(fields: Any) -> Any:
    """The fields of a consumer group's record without those that our decoder drops."""
    if isinstance(fields, dict):
        return {name: read_fields(value) for name, value in fields.items() if name not in UNREAD}
    return [read_fields(each) for each in fields] if isinstance(fields, list) else fields


_RECORDS: Mapping[type, ConsumerGroupRecord] = {
    GroupEpoch: ConsumerGroupRecord.METADATA,
    PartitionMetadata: ConsumerGroupRecord.PARTITION_METADATA,
    ConsumerGroupMember: ConsumerGroupRecord.MEMBER_METADATA,
    TargetAssignmentEpoch: ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA,
    TargetAssignment: ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER,
    CurrentAssignment: ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT,
    ResolvedRegularExpression: ConsumerGroupRecord.REGULAR_EXPRESSION,
}


def consumer_group_fields(value: ConsumerGroupValue | TopicMetadata) -> Fields:
    """The fields of a decoded value."""
    fields = {_in_java(name): _as_in_java(field) for name, field in value._asdict().items()}
    return {name: field for name, field in fields.items() if (name, field) != ("metadataHash", 0)}


def _in_java(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _as_in_java(value: Any) -> Any:
    if isinstance(value, TopicMetadata):
        return consumer_group_fields(value)
    if isinstance(value, Mapping):
        return [{"topicId": topic_id, "partitions": [*numbers]} for topic_id, numbers in value.items()]
    return [_as_in_java(each) for each in value] if isinstance(value, tuple) else value


def encode_consumer_group_value(value: ConsumerGroupValue) -> bytes:
    """The bytes of a value; fields that it lacks have the values of a new member on a new broker."""
    record, fields = _RECORDS[type(value)], consumer_group_fields(value)
    for topic in fields["topics"] if isinstance(value, PartitionMetadata) else ():
        topic["partitionMetadata"] = []
    unread: Mapping[ConsumerGroupRecord, Fields] = {
        ConsumerGroupRecord.MEMBER_METADATA: {"rebalanceTimeoutMs": 60_000, "classicMemberMetadata": None},
        ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: {
            "memberEpoch": 0,
            "previousMemberEpoch": 0,
            "state": 0,
            "assignedPartitions": [],
            "partitionsPendingRevocation": [],
        },
        ConsumerGroupRecord.REGULAR_EXPRESSION: {"version": 1, "timestamp": 1},
    }
    return encode_consumer_group_fields(record, fields | unread.get(record, {}))


def encode_consumer_group_fields(record: ConsumerGroupRecord, fields: Fields) -> bytes:
    """The bytes of these fields, as the broker of Kafka 4.4 writes them."""
    writer = RecordWriter(record.name, flexible=True)
    writer.int16("version", 0)
    SCHEMAS[record](writer, "", fields)
    return writer.getvalue()


FieldType: TypeAlias = Callable[[RecordWriter, str, Any], None]
"""Writes a field, of which it has the name and the value."""


@dataclass(frozen=True)
class Struct:
    """These fields in order, and the tagged field 0, unless it has its default."""

    fields: Mapping[str, FieldType]
    tagged: tuple[str, FieldType, Any] | None = None

    def __call__(self, writer: RecordWriter, _: str, fields: Any) -> None:
        for name, write in self.fields.items():
            write(writer, name, fields[name])
        if self.tagged is None or fields.get(self.tagged[0], self.tagged[2]) == self.tagged[2]:
            writer.no_tagged_fields()
        else:
            name, write, _default = self.tagged
            of_tag = RecordWriter(name, flexible=True)
            write(of_tag, name, fields[name])
            writer.tagged_fields({0: of_tag.getvalue()})


@dataclass(frozen=True)
class Array:
    """Any number of elements."""

    element: FieldType

    def __call__(self, writer: RecordWriter, name: str, values: Any) -> None:
        for value in writer.items(name, values):
            self.element(writer, name, value)


@dataclass(frozen=True)
class Nullable:
    """A struct or null."""

    struct: FieldType

    def __call__(self, writer: RecordWriter, name: str, value: Any) -> None:
        writer.uvarint(0 if value is None else 1)
        if value is not None:
            self.struct(writer, name, value)


def nullable_int32s(writer: RecordWriter, name: str, value: Any) -> None:
    if value is None:
        writer.uvarint(0)
    else:
        writer.int32s(name, value)


def as_base64(writer: RecordWriter, name: str, value: str) -> None:
    writer.byte_array(name, base64.b64decode(value))


_PARTITIONS = {"topicId": RecordWriter.uuid, "partitions": RecordWriter.int32s}
_ASSIGNED = Array(Struct(_PARTITIONS, tagged=("assignmentEpochs", nullable_int32s, [])))
_PROTOCOL = Struct({"name": RecordWriter.string, "metadata": as_base64})
_CLASSIC_MEMBER = Struct({"sessionTimeoutMs": RecordWriter.int32, "supportedProtocols": Array(_PROTOCOL)})
_RACKS = Struct({"partition": RecordWriter.int32, "racks": RecordWriter.strings})
_TOPIC = Struct(
    {
        "topicId": RecordWriter.uuid,
        "topicName": RecordWriter.string,
        "numPartitions": RecordWriter.int32,
        "partitionMetadata": Array(_RACKS),
    }
)

SCHEMAS: Mapping[ConsumerGroupRecord, Struct] = {
    ConsumerGroupRecord.METADATA: Struct(
        {"epoch": RecordWriter.int32}, tagged=("metadataHash", RecordWriter.int64, 0)
    ),
    ConsumerGroupRecord.PARTITION_METADATA: Struct({"topics": Array(_TOPIC)}),
    ConsumerGroupRecord.MEMBER_METADATA: Struct(
        {
            "instanceId": RecordWriter.nullable_string,
            "rackId": RecordWriter.nullable_string,
            "clientId": RecordWriter.string,
            "clientHost": RecordWriter.string,
            "subscribedTopicNames": RecordWriter.strings,
            "subscribedTopicRegex": RecordWriter.nullable_string,
            "rebalanceTimeoutMs": RecordWriter.int32,
            "serverAssignor": RecordWriter.nullable_string,
        },
        # Brokers write null for a member of the new protocol; without the field it is an empty struct.
        tagged=(
            "classicMemberMetadata",
            Nullable(_CLASSIC_MEMBER),
            {"sessionTimeoutMs": 0, "supportedProtocols": []},
        ),
    ),
    ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA: Struct(
        {"assignmentEpoch": RecordWriter.int32}, tagged=("assignmentTimestamp", RecordWriter.int64, 0)
    ),
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: Struct({"topicPartitions": Array(Struct(_PARTITIONS))}),
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: Struct(
        {
            "memberEpoch": RecordWriter.int32,
            "previousMemberEpoch": RecordWriter.int32,
            "state": RecordWriter.int8,
            "assignedPartitions": _ASSIGNED,
            "partitionsPendingRevocation": _ASSIGNED,
        }
    ),
    ConsumerGroupRecord.REGULAR_EXPRESSION: Struct(
        {"topics": RecordWriter.strings, "version": RecordWriter.int64, "timestamp": RecordWriter.int64}
    ),
}
"""The fields of each kind of value, in the terms of Java's schemas."""
