"""Requests to the coordinator of a group.

The versions are those that kafka-python's own coordinator sends: the newest that both sides know, up to a
limit where a later one would mean something else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kafka.protocol.consumer import (  # pyright: ignore[reportMissingImports]  # its stubs are of 2.x
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from kafka.protocol.consumer.metadata import (  # pyright: ignore[reportMissingImports]
    ConsumerProtocolType,
)
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance.events import Membership

__all__ = [
    "heartbeat",
    "join_group",
    "leave_group",
    "offset_commit",
    "sync_group",
]

_LONGEST_REASON = 255


def join_group(
    group_id: str,
    instance_id: str | None,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
    member_id: str,
    protocols: Iterable[tuple[str, bytes]],
    reason: str,
) -> Any:
    """A JoinGroup request that offers all strategies at once: `protocols` are (name, subscription)."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=ConsumerProtocolType,
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name, data) for name, data in protocols],
        reason=reason[:_LONGEST_REASON],
        # From 9 on a static leader that was restarted is told to assign nothing, which is another dialogue.
        max_version=8,
    )


def sync_group(
    group_id: str,
    membership: Membership,
    instance_id: str | None,
    strategy: str,
    assignments: Mapping[str, bytes],
) -> Any:
    """A SyncGroup request; only a leader has assignments, by member id."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=membership.generation,
        member_id=membership.member_id,
        group_instance_id=instance_id,
        protocol_type=ConsumerProtocolType,
        protocol_name=strategy,
        assignments=[
            SyncGroupRequest.SyncGroupRequestAssignment(member_id, data)
            for member_id, data in assignments.items()
        ],
        max_version=5,
    )


def heartbeat(group_id: str, membership: Membership, instance_id: str | None) -> Any:
    """A Heartbeat request."""
    return HeartbeatRequest(
        group_id=group_id,
        generation_id=membership.generation,
        member_id=membership.member_id,
        group_instance_id=instance_id,
    )


def leave_group(group_id: str, member_id: str, instance_id: str | None, reason: str) -> Any:
    """A LeaveGroup request."""
    leaving = LeaveGroupRequest.MemberIdentity(
        member_id=member_id, group_instance_id=instance_id, reason=reason[:_LONGEST_REASON]
    )
    return LeaveGroupRequest(group_id=group_id, member_id=member_id, members=[leaving])


def offset_commit(
    group_id: str,
    membership: Membership,
    instance_id: str | None,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> Any:
    """An OffsetCommit request."""
    of_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for tp, offset in offsets.items():
        by_topic[tp.topic].append(
            of_topic.OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=membership.generation,
        member_id=membership.member_id,
        group_instance_id=instance_id,
        topics=[of_topic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()],
        max_version=8,
    )
