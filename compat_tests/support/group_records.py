"""The bytes of records in `__consumer_offsets`, as a broker writes them.

`history.consumer_offsets` and `history.kip848_records` of the replay read them, and name the schemas.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence

from kafka_assignors.wire.writer import Writer
from kafka_assignors_replay.history import kip848_records
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


def encode_consumer_group_value(value: kip848_records.ConsumerGroupValue) -> bytes:
    """The bytes of `value`; fields that it lacks have the values of a new member on a new broker."""
    writer = RecordWriter("consumer group", flexible=True)
    writer.int16("version", 0)
    tagged = {}
    match value:
        case kip848_records.GroupEpoch(epoch, metadata_hash):
            writer.int32("epoch", epoch)
            tagged = {0: struct.pack(">q", metadata_hash)} if metadata_hash else {}
        case kip848_records.PartitionMetadata(topics):
            for topic in writer.items("topics", topics):
                writer.uuid("topic_id", topic.topic_id)
                writer.string("topic_name", topic.topic_name)
                writer.int32("num_partitions", topic.num_partitions)
                writer.strings("partition_metadata", ())
                writer.no_tagged_fields()
        case kip848_records.ConsumerGroupMember():
            writer.nullable_string("instance_id", value.instance_id)
            writer.nullable_string("rack_id", value.rack_id)
            writer.string("client_id", value.client_id)
            writer.string("client_host", value.client_host)
            writer.strings("subscribed_topic_names", value.subscribed_topic_names)
            writer.nullable_string("subscribed_topic_regex", value.subscribed_topic_regex)
            writer.int32("rebalance_timeout_ms", 60_000)
            writer.nullable_string("server_assignor", value.server_assignor)
            tagged = {0: b"\0"}  # null: it speaks the new protocol
        case kip848_records.TargetAssignmentEpoch(epoch):
            writer.int32("assignment_epoch", epoch)
        case kip848_records.TargetAssignment(by_topic):
            for topic_id, numbers in writer.items("topic_partitions", [*by_topic.items()]):
                writer.uuid("topic_id", topic_id)
                writer.int32s("partitions", numbers)
                writer.no_tagged_fields()
        case kip848_records.CurrentAssignment():
            writer.raw(bytes(9) + b"\1\1")  # two epochs and a state; no partitions
        case kip848_records.ResolvedRegularExpression(topics):
            writer.strings("topics", topics)
            writer.int64("version", 1)
            writer.int64("timestamp", 1)
    writer.tagged_fields(tagged)
    return writer.getvalue()
