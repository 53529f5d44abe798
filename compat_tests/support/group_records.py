"""The bytes of keys in `__consumer_offsets`, and of generations of classic groups, as a broker writes them.

`history.consumer_offsets` of the replay reads them, and names the schemas.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

from kafka_assignors.wire.writer import Writer
from kafka_assignors_replay.history.consumer_offsets import (
    ConsumerGroupKey,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommitKey,
)

_FIRST_FLEXIBLE_VERSION = 4


class RecordWriter(Writer):
    """Writes the types too that only records of brokers have."""

    def int64(self, _: str, value: int) -> None:
        self.raw(struct.pack(">q", value))

    def int32s(self, field: str, values: Sequence[int]) -> None:
        """An array of int32."""
        for value in self.items(field, values):
            self.int32("", value)

    def uuid(self, _: str, value: str) -> None:
        """An identifier as Kafka prints it: URL-safe base64 without padding."""
        self.raw(base64.urlsafe_b64decode(value + "=="))

    def no_tagged_fields(self) -> None:
        """The end of a struct of a flexible version in which no tagged field is set."""
        self.uvarint(0)


def group_partition(group: str, partitions: int) -> int:
    """The partition of the offsets topic that holds everything of `group`.

    Kafka takes Java's hash code as a signed number, which runs over UTF-16 code units, makes it non-negative
    with `Utils.abs` (where the one number without a counterpart becomes 0), and takes the remainder.
    """
    code = 0
    for (unit,) in struct.iter_unpack("<H", group.encode("utf-16-le", "surrogatepass")):
        code = (31 * code + unit) & 0xFFFFFFFF
    return (code if code < 1 << 31 else -code & 0x7FFFFFFF) % partitions


def encode_key(key: OffsetCommitKey | GroupMetadataKey | ConsumerGroupKey) -> bytes:
    """The bytes of `key`."""
    writer = RecordWriter("record key")
    if isinstance(key, OffsetCommitKey):
        writer.int16("type", key.type)
        writer.string("group", key.group)
        writer.string("topic", key.topic)
        writer.int32("partition", key.partition)
    elif isinstance(key, GroupMetadataKey):
        writer.int16("type", 2)
        writer.string("group", key.group)
    else:
        writer.int16("type", key.type)
        writer.string("group_id", key.group)
        for part, value in (("member_id", key.member_id), ("regular_expression", key.regular_expression)):
            if value is not None:
                writer.string(part, value)
    return writer.getvalue()


def encode_group_metadata(value: GroupMetadata) -> bytes:
    """The bytes of `value` in its own version.

    Fields that the version lacks are left out, as in a broker that writes an older version.
    """
    version = value.version
    writer = RecordWriter("group metadata", flexible=version >= _FIRST_FLEXIBLE_VERSION)
    writer.int16("version", version)
    writer.string("protocol_type", value.protocol_type)
    writer.int32("generation", value.generation)
    writer.nullable_string("protocol", value.protocol)
    writer.nullable_string("leader", value.leader)
    if version >= 2:
        writer.int64("current_state_timestamp", value.state_timestamp_ms)
    for member in writer.items("members", value.members):
        writer.string("member_id", member.member_id)
        if version >= 3:
            writer.nullable_string("group_instance_id", member.instance_id)
        writer.string("client_id", member.client_id)
        writer.string("client_host", member.client_host)
        if version >= 1:
            writer.int32("rebalance_timeout", member.rebalance_timeout_ms)
        writer.int32("session_timeout", member.session_timeout_ms)
        writer.byte_array("subscription", member.subscription)
        writer.byte_array("assignment", member.assignment)
        if writer.flexible:
            writer.no_tagged_fields()
    if writer.flexible:
        writer.no_tagged_fields()
    return writer.getvalue()
