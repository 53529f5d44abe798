"""Records of `__consumer_offsets`: the keys of all of them, and the value that keeps a classic group.

A **key** begins with an int16 that says what kind of record it is; the schemas are the `*Key.json` files in
group-coordinator/src/main/resources/common/message of apache/kafka, and the numbers those of
`CoordinatorRecordType` in Kafka 4.4. A record without a value is a tombstone: what its key names is gone.
The value's own version is in the value. The values of groups under KIP-848 are in `kip848_records`.

**GroupMetadataValue** is one generation of a classic group. Schema: `GroupMetadataValue.json` in the same
place. Version 1 added the rebalance timeout, version 2 the time of the last change of state, version 3
static membership, and version 4 is the first flexible one: lengths become varints, and every struct ends in
tagged fields, which a later broker may add without raising the version (KIP-915). Unknown ones are skipped.
A version above 4 may have any layout, so it is refused. Subscription and assignment of a member stay bytes:
their format depends on `protocol_type`, and they may be broken without the record being broken.
"""

from __future__ import annotations

import base64
import enum
import struct
from dataclasses import dataclass

from kafka_assignors.wire.reader import Reader


class RecordReader(Reader):
    """Reads the types too that only records of brokers have."""

    __slots__ = ()

    def int64(self, field: str) -> int:
        (value,) = struct.unpack(">q", self.raw(field, 8))
        return int(value)

    def uuid(self, field: str) -> str:
        """An identifier as Kafka prints it: URL-safe base64 without padding."""
        return base64.urlsafe_b64encode(self.raw(field, 16)).rstrip(b"=").decode("ascii")

    def skip_tagged_fields(self) -> None:
        """Tagged fields that this version does not know: read over, within their bounds."""
        for _ in self.tagged_fields("tagged_fields"):
            pass


_KEY_SUBJECT = "record key"
_OFFSET_COMMIT_TYPES = (0, 1)
_GROUP_METADATA_TYPE = 2


class ConsumerGroupRecord(enum.IntEnum):
    """The kinds of records of a group under the KIP-848 protocol."""

    METADATA = 3
    PARTITION_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_ASSIGNMENT_METADATA = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_MEMBER_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


PART_OF = {
    ConsumerGroupRecord.MEMBER_METADATA: "member_id",
    ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER: "member_id",
    ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT: "member_id",
    ConsumerGroupRecord.REGULAR_EXPRESSION: "regular_expression",
}
"""The field after the group in a key, for the kinds that have one."""

_CONSUMER_GROUP_TYPES = frozenset(ConsumerGroupRecord)


@dataclass(frozen=True, slots=True)
class OffsetCommitKey:
    """A committed offset; `type` is 1, or 0 for records from before Kafka 0.9."""

    group: str
    topic: str
    partition: int
    type: int = 1


@dataclass(frozen=True, slots=True)
class GroupMetadataKey:
    """A generation of a group under the classic protocol."""

    group: str


@dataclass(frozen=True, slots=True)
class ConsumerGroupKey:
    """A part of a group under the KIP-848 protocol; `member_id` is None where it is not about one member.

    `regular_expression` is None except in a record about the topics that it matches.
    """

    type: ConsumerGroupRecord
    group: str
    member_id: str | None = None
    regular_expression: str | None = None


@dataclass(frozen=True, slots=True)
class UnknownKey:
    """None of the above: share and streams groups, or a newer kind."""

    type: int


RecordKey = OffsetCommitKey | GroupMetadataKey | ConsumerGroupKey | UnknownKey


def decode_key(data: bytes | bytearray | memoryview) -> RecordKey:
    """The decoded key; `ProtocolError` if the bytes do not follow their schema."""
    reader = Reader(data, _KEY_SUBJECT)
    kind = reader.int16("type")
    key: RecordKey
    if kind in _OFFSET_COMMIT_TYPES:
        key = OffsetCommitKey(reader.string("group"), reader.string("topic"), reader.int32("partition"), kind)
        reader.finish("partition")
    elif kind == _GROUP_METADATA_TYPE:
        key = GroupMetadataKey(reader.string("group"))
        reader.finish("group")
    elif kind in _CONSUMER_GROUP_TYPES:
        record = ConsumerGroupRecord(kind)
        group, part = reader.string("group_id"), PART_OF.get(record)
        key = ConsumerGroupKey(record, group, **({part: reader.string(part)} if part else {}))
        reader.finish(part or "group_id")
    else:
        key = UnknownKey(kind)
    return key


