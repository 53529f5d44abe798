"""Records of `__consumer_offsets`: the keys of all of them, and the value that keeps a classic group.

A **key** begins with an int16, the kind of the record; the schemas are the `*Key.json` files in
group-coordinator/src/main/resources/common/message of apache/kafka, and the numbers those of
`CoordinatorRecordType` in Kafka 4.4. A record without a value is a tombstone: what its key names is gone.

**GroupMetadataValue** is one generation of a classic group. Version 4 is the first flexible one: lengths
become varints, and every struct ends in tagged fields, which a later broker may add without raising the
version (KIP-915). Unknown ones are skipped. A version above 4 may have any layout, so it is refused.
Subscription and assignment of a member stay bytes: their format depends on `protocol_type`, and they may be
broken without the record being broken.
"""

from __future__ import annotations

import base64
import enum
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

from kafka_assignors.wire.reader import Names, Reader

_int16 = struct.Struct(">h").unpack_from
_int32 = struct.Struct(">i").unpack_from
_int64 = struct.Struct(">q").unpack

_NULL = b"\xff\xff"
_NO_NAMES = Names()


class RecordReader(Reader):
    """Reads the types too that only records of brokers have."""

    __slots__ = ()

    def __init__(self, data: bytes | bytearray | memoryview, subject: str, *, flexible: bool = False) -> None:
        super().__init__(data, subject, names=_NO_NAMES, flexible=flexible)

    def int64(self, field: str) -> int:
        value: int = _int64(self.raw(field, 8))[0]
        return value

    def uuid(self, field: str) -> str:
        """An identifier as Kafka prints it: URL-safe base64 without padding."""
        return base64.urlsafe_b64encode(self.raw(field, 16)).rstrip(b"=").decode("ascii")

    def version(self, newest: int) -> int:
        """The version of the schema, with which a value begins; refused if it is not known."""
        version = self.int16("version")
        if not 0 <= version <= newest:
            known = f"versions 0 to {newest}" if newest else f"version {newest}"
            raise self.error("version", 0, f"{version} is not known: this reads {known}")
        return version

    def end_struct(self) -> None:
        """Read over the tagged fields that end a struct of a flexible version: none of them is known."""
        for _ in self.tagged_fields("tagged_fields") if self.flexible else ():
            pass

    def last_members(self, version: int) -> tuple[GroupMember, ...] | None:
        """The members of a version that is not flexible, which end the data.

        None if they are anything else, and then nothing has been read: the caller reads field by field and
        meets the error.
        """
        data, at = self._data, self._position + 4

        def take(length: Callable[[bytes, int], tuple[Any, ...]], size: int) -> bytes:
            nonlocal at
            begin = at + size
            at = begin + length(data, at)[0]
            if at < begin:
                raise ValueError
            return data[begin:at]

        members: list[GroupMember] = []
        try:
            for _ in range(_int32(data, at - 4)[0]):
                member_id, instance_id, rebalance_ms = take(_int16, 2).decode(), None, -1
                if version >= 3:
                    if data.startswith(_NULL, at):
                        at += len(_NULL)
                    else:
                        instance_id = take(_int16, 2).decode()
                client_id, client_host = take(_int16, 2).decode(), take(_int16, 2).decode()
                if version >= 1:
                    rebalance_ms = _int32(data, at)[0]
                    at += 4
                session_ms = _int32(data, at)[0]
                at += 4
                said = (session_ms, take(_int32, 4), take(_int32, 4), rebalance_ms, instance_id)
                members.append(GroupMember(member_id, client_id, client_host, *said))
        except (struct.error, ValueError):
            return None
        if at != self._end:
            return None
        self._position = at
        return tuple(members)


class ConsumerGroupRecord(enum.IntEnum):
    """The kinds of records of a group under the KIP-848 protocol."""

    METADATA = 3
    PARTITION_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_ASSIGNMENT_METADATA = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_MEMBER_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


class OffsetCommitKey(NamedTuple):
    """A committed offset; `type` is 1, or 0 for records from before Kafka 0.9."""

    group: str
    topic: str
    partition: int
    type: int = 1


class GroupMetadataKey(NamedTuple):
    """A generation of a group under the classic protocol."""

    group: str


class ConsumerGroupKey(NamedTuple):
    """A part of a group under the KIP-848 protocol; `member_id` is None where it is not about one member.

    `regular_expression` is None except in a record about the topics that it matches.
    """

    type: ConsumerGroupRecord
    group: str
    member_id: str | None = None
    regular_expression: str | None = None


RecordKey = OffsetCommitKey | GroupMetadataKey | ConsumerGroupKey

_CONSUMER_GROUP_KINDS = frozenset(ConsumerGroupRecord)
_SUBJECTS = {5: "member_id", 7: "member_id", 8: "member_id", 16: "regular_expression"}
"""What the key of a KIP-848 group names besides the group, by the kind of the record."""


def decode_key(data: bytes | bytearray | memoryview) -> RecordKey | None:
    """The decoded key, None of share and streams groups or of a newer kind; `ProtocolError` if the bytes do
    not follow their schema."""
    reader = RecordReader(data, "record key")
    kind = reader.int16("type")
    key: RecordKey
    if kind in (0, 1):
        last = "partition"
        key = OffsetCommitKey(reader.string("group"), reader.string("topic"), reader.int32(last), kind)
    elif kind == 2:
        last = "group"
        key = GroupMetadataKey(reader.string(last))
    elif kind in _CONSUMER_GROUP_KINDS:
        group, last = reader.string("group_id"), _SUBJECTS.get(kind, "group_id")
        subject = {last: reader.string(last)} if kind in _SUBJECTS else {}
        key = ConsumerGroupKey(ConsumerGroupRecord(kind), group, **subject)
    else:
        return None
    reader.finish(last)
    return key


_NEWEST_VERSION = _FIRST_FLEXIBLE_VERSION = 4

# Four strings, two timeouts, two byte arrays and the tagged fields of a flexible version; others take more.
_SMALLEST_MEMBER_BYTES = 4 * 1 + 2 * 4 + 2 * 1 + 1


class GroupMember(NamedTuple):
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


class GroupMetadata(NamedTuple):
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
    reader = RecordReader(data, "group metadata")
    version = reader.version(_NEWEST_VERSION)
    reader.flexible = version >= _FIRST_FLEXIBLE_VERSION
    protocol_type = reader.string("protocol_type")
    generation = reader.int32("generation")
    protocol, leader = reader.nullable_string("protocol"), reader.nullable_string("leader")
    state_timestamp_ms = reader.int64("current_state_timestamp") if version >= 2 else -1
    members = None if reader.flexible else reader.last_members(version)
    if members is None:
        items = reader.items("members", _SMALLEST_MEMBER_BYTES)
        members = tuple([_read_member(reader, version) for _ in items])
        reader.end_struct()
        reader.finish("tagged_fields" if reader.flexible else "members")
    return GroupMetadata(version, protocol_type, generation, protocol, leader, members, state_timestamp_ms)


def _read_member(reader: RecordReader, version: int) -> GroupMember:
    member_id = reader.string("member_id")
    instance_id = reader.nullable_string("group_instance_id") if version >= 3 else None
    client_id, client_host = reader.string("client_id"), reader.string("client_host")
    rebalance_timeout_ms = reader.int32("rebalance_timeout") if version >= 1 else -1
    session_timeout_ms = reader.int32("session_timeout")
    data = reader.byte_array("subscription"), reader.byte_array("assignment")
    reader.end_struct()
    return GroupMember(
        member_id, client_id, client_host, session_timeout_ms, *data, rebalance_timeout_ms, instance_id
    )
