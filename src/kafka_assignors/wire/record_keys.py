"""Keys of the records in `__consumer_offsets`.

A key begins with an int16 that says what kind of record it is; the schemas are the `*Key.json` files in
group-coordinator/src/main/resources/common/message of apache/kafka, and the numbers those of
`CoordinatorRecordType` in Kafka 4.4. A record without a value is a tombstone: what its key names is gone.
The value's own version is in the value.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.writer import Writer

__all__ = [
    "ConsumerGroupKey",
    "ConsumerGroupRecord",
    "GroupMetadataKey",
    "OffsetCommitKey",
    "RecordKey",
    "UnknownKey",
    "decode_key",
    "encode_key",
    "group_partition",
]

_SUBJECT = "record key"
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


_OF_A_MEMBER = frozenset(
    {
        ConsumerGroupRecord.MEMBER_METADATA,
        ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER,
        ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT,
    }
)

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

    `regular_expression` is that of a record about what it matches, None in all others.
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
    """What the record with this key is about; `ProtocolError` if the bytes do not follow their schema."""
    reader = Reader(data, _SUBJECT)
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
        group = reader.string("group_id")
        if record is ConsumerGroupRecord.REGULAR_EXPRESSION:
            key = ConsumerGroupKey(record, group, regular_expression=reader.string("regular_expression"))
            reader.finish("regular_expression")
        elif record in _OF_A_MEMBER:
            key = ConsumerGroupKey(record, group, reader.string("member_id"))
            reader.finish("member_id")
        else:
            key = ConsumerGroupKey(record, group)
            reader.finish("group_id")
    else:
        key = UnknownKey(kind)
    return key


def encode_key(key: OffsetCommitKey | GroupMetadataKey | ConsumerGroupKey) -> bytes:
    """The bytes of `key`."""
    writer = Writer(_SUBJECT)
    if isinstance(key, OffsetCommitKey):
        if key.type not in _OFFSET_COMMIT_TYPES:
            raise writer.error("type", 0, f"{key.type} is not 0 or 1, the types of an offset commit")
        writer.int16("type", key.type)
        writer.string("group", key.group)
        writer.string("topic", key.topic)
        writer.int32("partition", key.partition)
    elif isinstance(key, GroupMetadataKey):
        writer.int16("type", _GROUP_METADATA_TYPE)
        writer.string("group", key.group)
    else:
        writer.int16("type", key.type)
        writer.string("group_id", key.group)
        if (key.member_id is not None) != (key.type in _OF_A_MEMBER):
            wanted = "a member id" if key.type in _OF_A_MEMBER else "no member id"
            raise writer.error("member_id", 0, f"a key of type {key.type:d} ({key.type.name}) has {wanted}")
        of_a_pattern = key.type is ConsumerGroupRecord.REGULAR_EXPRESSION
        if (key.regular_expression is not None) != of_a_pattern:
            wanted = "a regular expression" if of_a_pattern else "no regular expression"
            raise writer.error(
                "regular_expression", 0, f"a key of type {key.type:d} ({key.type.name}) has {wanted}"
            )
        if key.member_id is not None:
            writer.string("member_id", key.member_id)
        if key.regular_expression is not None:
            writer.string("regular_expression", key.regular_expression)
    return writer.getvalue()


def group_partition(group: str, partitions: int) -> int:
    """The partition of the offsets topic that holds everything of `group`.

    Kafka takes Java's `String.hashCode`, which runs over UTF-16 code units and wraps at 32 bits, makes it
    non-negative with `Utils.abs` (where the one number without a counterpart becomes 0), and takes the
    remainder.
    """
    units = group.encode("utf-16-be", "surrogatepass")
    code = 0
    for (unit,) in struct.iter_unpack(">H", units):
        code = (31 * code + unit) & 0xFFFFFFFF
    if code >= 1 << 31:
        code -= 1 << 32
    return (0 if code == -(1 << 31) else abs(code)) % partitions
