"""Requests to the coordinator of a group, and what their answers say to the machine.

The versions are those that kafka-python's own coordinator sends: the newest that both sides know, up to a
limit where a later one would mean something else.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from kafka import errors as Errors
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

from kafka_assignors.rebalance.error_codes import decisive_error, is_transient
from kafka_assignors.rebalance.events import Membership, Partition, SendJoin

__all__ = [
    "commit_error",
    "error_of",
    "heartbeat",
    "is_transient",
    "join_group",
    "leave_group",
    "offset_commit",
    "sync_group",
]

_LONGEST_REASON = 255


def error_of(error_code: int, group_id: str) -> Errors.KafkaError:
    """The exception for an error code that no waiting mends."""
    kind = Errors.for_code(error_code)
    if kind in (Errors.GroupAuthorizationFailedError, Errors.GroupMaxSizeReachedError):
        return kind(group_id)
    return kind(f"the coordinator of group {group_id!r} answered error {error_code}")


def commit_error(failed: Mapping[Partition, int], group_id: str) -> Errors.KafkaError:
    """The exception for a commit of which some partitions failed for good, with these error codes."""
    code, partitions = decisive_error(failed)
    if Errors.for_code(code) is Errors.TopicAuthorizationFailedError:
        return Errors.TopicAuthorizationFailedError({topic for topic, _ in partitions})
    error = error_of(code, group_id)
    if not isinstance(error, Errors.GroupAuthorizationFailedError):
        names = ", ".join(f"{topic}-{number}" for topic, number in partitions)
        error.args = (f"{error.args[0]} to the commit of {names}",)
    return error


def join_group(
    join: SendJoin,
    group_id: str,
    instance_id: str | None,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
    protocols: Iterable[tuple[str, bytes]],
) -> Any:
    """A JoinGroup request that offers all strategies at once: `protocols` are (name, subscription)."""
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=join.membership.member_id,
        group_instance_id=instance_id,
        protocol_type=ConsumerProtocolType,
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name, data) for name, data in protocols],
        reason=join.reason[:_LONGEST_REASON],
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
