"""Values of the records that describe a group under the KIP-848 protocol in `__consumer_offsets`.

Such a group is not one record but many, one for each fact: its epoch, each member, the target assignment of
each member and the epoch it is of, what each member has been given so far, and what a regular expression
matches. `consumer_offsets` says which fact a record is about.

Schemas: `ConsumerGroup*Value.json` in group-coordinator of apache/kafka, as released with 4.4.0. Each has
only version 0, which is flexible: every struct ends in tagged fields, which a later broker may add without
raising the version (KIP-915). Unknown ones are skipped. A version above 0 may have any layout, so it is
refused. Fields that a replay has no use for are read, so that broken ones are found, and dropped. Topics are
named by their ids, in the form in which Kafka prints them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord, RecordReader

NEWEST_VERSION = 0

LEFT_TO_RETURN = -2
"""The epoch of a static member that is away: its instance id and its share are kept for it."""

Partitions = Mapping[str, "tuple[int, ...]"]
"""Partitions by topic id."""

_T = TypeVar("_T")


class ConsumerGroupMemberState(enum.IntEnum):
    """What a member is doing on its way to its target assignment.

    In a state that this release does not know, a member reads as UNKNOWN, as it does in Kafka.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


_STATES = frozenset(ConsumerGroupMemberState)


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """ConsumerGroupMetadata: the group's epoch. Every change that concerns the assignment raises it by one.

    `metadata_hash` is over the names, ids, partition counts and racks of the topics that members subscribe
    to; 0 without any, and from brokers that keep `PartitionMetadata` instead.
    """

    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic in `PartitionMetadata`."""

    topic_id: str
    topic: str
    partitions: int


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """ConsumerGroupPartitionMetadata: the subscribed topics, as the first releases with KIP-848 kept them.

    Later ones have a hash in the group's epoch, and write tombstones alone.
    """

    topics: tuple[TopicMetadata, ...]


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """ConsumerGroupMemberMetadata: a member as it described itself.

    `regular_expression` is None or empty where it subscribes by names alone. `rebalance_timeout_ms` is how
    long it may take to revoke; -1 for unknown. `assignor` is the server assignor that it asks for, None for
    the broker's default.
    """

    instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regular_expression: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None


@dataclass(frozen=True, slots=True)
class TargetAssignmentEpoch:
    """ConsumerGroupTargetAssignmentMetadata: the target assignment is complete, and of this group epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    """ConsumerGroupTargetAssignmentMember: the target partitions of a member."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """ConsumerGroupCurrentMemberAssignment: how far a member has come.

    `epoch` is the group epoch that it has reached, or `LEFT_TO_RETURN`. `assigned` it may consume,
    `pending_revocation` it has to revoke before it goes on to the next epoch.
    """

    epoch: int
    previous_epoch: int
    state: ConsumerGroupMemberState
    assigned: Partitions
    pending_revocation: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResolvedRegularExpression:
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
    subject, read = _KINDS[record]
    reader = RecordReader(data, subject, flexible=True)
    version = reader.int16("version")
    if version != NEWEST_VERSION:
        raise reader.error("version", 0, f"{version} is not known: this reads version {NEWEST_VERSION}")
    value = read(reader)
    reader.finish("tagged_fields")
    return value


# Each function reads a struct to its end: the tagged fields, of which the schemas have at most one.


def _tagged(reader: RecordReader, field: str, read: Callable[[RecordReader, str], _T], absent: _T) -> _T:
    """The tagged field 0 of a struct; `absent` if the bytes do not have it."""
    value = absent
    for tag in reader.tagged_fields("tagged_fields"):
        if tag == 0:
            value = read(reader, field)
    return value


def _group_epoch(reader: RecordReader) -> GroupEpoch:
    epoch = reader.int32("epoch")
    return GroupEpoch(epoch, _tagged(reader, "metadata_hash", RecordReader.int64, 0))


def _partition_metadata(reader: RecordReader) -> PartitionMetadata:
    topics = tuple([_topic(reader) for _ in reader.items("topics", 16 + 1 + 4 + 1 + 1)])
    reader.skip_tagged_fields()
    return PartitionMetadata(topics)


def _topic(reader: RecordReader) -> TopicMetadata:
    topic = TopicMetadata(
        reader.uuid("topic_id"), reader.string("topic_name"), reader.int32("num_partitions")
    )
    for _ in reader.items("partition_metadata", 4 + 1 + 1):
        reader.int32("partition")
        reader.strings("racks")
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return topic


def _member(reader: RecordReader) -> ConsumerGroupMember:
    member = ConsumerGroupMember(
        instance_id=reader.nullable_string("instance_id"),
        rack=reader.nullable_string("rack_id"),
        client_id=reader.string("client_id"),
        client_host=reader.string("client_host"),
        topics=reader.strings("subscribed_topic_names"),
        regular_expression=reader.nullable_string("subscribed_topic_regex"),
        rebalance_timeout_ms=reader.int32("rebalance_timeout_ms"),
        assignor=reader.nullable_string("server_assignor"),
    )
    _tagged(reader, "classic_member_metadata", _classic_member, None)
    return member


def _classic_member(reader: RecordReader, field: str) -> None:
    """The data of a member that speaks the classic protocol in the group (online migration), or null."""
    if reader.uvarint(field):
        reader.int32("session_timeout_ms")
        for _ in reader.items("supported_protocols", 1 + 1 + 1):
            reader.string("name")
            reader.byte_array("metadata")
            reader.skip_tagged_fields()
        reader.skip_tagged_fields()


def _target_epoch(reader: RecordReader) -> TargetAssignmentEpoch:
    epoch = reader.int32("assignment_epoch")
    _tagged(reader, "assignment_timestamp", RecordReader.int64, 0)
    return TargetAssignmentEpoch(epoch)


_TOPIC_BYTES = 16 + 1 + 1
"""An id, no partitions, and no tagged fields."""


def _target_assignment(reader: RecordReader) -> TargetAssignment:
    partitions: dict[str, tuple[int, ...]] = {}
    for _ in reader.items("topic_partitions", _TOPIC_BYTES):
        start = reader.offset
        topic_id = reader.uuid("topic_id")
        if topic_id in partitions:
            raise reader.error("topic_id", start, f"{topic_id} is there twice")
        partitions[topic_id] = reader.int32s("partitions")
        reader.skip_tagged_fields()
    reader.skip_tagged_fields()
    return TargetAssignment(partitions)


def _current_assignment(reader: RecordReader) -> CurrentAssignment:
    epoch, previous_epoch = reader.int32("member_epoch"), reader.int32("previous_member_epoch")
    number = reader.int8("state")
    state = ConsumerGroupMemberState(number) if number in _STATES else ConsumerGroupMemberState.UNKNOWN
    assigned = _assigned(reader, "assigned_partitions")
    pending_revocation = _assigned(reader, "partitions_pending_revocation")
    reader.skip_tagged_fields()
    return CurrentAssignment(epoch, previous_epoch, state, assigned, pending_revocation)


def _assigned(reader: RecordReader, field: str) -> Partitions:
    partitions: dict[str, tuple[int, ...]] = {}
    for _ in reader.items(field, _TOPIC_BYTES):
        topic_id = reader.uuid("topic_id")
        partitions[topic_id] = reader.int32s("partitions")
        _tagged(reader, "assignment_epochs", _skip_epochs, None)
    return partitions


def _skip_epochs(reader: RecordReader, field: str) -> None:
    if reader.starts_with(b"\0"):
        reader.uvarint(field)  # null
    else:
        reader.int32s(field)


def _regular_expression(reader: RecordReader) -> ResolvedRegularExpression:
    topics = reader.strings("topics")
    reader.int64("version")
    reader.int64("timestamp")
    reader.skip_tagged_fields()
    return ResolvedRegularExpression(topics)


_KINDS: Mapping[ConsumerGroupRecord, tuple[str, Callable[[RecordReader], ConsumerGroupValue]]] = {
    ConsumerGroupRecord.METADATA: ("consumer group metadata", _group_epoch),
    ConsumerGroupRecord.PARTITION_METADATA: ("consumer group partition metadata", _partition_metadata),
    ConsumerGroupRecord.MEMBER_METADATA: ("consumer group member metadata", _member),
    ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA: ("target assignment metadata", _target_epoch),
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: ("target assignment", _target_assignment),
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: ("current assignment", _current_assignment),
    ConsumerGroupRecord.REGULAR_EXPRESSION: ("resolved regular expression", _regular_expression),
}
