"""Codecs of what members, leaders and brokers write: no I/O, bytes in and values out.

- A member joins with a subscription (`encode_member`, or `Subscription` field by field) and the leader
  reads it (`decode_member`); user data of Java's sticky assignors and member data of ours are part of it.
- The leader answers with assignments (`ConsumerAssignment`).
- The group coordinator keeps all that in `__consumer_offsets` (`decode_key`, `decode_group_metadata`), and
  the groups of KIP-848, whose members the broker assigns to, beside it (`decode_consumer_group_value`).

Bytes that do not follow their schema raise `ProtocolError`, which says which field is wrong, at which byte,
and how. The formats are described byte by byte in docs/wire-format.md.
"""

from kafka_assignors.wire.consumer_offsets import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommit,
    OffsetCommitKey,
    RecordKey,
    UnknownKey,
    decode_group_metadata,
    decode_key,
    decode_offset_commit,
    encode_group_metadata,
    encode_key,
    encode_offset_commit,
    group_partition,
)
from kafka_assignors.wire.consumer_protocol import (
    ConsumerAssignment,
    Subscription,
    decode_assignment,
    decode_member,
    decode_subscription,
    encode_assignment,
    encode_member,
    encode_subscription,
    encode_user_data,
)
from kafka_assignors.wire.kip848_records import (
    LEFT_TO_RETURN,
    AssignedPartitions,
    ClassicMember,
    ClassicProtocol,
    ConsumerGroupMember,
    ConsumerGroupMemberState,
    ConsumerGroupValue,
    CurrentAssignment,
    GroupEpoch,
    PartitionMetadata,
    ResolvedRegularExpression,
    TargetAssignment,
    TargetAssignmentEpoch,
    TopicMetadata,
    decode_consumer_group_value,
    encode_consumer_group_value,
)
from kafka_assignors.wire.reader import Names, ProtocolError

__all__ = [
    "LEFT_TO_RETURN",
    "AssignedPartitions",
    "ClassicMember",
    "ClassicProtocol",
    "ConsumerAssignment",
    "ConsumerGroupKey",
    "ConsumerGroupMember",
    "ConsumerGroupMemberState",
    "ConsumerGroupRecord",
    "ConsumerGroupValue",
    "CurrentAssignment",
    "GroupEpoch",
    "GroupMember",
    "GroupMetadata",
    "GroupMetadataKey",
    "Names",
    "OffsetCommit",
    "OffsetCommitKey",
    "PartitionMetadata",
    "ProtocolError",
    "RecordKey",
    "ResolvedRegularExpression",
    "Subscription",
    "TargetAssignment",
    "TargetAssignmentEpoch",
    "TopicMetadata",
    "UnknownKey",
    "decode_assignment",
    "decode_consumer_group_value",
    "decode_group_metadata",
    "decode_key",
    "decode_member",
    "decode_offset_commit",
    "decode_subscription",
    "encode_assignment",
    "encode_consumer_group_value",
    "encode_group_metadata",
    "encode_key",
    "encode_member",
    "encode_offset_commit",
    "encode_subscription",
    "encode_user_data",
    "group_partition",
]
