"""Values of the records that describe a group under the KIP-848 protocol in `__consumer_offsets`.

Such a group is not one record but many, one for each fact: its epoch, each member, the target assignment of
each member and the epoch it is of, what each member has been given so far, and what a regular expression
matches. `consumer_offsets` says which fact a record is about.

Schemas: `ConsumerGroup*Value.json` in group-coordinator of apache/kafka, as released with 4.4.0. There is
version 0 of each, and it is flexible: every struct ends in tagged fields, which a later broker may add
without raising the version (KIP-915). Unknown ones are skipped. A version above 0 may have any layout, so it
is refused. Topics are named by their ids, in the form in which Kafka prints them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kafka_assignors.wire.consumer_offsets import ConsumerGroupRecord
from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.writer import Writer

NEWEST_VERSION = 0

LEFT_TO_RETURN = -2
"""The epoch of a static member that is away: its instance id and its share are kept for it."""

_SMALLEST_TOPIC_PARTITIONS_BYTES = 16 + 1 + 1
_SMALLEST_CLASSIC_PROTOCOL_BYTES = 1 + 1 + 1
_SMALLEST_TOPIC_METADATA_BYTES = 16 + 1 + 4 + 1 + 1
_SMALLEST_PARTITION_METADATA_BYTES = 4 + 1 + 1


class MemberState(enum.IntEnum):
    """What a member is doing on its way to its target assignment.

    In a state that this release does not know, a member reads as UNKNOWN, as it does in Kafka.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


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
    """A topic in `PartitionMetadata`; `racks` by partition, empty where none are known."""

    topic_id: str
    topic: str
    partitions: int
    racks: Mapping[int, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """ConsumerGroupPartitionMetadata: the subscribed topics, as the first releases with KIP-848 kept them.

    Later ones have a hash in the group's epoch, and write tombstones alone.
    """

    topics: tuple[TopicMetadata, ...]


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """A strategy that a classic member offers, with its subscription in the bytes of the classic protocol."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """What a member keeps that speaks the classic protocol in a KIP-848 group (online migration)."""

    session_timeout_ms: int = 0
    protocols: tuple[ClassicProtocol, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsumerGroupMember:
    """ConsumerGroupMemberMetadata: a member as it described itself.

    `regular_expression` is None or empty where it subscribes by names alone. `rebalance_timeout_ms` is how
    long it may take to revoke; -1 for unknown. `assignor` is the server assignor that it asks for, None for
    the broker's default. `classic` is None for a member that speaks the new protocol.
    """

    instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regular_expression: str | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: ClassicMember | None = None


@dataclass(frozen=True, slots=True)
class TargetAssignmentEpoch:
    """ConsumerGroupTargetAssignmentMetadata: the target assignment is complete, and of this group epoch.

    `timestamp_ms` is when it was computed, in milliseconds since the epoch; 0 where the broker does not say.
    """

    epoch: int
    timestamp_ms: int = 0


@dataclass(frozen=True, slots=True)
class TargetAssignment:
    """ConsumerGroupTargetAssignmentMember: what a member shall have, by topic id."""

    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class AssignedPartitions:
    """Partitions of a topic that a member has, or has to give up.

    `epochs` are the group epochs in which it was given each of them; empty from brokers that do not say, None
    where the record has null.
    """

    topic_id: str
    partitions: tuple[int, ...]
    epochs: tuple[int, ...] | None = ()


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """ConsumerGroupCurrentMemberAssignment: how far a member has come.

    `epoch` is the group epoch that it has reached, or `LEFT_TO_RETURN`. `assigned` it may consume,
    `pending_revocation` it has to revoke before it goes on to the next epoch.
    """

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: tuple[AssignedPartitions, ...]
    pending_revocation: tuple[AssignedPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedRegularExpression:
    """ConsumerGroupRegularExpression: the topics that a regular expression matches.

    `metadata_version` is that of the cluster's metadata in which they were looked up, at `timestamp_ms`.
    """

    topics: tuple[str, ...]
    metadata_version: int
    timestamp_ms: int


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
    reader = Reader(data, _SUBJECTS[record])
    version = reader.int16("version")
    if version != NEWEST_VERSION:
        raise reader.error("version", 0, f"{version} is not known: this reads version {NEWEST_VERSION}")
    value = _READERS[record](reader)
    reader.finish("tagged_fields")
    return value


def encode_consumer_group_value(value: ConsumerGroupValue) -> bytes:
    """The bytes of `value`, as the broker of Kafka 4.4 writes them."""
    kind = next(record for record, of_record in _CLASSES.items() if isinstance(value, of_record))
    writer = Writer(_SUBJECTS[kind])
    writer.int16("version", NEWEST_VERSION)
    if isinstance(value, (GroupEpoch, TargetAssignmentEpoch)):
        writer.int32("epoch", value.epoch)
        tagged = value.metadata_hash if isinstance(value, GroupEpoch) else value.timestamp_ms
        writer.tagged_fields({0: _int64(tagged)} if tagged else {})
    elif isinstance(value, PartitionMetadata):
        _write_partition_metadata(writer, value)
    elif isinstance(value, ConsumerGroupMember):
        _write_member(writer, value)
    elif isinstance(value, TargetAssignment):
        for topic_id, numbers in writer.compact_items("topic_partitions", list(value.partitions.items())):
            writer.uuid("topic_id", topic_id)
            writer.compact_int32s("partitions", numbers)
            writer.no_tagged_fields()
        writer.no_tagged_fields()
    elif isinstance(value, CurrentAssignment):
        writer.int32("member_epoch", value.epoch)
        writer.int32("previous_member_epoch", value.previous_epoch)
        writer.int8("state", value.state)
        _write_assigned(writer, "assigned_partitions", value.assigned)
        _write_assigned(writer, "partitions_pending_revocation", value.pending_revocation)
        writer.no_tagged_fields()
    else:
        writer.compact_strings("topics", value.topics)
        writer.int64("version", value.metadata_version)
        writer.int64("timestamp", value.timestamp_ms)
        writer.no_tagged_fields()
    return writer.getvalue()


# Epochs.


def _read_group_epoch(reader: Reader) -> GroupEpoch:
    return GroupEpoch(reader.int32("epoch"), _tagged_int64(reader, "metadata_hash"))


def _read_target_epoch(reader: Reader) -> TargetAssignmentEpoch:
    return TargetAssignmentEpoch(
        reader.int32("assignment_epoch"), _tagged_int64(reader, "assignment_timestamp")
    )


def _tagged_int64(reader: Reader, field: str) -> int:
    """The one tagged field of a struct, 0 if it is not there."""
    value = 0
    for tag in reader.tagged_fields("tagged_fields"):
        if tag == 0:
            value = reader.int64(field)
    return value


def _int64(value: int) -> bytes:
    writer = Writer("tagged field")
    writer.int64("data", value)
    return writer.getvalue()


# Partition metadata.


def _read_partition_metadata(reader: Reader) -> PartitionMetadata:
    topics = []
    for _ in reader.compact_items("topics", _SMALLEST_TOPIC_METADATA_BYTES):
        topic_id = reader.uuid("topic_id")
        name = reader.compact_string("topic_name")
        partitions = reader.int32("num_partitions")
        racks = {}
        for _ in reader.compact_items("partition_metadata", _SMALLEST_PARTITION_METADATA_BYTES):
            partition = reader.int32("partition")
            racks[partition] = reader.compact_strings("racks")
            reader.skip_tagged_fields("tagged_fields")
        reader.skip_tagged_fields("tagged_fields")
        topics.append(TopicMetadata(topic_id, name, partitions, racks))
    reader.skip_tagged_fields("tagged_fields")
    return PartitionMetadata(tuple(topics))


def _write_partition_metadata(writer: Writer, value: PartitionMetadata) -> None:
    for topic in writer.compact_items("topics", value.topics):
        writer.uuid("topic_id", topic.topic_id)
        writer.compact_string("topic_name", topic.topic)
        writer.int32("num_partitions", topic.partitions)
        for partition, racks in writer.compact_items("partition_metadata", list(topic.racks.items())):
            writer.int32("partition", partition)
            writer.compact_strings("racks", racks)
            writer.no_tagged_fields()
        writer.no_tagged_fields()
    writer.no_tagged_fields()


# Members.


def _read_member(reader: Reader) -> ConsumerGroupMember:
    instance_id = reader.compact_nullable_string("instance_id")
    rack = reader.compact_nullable_string("rack_id")
    client_id = reader.compact_string("client_id")
    client_host = reader.compact_string("client_host")
    topics = reader.compact_strings("subscribed_topic_names")
    regular_expression = reader.compact_nullable_string("subscribed_topic_regex")
    rebalance_timeout_ms = reader.int32("rebalance_timeout_ms")
    assignor = reader.compact_nullable_string("server_assignor")
    # Brokers write null for a member of the new protocol; a field that is not there is an empty struct.
    classic: ClassicMember | None = ClassicMember()
    for tag in reader.tagged_fields("tagged_fields"):
        if tag == 0:
            classic = _read_classic_member(reader) if reader.uvarint("classic_member_metadata") else None
    return ConsumerGroupMember(
        instance_id,
        rack,
        client_id,
        client_host,
        topics,
        regular_expression,
        rebalance_timeout_ms,
        assignor,
        classic,
    )


def _read_classic_member(reader: Reader) -> ClassicMember:
    session_timeout_ms = reader.int32("session_timeout_ms")
    protocols = []
    for _ in reader.compact_items("supported_protocols", _SMALLEST_CLASSIC_PROTOCOL_BYTES):
        protocols.append(
            ClassicProtocol(reader.compact_string("name"), reader.compact_byte_array("metadata"))
        )
        reader.skip_tagged_fields("tagged_fields")
    reader.skip_tagged_fields("tagged_fields")
    return ClassicMember(session_timeout_ms, tuple(protocols))


def _write_member(writer: Writer, value: ConsumerGroupMember) -> None:
    writer.compact_nullable_string("instance_id", value.instance_id)
    writer.compact_nullable_string("rack_id", value.rack)
    writer.compact_string("client_id", value.client_id)
    writer.compact_string("client_host", value.client_host)
    writer.compact_strings("subscribed_topic_names", value.topics)
    writer.compact_nullable_string("subscribed_topic_regex", value.regular_expression)
    writer.int32("rebalance_timeout_ms", value.rebalance_timeout_ms)
    writer.compact_nullable_string("server_assignor", value.assignor)
    if value.classic == ClassicMember():
        writer.no_tagged_fields()
    else:
        writer.tagged_fields({0: _classic_member(value.classic)})


def _classic_member(value: ClassicMember | None) -> bytes:
    """The tagged field: 0 for null, or 1 and the struct."""
    writer = Writer("classic member metadata")
    if value is None:
        writer.uvarint(0)
    else:
        writer.uvarint(1)
        writer.int32("session_timeout_ms", value.session_timeout_ms)
        for protocol in writer.compact_items("supported_protocols", value.protocols):
            writer.compact_string("name", protocol.name)
            writer.compact_byte_array("metadata", protocol.metadata)
            writer.no_tagged_fields()
        writer.no_tagged_fields()
    return writer.getvalue()


# Assignments.


def _read_target(reader: Reader) -> TargetAssignment:
    partitions: dict[str, tuple[int, ...]] = {}
    for _ in reader.compact_items("topic_partitions", _SMALLEST_TOPIC_PARTITIONS_BYTES):
        start = reader.offset
        topic_id = reader.uuid("topic_id")
        if topic_id in partitions:
            raise reader.error("topic_id", start, f"{topic_id} is there twice")
        partitions[topic_id] = reader.compact_int32s("partitions")
        reader.skip_tagged_fields("tagged_fields")
    reader.skip_tagged_fields("tagged_fields")
    return TargetAssignment(partitions)


def _read_current(reader: Reader) -> CurrentAssignment:
    epoch = reader.int32("member_epoch")
    previous_epoch = reader.int32("previous_member_epoch")
    state = reader.int8("state")
    assigned = _read_assigned(reader, "assigned_partitions")
    pending_revocation = _read_assigned(reader, "partitions_pending_revocation")
    reader.skip_tagged_fields("tagged_fields")
    known = state if state in _STATES else MemberState.UNKNOWN
    return CurrentAssignment(epoch, previous_epoch, MemberState(known), assigned, pending_revocation)


def _read_assigned(reader: Reader, field: str) -> tuple[AssignedPartitions, ...]:
    found = []
    for _ in reader.compact_items(field, _SMALLEST_TOPIC_PARTITIONS_BYTES):
        topic_id = reader.uuid("topic_id")
        partitions = reader.compact_int32s("partitions")
        epochs: tuple[int, ...] | None = ()
        for tag in reader.tagged_fields("tagged_fields"):
            if tag == 0:
                epochs = reader.compact_nullable_int32s("assignment_epochs")
        found.append(AssignedPartitions(topic_id, partitions, epochs))
    return tuple(found)


def _write_assigned(writer: Writer, field: str, values: Iterable[AssignedPartitions]) -> None:
    for value in writer.compact_items(field, list(values)):
        writer.uuid("topic_id", value.topic_id)
        writer.compact_int32s("partitions", value.partitions)
        writer.tagged_fields({} if value.epochs == () else {0: _epochs(value.epochs)})


def _epochs(value: tuple[int, ...] | None) -> bytes:
    writer = Writer("tagged field")
    if value is None:
        writer.uvarint(0)
    else:
        writer.compact_int32s("assignment_epochs", value)
    return writer.getvalue()


# Regular expressions.


def _read_regular_expression(reader: Reader) -> ResolvedRegularExpression:
    value = ResolvedRegularExpression(
        reader.compact_strings("topics"), reader.int64("version"), reader.int64("timestamp")
    )
    reader.skip_tagged_fields("tagged_fields")
    return value


_STATES = frozenset(MemberState)

_READERS: dict[ConsumerGroupRecord, Callable[[Reader], ConsumerGroupValue]] = {
    ConsumerGroupRecord.METADATA: _read_group_epoch,
    ConsumerGroupRecord.PARTITION_METADATA: _read_partition_metadata,
    ConsumerGroupRecord.MEMBER_METADATA: _read_member,
    ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA: _read_target_epoch,
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: _read_target,
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: _read_current,
    ConsumerGroupRecord.REGULAR_EXPRESSION: _read_regular_expression,
}

_CLASSES: dict[ConsumerGroupRecord, type] = {
    ConsumerGroupRecord.METADATA: GroupEpoch,
    ConsumerGroupRecord.PARTITION_METADATA: PartitionMetadata,
    ConsumerGroupRecord.MEMBER_METADATA: ConsumerGroupMember,
    ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA: TargetAssignmentEpoch,
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: TargetAssignment,
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: CurrentAssignment,
    ConsumerGroupRecord.REGULAR_EXPRESSION: ResolvedRegularExpression,
}

_SUBJECTS: dict[ConsumerGroupRecord, str] = {
    ConsumerGroupRecord.METADATA: "consumer group metadata",
    ConsumerGroupRecord.PARTITION_METADATA: "consumer group partition metadata",
    ConsumerGroupRecord.MEMBER_METADATA: "consumer group member metadata",
    ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA: "target assignment metadata",
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: "target assignment",
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: "current assignment",
    ConsumerGroupRecord.REGULAR_EXPRESSION: "resolved regular expression",
}
