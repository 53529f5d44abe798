"""Values of the records that describe a group under the KIP-848 protocol in `__consumer_offsets`.

Schemas: `ConsumerGroup*Value.json` in group-coordinator of apache/kafka, as released with 4.4.0. Each has
only version 0, which is flexible; a version above 0, which may have any layout, is refused. Of the tagged
fields only the hash of an epoch is read; others are skipped by their size. Fields that a replay has no use
for are read, so that broken ones are found, and dropped. Topics are named by their ids, as Kafka prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord, RecordReader

Partitions = Mapping[str, "tuple[int, ...]"]
"""Partitions by topic id."""


class GroupEpoch(NamedTuple):
    """ConsumerGroupMetadata: the group's epoch. Every change that concerns the assignment raises it by one.

    `metadata_hash` is over the names, ids, partition counts and racks of the topics that members subscribe
    to; 0 without any, and from brokers that keep `PartitionMetadata` instead.
    """

    epoch: int
    metadata_hash: int = 0


class TopicMetadata(NamedTuple):
    """A topic in `PartitionMetadata`."""

    topic_id: str
    topic_name: str
    num_partitions: int


class PartitionMetadata(NamedTuple):
    """ConsumerGroupPartitionMetadata: the subscribed topics, as the first releases with KIP-848 kept them.

    Later ones have a hash in the group's epoch, and write tombstones alone.
    """

    topics: tuple[TopicMetadata, ...]


class ConsumerGroupMember(NamedTuple):
    """ConsumerGroupMemberMetadata: a member as it described itself.

    `subscribed_topic_regex` is None or empty where it subscribes by names alone. `server_assignor` is the one
    that it asks for, None for the broker's default.
    """

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None


class TargetAssignmentEpoch(NamedTuple):
    """ConsumerGroupTargetAssignmentMetadata: the target assignment is complete, and of this group epoch."""

    assignment_epoch: int


class TargetAssignment(NamedTuple):
    """ConsumerGroupTargetAssignmentMember: the target partitions of a member."""

    topic_partitions: Partitions


class CurrentAssignment(NamedTuple):
    """ConsumerGroupCurrentMemberAssignment: how far a member has come. It shows that the member is there."""


class ResolvedRegularExpression(NamedTuple):
    """ConsumerGroupRegularExpression: the topics that a regular expression matches."""

    topics: tuple[str, ...]


ConsumerGroupValue = (
    GroupEpoch
    | PartitionMetadata
    | ConsumerGroupMember
    | TargetAssignmentEpoch
    | TargetAssignment
    | CurrentAssignment
    | ResolvedRegularExpression
)


def decode_consumer_group_value(
    record: ConsumerGroupRecord, data: bytes | bytearray | memoryview
) -> ConsumerGroupValue:
    """The value of a record of this kind; `ProtocolError` if the bytes do not follow its schema."""
    subject = record.name.lower().replace("_", " ")
    reader = RecordReader(data, f"consumer group {subject}", flexible=True)
    reader.version(0)
    value: ConsumerGroupValue = _SCHEMAS[record](reader, "")
    reader.finish("tagged_fields")
    return value


_Read = Callable[[RecordReader, str], Any]
"""Reads a field with this name."""


def _struct(kind: type[Any], tagged: tuple[str, _Read] | None = None, **fields: _Read) -> _Read:
    """Reads a named tuple from these fields; those that it lacks are dropped. `tagged` has the tag 0."""

    def read(reader: RecordReader, _: str) -> Any:
        values = {name: read_field(reader, name) for name, read_field in fields.items()}
        for tag in reader.tagged_fields("tagged_fields"):
            if tag == 0 and tagged:
                values[tagged[0]] = tagged[1](reader, tagged[0])
        return kind(**{name: values[name] for name in kind._fields if name in values})

    return read


def _array(read_element: _Read, minimum_bytes: int) -> _Read:
    def read(reader: RecordReader, field: str) -> tuple[Any, ...]:
        return tuple([read_element(reader, "") for _ in reader.items(field, minimum_bytes)])

    return read


def _partitions(reader: RecordReader, field: str, *, with_epochs: bool = False) -> Partitions:
    partitions: dict[str, tuple[int, ...]] = {}
    for _ in reader.items(field, 16 + 1 + 1):
        start, topic_id = reader.offset, reader.uuid("topic_id")
        if topic_id in partitions:
            raise reader.error("topic_id", start, f"{topic_id} is there twice")
        partitions[topic_id] = reader.int32s("partitions")
        for tag in reader.tagged_fields("tagged_fields"):
            if tag == 0 and with_epochs:
                read_epochs = reader.uvarint if reader.starts_with(b"\0") else reader.int32s
                read_epochs("assignment_epochs")
    return partitions


def _classic_member(reader: RecordReader, field: str) -> None:
    """The data of a member that speaks the classic protocol in the group (online migration), or null."""
    if reader.uvarint(field):
        _CLASSIC_MEMBER(reader, field)


class _Dropped(NamedTuple):
    """What a replay has no use for; it is read, so that broken bytes are found."""


_int32, _int64 = RecordReader.int32, RecordReader.int64
_string, _nullable, _strings = RecordReader.string, RecordReader.nullable_string, RecordReader.strings

_PROTOCOL = _struct(_Dropped, name=_string, metadata=RecordReader.byte_array)
_CLASSIC_MEMBER = _struct(
    _Dropped, session_timeout_ms=_int32, supported_protocols=_array(_PROTOCOL, 1 + 1 + 1)
)
_assigned = partial(_partitions, with_epochs=True)
_RACKS = _struct(_Dropped, partition=_int32, racks=_strings)
_TOPIC = _struct(
    TopicMetadata,
    topic_id=RecordReader.uuid,
    topic_name=_string,
    num_partitions=_int32,
    partition_metadata=_array(_RACKS, 4 + 1 + 1),
)
_SCHEMAS: Mapping[ConsumerGroupRecord, _Read] = {
    ConsumerGroupRecord.METADATA: _struct(GroupEpoch, ("metadata_hash", _int64), epoch=_int32),
    ConsumerGroupRecord.PARTITION_METADATA: _struct(
        PartitionMetadata, topics=_array(_TOPIC, 16 + 1 + 4 + 1 + 1)
    ),
    ConsumerGroupRecord.MEMBER_METADATA: _struct(
        ConsumerGroupMember,
        ("classic_member_metadata", _classic_member),
        instance_id=_nullable,
        rack_id=_nullable,
        client_id=_string,
        client_host=_string,
        subscribed_topic_names=_strings,
        subscribed_topic_regex=_nullable,
        rebalance_timeout_ms=_int32,
        server_assignor=_nullable,
    ),
    ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA: _struct(
        TargetAssignmentEpoch, ("assignment_timestamp", _int64), assignment_epoch=_int32
    ),
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: _struct(TargetAssignment, topic_partitions=_partitions),
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: _struct(
        CurrentAssignment,
        member_epoch=_int32,
        previous_member_epoch=_int32,
        state=RecordReader.int8,
        assigned_partitions=_assigned,
        partitions_pending_revocation=_assigned,
    ),
    ConsumerGroupRecord.REGULAR_EXPRESSION: _struct(
        ResolvedRegularExpression, topics=_strings, version=_int64, timestamp=_int64
    ),
}