def string_hash(text: str) -> int:
    """Java's `String.hashCode()`, as an unsigned number of 32 bits; it runs over UTF-16 code units."""
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for (unit,) in struct.iter_unpack("<H", units):
        value = (31 * value + unit) & 0xFFFFFFFF
    return value


def group_partition(group: str, partitions: int) -> int:
    """The partition of the offsets topic that holds everything of `group`.

    Kafka takes Java's hash code as a signed number, makes it non-negative with `Utils.abs` (where the one
    number without a counterpart becomes 0), and takes the remainder.
    """
    code = string_hash(group)
    return (code if code < 1 << 31 else -code & 0x7FFFFFFF) % partitions


_NEWEST_VERSION = 4

_FIRST_FLEXIBLE_VERSION = 4
_GROUP_SUBJECT = "group metadata"
# Three strings, the session timeout and two byte arrays, in version 0.
_SMALLEST_MEMBER_BYTES = 2 + 2 + 2 + 4 + 4 + 4
_SMALLEST_FLEXIBLE_MEMBER_BYTES = 4 * 1 + 2 * 4 + 2 * 1 + 1


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a stored generation.

    `rebalance_timeout_ms` is -1 before version 1; coordinators use the session timeout then. `instance_id`
    is None for a dynamic member and before version 3.
    """

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes
    rebalance_timeout_ms: int = -1
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A stored generation; an empty group has no members, and no protocol or leader.

    `state_timestamp_ms` is milliseconds since the epoch, -1 where it is unknown and before version 2.
    """

    version: int
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    members: tuple[GroupMember, ...]
    state_timestamp_ms: int = -1


def decode_group_metadata(data: bytes | bytearray | memoryview) -> GroupMetadata:
    """The generation in the value of a record; `ProtocolError` if the bytes do not follow the schema."""
    reader = RecordReader(data, _GROUP_SUBJECT)
    version = reader.int16("version")
    if not 0 <= version <= _NEWEST_VERSION:
        raise reader.error(
            "version", 0, f"{version} is not known: this reads versions 0 to {_NEWEST_VERSION}"
        )
    reader.flexible = version >= _FIRST_FLEXIBLE_VERSION
    protocol_type = reader.string("protocol_type")
    generation = reader.int32("generation")
    protocol = reader.nullable_string("protocol")
    leader = reader.nullable_string("leader")
    state_timestamp_ms = reader.int64("current_state_timestamp") if version >= 2 else -1
    smallest = _SMALLEST_FLEXIBLE_MEMBER_BYTES if reader.flexible else _SMALLEST_MEMBER_BYTES
    members = tuple([_read_member(reader, version) for _ in reader.items("members", smallest)])
    if reader.flexible:
        reader.skip_tagged_fields()
    reader.finish("tagged_fields" if reader.flexible else "members")
    return GroupMetadata(version, protocol_type, generation, protocol, leader, members, state_timestamp_ms)


def _read_member(reader: RecordReader, version: int) -> GroupMember:
    member_id = reader.string("member_id")
    instance_id = reader.nullable_string("group_instance_id") if version >= 3 else None
    client_id = reader.string("client_id")
    client_host = reader.string("client_host")
    rebalance_timeout_ms = reader.int32("rebalance_timeout") if version >= 1 else -1
    session_timeout_ms = reader.int32("session_timeout")
    subscription = reader.byte_array("subscription")
    assignment = reader.byte_array("assignment")
    if reader.flexible:
        reader.skip_tagged_fields()
    return GroupMember(
        member_id,
        client_id,
        client_host,
        session_timeout_ms,
        subscription,
        assignment,
        rebalance_timeout_ms,
        instance_id,
    )
