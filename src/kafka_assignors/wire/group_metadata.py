"""GroupMetadataValue: one generation of a classic group, as stored in `__consumer_offsets`.

Schema: `GroupMetadataValue.json` in group-coordinator of apache/kafka. Version 1 added the rebalance
timeout, version 2 the time of the last change of state, version 3 static membership, and version 4 is the
first flexible one: lengths become varints, and every struct ends in tagged fields, which a later broker may
add without raising the version (KIP-915). Unknown ones are skipped. A version above 4 may have any layout,
so it is refused.

Subscription and assignment of a member stay bytes: whose format they have depends on `protocol_type`, and
they may be broken without the record being broken.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.writer import Writer

__all__ = ["GroupMember", "GroupMetadata", "decode_group_metadata", "encode_group_metadata"]

NEWEST_VERSION = 4

_FIRST_FLEXIBLE_VERSION = 4
_SUBJECT = "group metadata"
_SMALLEST_MEMBER_BYTES = (
    2 + 2 + 2 + 4 + 4 + 4
)  # three strings, the session timeout and two byte arrays, in version 0
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
    reader = Reader(data, _SUBJECT)
    version = reader.int16("version")
    if not 0 <= version <= NEWEST_VERSION:
        raise reader.error("version", 0, f"{version} is not known: this reads versions 0 to {NEWEST_VERSION}")
    flexible = version >= _FIRST_FLEXIBLE_VERSION
    nullable_string = reader.compact_nullable_string if flexible else reader.nullable_string

    protocol_type = reader.compact_string("protocol_type") if flexible else reader.string("protocol_type")
    generation = reader.int32("generation")
    protocol = nullable_string("protocol")
    leader = nullable_string("leader")
    state_timestamp_ms = reader.int64("current_state_timestamp") if version >= 2 else -1
    if flexible:
        elements = reader.compact_items("members", _SMALLEST_FLEXIBLE_MEMBER_BYTES)
    else:
        elements = reader.items("members", _SMALLEST_MEMBER_BYTES)
    members = tuple([_read_member(reader, version) for _ in elements])
    if flexible:
        reader.skip_tagged_fields("tagged_fields")
    reader.finish("tagged_fields" if flexible else "members")
    return GroupMetadata(version, protocol_type, generation, protocol, leader, members, state_timestamp_ms)


def _read_member(reader: Reader, version: int) -> GroupMember:
    flexible = version >= _FIRST_FLEXIBLE_VERSION
    string = reader.compact_string if flexible else reader.string
    nullable_string = reader.compact_nullable_string if flexible else reader.nullable_string
    byte_array = reader.compact_byte_array if flexible else reader.byte_array

    member_id = string("member_id")
    instance_id = nullable_string("group_instance_id") if version >= 3 else None
    client_id = string("client_id")
    client_host = string("client_host")
    rebalance_timeout_ms = reader.int32("rebalance_timeout") if version >= 1 else -1
    session_timeout_ms = reader.int32("session_timeout")
    subscription = byte_array("subscription")
    assignment = byte_array("assignment")
    if flexible:
        reader.skip_tagged_fields("tagged_fields")
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


def encode_group_metadata(value: GroupMetadata) -> bytes:
    """The bytes of `value` in its own version.

    What the version has no field for is left out, as a broker does that writes an older version.
    """
    version = value.version
    writer = Writer(_SUBJECT)
    if not 0 <= version <= NEWEST_VERSION:
        raise writer.error(
            "version", 0, f"{version} is not known: this writes versions 0 to {NEWEST_VERSION}"
        )
    flexible = version >= _FIRST_FLEXIBLE_VERSION
    string = writer.compact_string if flexible else writer.string
    nullable_string = writer.compact_nullable_string if flexible else writer.nullable_string
    byte_array = writer.compact_byte_array if flexible else writer.byte_array

    writer.int16("version", version)
    string("protocol_type", value.protocol_type)
    writer.int32("generation", value.generation)
    nullable_string("protocol", value.protocol)
    nullable_string("leader", value.leader)
    if version >= 2:
        writer.int64("current_state_timestamp", value.state_timestamp_ms)
    for member in (writer.compact_items if flexible else writer.items)("members", value.members):
        string("member_id", member.member_id)
        if version >= 3:
            nullable_string("group_instance_id", member.instance_id)
        string("client_id", member.client_id)
        string("client_host", member.client_host)
        if version >= 1:
            writer.int32("rebalance_timeout", member.rebalance_timeout_ms)
        writer.int32("session_timeout", member.session_timeout_ms)
        byte_array("subscription", member.subscription)
        byte_array("assignment", member.assignment)
        if flexible:
            writer.no_tagged_fields()
    if flexible:
        writer.no_tagged_fields()
    return writer.getvalue()
