"""Values of the records that describe a group under the KIP-848 protocol in `__consumer_offsets`.

Such a group is not one record but many, one for each fact: its epoch, each member, the target assignment of
each member and the epoch it is of, what each member has been given so far, and what a regular expression
matches. `consumer_offsets` says which fact a record is about.

Schemas: `ConsumerGroup*Value.json` in group-coordinator of apache/kafka, as released with 4.4.0. Each has
only version 0, which is flexible: every struct ends in tagged fields, which a later broker may add without
raising the version (KIP-915). Unknown ones are skipped. A version above 0 may have any layout, so it is
refused. Topics are named by their ids, in the form in which Kafka prints them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.writer import Writer
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord

NEWEST_VERSION = 0

LEFT_TO_RETURN = -2
"""The epoch of a static member that is away: its instance id and its share are kept for it."""


class ConsumerGroupMemberState(enum.IntEnum):
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
    """The data of a member that speaks the classic protocol in a KIP-848 group (online migration)."""

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
    """ConsumerGroupTargetAssignmentMember: the target partitions of a member, by topic id."""

    partitions: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class AssignedPartitions:
    """Partitions of a topic that a member has, or has to give up.

    `epochs` are the group epochs in which it was given each of them; empty from brokers that do not write
    them, None if the record has null.
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
    state: ConsumerGroupMemberState
    assigned: tuple[AssignedPartitions, ...]
    pending_revocation: tuple[AssignedPartitions, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedRegularExpression:
    """ConsumerGroupRegularExpression: the topics that a regular expression matches.

    `metadata_version` is the version of the cluster's metadata in which the broker looked them up, at
    `timestamp_ms`.
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
    subject, struct = _KINDS[record]
    reader = Reader(data, subject, flexible=True)
    version = reader.int16("version")
    if version != NEWEST_VERSION:
        raise reader.error("version", 0, f"{version} is not known: this reads version {NEWEST_VERSION}")
    value: ConsumerGroupValue = struct.read(reader)
    reader.finish("tagged_fields")
    return value


def encode_consumer_group_value(value: ConsumerGroupValue) -> bytes:
    """The bytes of `value`, as the broker of Kafka 4.4 writes them."""
    subject, struct = next(kind for kind in _KINDS.values() if isinstance(value, kind[1].value_class))
    writer = Writer(subject, flexible=True)
    writer.int16("version", NEWEST_VERSION)
    struct.write(writer, value)
    return writer.getvalue()


# ---- how schemas are written down


class _Type(NamedTuple):
    """The type of a field, and how many bytes its smallest value takes."""

    read: Callable[[Reader, str], Any]
    write: Callable[[Writer, str, Any], None]
    smallest: int


class _Struct:
    """The fields of a struct, in the order of the bytes and of the attributes of its class.

    The last attribute is that of `tagged`, if there is one: its name, its type, and its value where the bytes
    do not have the field.
    """

    def __init__(
        self, value_class: type, *of_fields: tuple[str, _Type], tagged: tuple[str, _Type, Any] | None = None
    ) -> None:
        self.value_class = value_class
        self.smallest = sum(type.smallest for _, type in of_fields) + 1
        self._attributes = [each.name for each in fields(value_class)]
        self._readers = [(name, type.read) for name, type in of_fields]
        self._writers = [(name, type.write) for name, type in of_fields]
        self._tagged = tagged

    def read(self, reader: Reader) -> Any:
        values = [read(reader, name) for name, read in self._readers]
        if self._tagged is None:
            reader.skip_tagged_fields("tagged_fields")
        else:
            name, type, value = self._tagged
            for tag in reader.tagged_fields("tagged_fields"):
                if tag == 0:
                    value = type.read(reader, name)
            values.append(value)
        return self.value_class(*values)

    def write(self, writer: Writer, value: Any) -> None:
        values = [getattr(value, attribute) for attribute in self._attributes]
        for (name, write), given in zip(self._writers, values, strict=False):
            write(writer, name, given)
        if self._tagged is None or values[-1] == self._tagged[2]:
            writer.no_tagged_fields()
        else:
            name, type, _ = self._tagged
            tagged = Writer(name, flexible=True)
            type.write(tagged, name, values[-1])
            writer.tagged_fields({0: tagged.getvalue()})


def _array(struct: _Struct) -> _Type:
    def read(reader: Reader, field: str) -> Any:
        return tuple([struct.read(reader) for _ in reader.items(field, struct.smallest)])

    def write(writer: Writer, field: str, values: Any) -> None:
        for value in writer.items(field, values):
            struct.write(writer, value)

    return _Type(read, write, 1)


def _by(key: tuple[str, _Type], value: tuple[str, _Type], *, once: bool) -> _Type:
    """An array of structs of two fields, as a mapping; `once`: no key may come twice."""
    (key_field, of_key), (value_field, of_value) = key, value

    def read(reader: Reader, field: str) -> Any:
        found: dict[Any, Any] = {}
        for _ in reader.items(field, of_key.smallest + of_value.smallest + 1):
            start = reader.offset
            name = of_key.read(reader, key_field)
            if once and name in found:
                raise reader.error(key_field, start, f"{name} is there twice")
            found[name] = of_value.read(reader, value_field)
            reader.skip_tagged_fields("tagged_fields")
        return found

    def write(writer: Writer, field: str, values: Any) -> None:
        for name, given in writer.items(field, list(values.items())):
            of_key.write(writer, key_field, name)
            of_value.write(writer, value_field, given)
            writer.no_tagged_fields()

    return _Type(read, write, 1)


def _nullable(struct: _Struct) -> _Type:
    def read(reader: Reader, field: str) -> Any:
        return struct.read(reader) if reader.uvarint(field) else None

    def write(writer: Writer, field: str, value: Any) -> None:
        writer.uvarint(0 if value is None else 1)
        if value is not None:
            struct.write(writer, value)

    return _Type(read, write, 1)


def _read_state(reader: Reader, field: str) -> ConsumerGroupMemberState:
    state = reader.int8(field)
    return ConsumerGroupMemberState(state) if state in _STATES else ConsumerGroupMemberState.UNKNOWN


def _write_nullable_int32s(writer: Writer, field: str, value: tuple[int, ...] | None) -> None:
    if value is None:
        writer.uvarint(0)
    else:
        writer.int32s(field, value)


_STATES = frozenset(ConsumerGroupMemberState)
_STATE = _Type(_read_state, Writer.int8, 1)
_INT32 = _Type(Reader.int32, Writer.int32, 4)
_INT64 = _Type(Reader.int64, Writer.int64, 8)
_UUID = _Type(Reader.uuid, Writer.uuid, 16)
_STRING = _Type(Reader.string, Writer.string, 1)
_NULLABLE_STRING = _Type(Reader.nullable_string, Writer.nullable_string, 1)
_BYTES = _Type(Reader.byte_array, Writer.byte_array, 1)
_STRINGS = _Type(Reader.strings, Writer.strings, 1)
_INT32S = _Type(Reader.int32s, Writer.int32s, 1)
_NULLABLE_INT32S = _Type(Reader.nullable_int32s, _write_nullable_int32s, 1)


# ---- the schemas

_TOPIC_METADATA = _Struct(
    TopicMetadata,
    ("topic_id", _UUID),
    ("topic_name", _STRING),
    ("num_partitions", _INT32),
    ("partition_metadata", _by(("partition", _INT32), ("racks", _STRINGS), once=False)),
)
_CLASSIC_MEMBER = _Struct(
    ClassicMember,
    ("session_timeout_ms", _INT32),
    ("supported_protocols", _array(_Struct(ClassicProtocol, ("name", _STRING), ("metadata", _BYTES)))),
)
_ASSIGNED = _array(
    _Struct(
        AssignedPartitions,
        ("topic_id", _UUID),
        ("partitions", _INT32S),
        tagged=("assignment_epochs", _NULLABLE_INT32S, ()),
    )
)

_KINDS: Mapping[ConsumerGroupRecord, tuple[str, _Struct]] = {
    ConsumerGroupRecord.METADATA: (
        "consumer group metadata",
        _Struct(GroupEpoch, ("epoch", _INT32), tagged=("metadata_hash", _INT64, 0)),
    ),
    ConsumerGroupRecord.PARTITION_METADATA: (
        "consumer group partition metadata",
        _Struct(PartitionMetadata, ("topics", _array(_TOPIC_METADATA))),
    ),
    ConsumerGroupRecord.MEMBER_METADATA: (
        "consumer group member metadata",
        _Struct(
            ConsumerGroupMember,
            ("instance_id", _NULLABLE_STRING),
            ("rack_id", _NULLABLE_STRING),
            ("client_id", _STRING),
            ("client_host", _STRING),
            ("subscribed_topic_names", _STRINGS),
            ("subscribed_topic_regex", _NULLABLE_STRING),
            ("rebalance_timeout_ms", _INT32),
            ("server_assignor", _NULLABLE_STRING),
            # Brokers write null for a member of the new protocol; without the field it is an empty struct.
            tagged=("classic_member_metadata", _nullable(_CLASSIC_MEMBER), ClassicMember()),
        ),
    ),
    ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA: (
        "target assignment metadata",
        _Struct(
            TargetAssignmentEpoch,
            ("assignment_epoch", _INT32),
            tagged=("assignment_timestamp", _INT64, 0),
        ),
    ),
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: (
        "target assignment",
        _Struct(
            TargetAssignment,
            ("topic_partitions", _by(("topic_id", _UUID), ("partitions", _INT32S), once=True)),
        ),
    ),
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: (
        "current assignment",
        _Struct(
            CurrentAssignment,
            ("member_epoch", _INT32),
            ("previous_member_epoch", _INT32),
            ("state", _STATE),
            ("assigned_partitions", _ASSIGNED),
            ("partitions_pending_revocation", _ASSIGNED),
        ),
    ),
    ConsumerGroupRecord.REGULAR_EXPRESSION: (
        "resolved regular expression",
        _Struct(ResolvedRegularExpression, ("topics", _STRINGS), ("version", _INT64), ("timestamp", _INT64)),
    ),
}
