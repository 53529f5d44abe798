"""Requests to the coordinator of a group.

Up to aiokafka 0.12 a request is a list of its versions; the newest is taken, which brokers have since Kafka
2.3. From 0.13 on it is one class that settles the version with the broker.

Heartbeat and OffsetCommit requests that carry the instance id of a static member (KIP-345) are declared here:
no release of aiokafka has them. From 0.10 to 0.14 Heartbeat ends with version 1 and OffsetCommit with version
3. Without the id a broker cannot tell a member whose place another process has taken that it was fenced. The
fields are those of `HeartbeatRequest.json` and `OffsetCommitRequest.json` in Kafka's
`clients/src/main/resources/common/message`. Every broker that knows a JoinGroup with an instance id (version
5, Kafka 2.3) knows these versions too. LeaveGroup has one as well, but static members do not leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol import api, group
from aiokafka.protocol.types import Array, Int16, Int32, Int64, Schema, String
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance.events import Membership

__all__ = [
    "JOINING",
    "connection_of",
    "heartbeat",
    "join_group",
    "leave_group",
    "offset_commit",
    "offset_fetch_error",
    "sync_group",
]

JOINING = 2
"""The connection of its own that joins use, beside `aiokafka.client.ConnectionGroup`'s.

A broker answers the requests of a connection one by one, and JoinGroup when the last member has joined: what
is sent after it on the same connection, heartbeats and commits, waits for as long.
"""

_UNKNOWN_LEADER_EPOCH = -1
_OFFSET_FETCH = 9


def connection_of(request: Any, usual: int) -> int:
    """The connection on which a request to the coordinator travels."""
    return JOINING if isinstance(request, _JOINS) else usual


def join_group(
    group_id: str,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
    member_id: str,
    instance_id: str | None,
    protocols: Iterable[tuple[str, bytes]],
) -> Any:
    """A JoinGroup request that offers all strategies at once.

    `protocols` are (name, subscription), the preferred one first.
    """
    return _JOIN_GROUP(
        group_id,
        session_timeout_ms,
        rebalance_timeout_ms,
        member_id,
        instance_id,
        ConsumerProtocol.PROTOCOL_TYPE,
        list(protocols),
    )


def sync_group(
    group_id: str, membership: Membership, instance_id: str | None, assignments: Mapping[str, bytes]
) -> Any:
    """A SyncGroup request; only a leader has assignments, by member id."""
    return _SYNC_GROUP(
        group_id, membership.generation, membership.member_id, instance_id, list(assignments.items())
    )


def heartbeat(group_id: str, membership: Membership, instance_id: str | None) -> Any:
    """A Heartbeat request."""
    return HeartbeatRequest_v3(group_id, membership.generation, membership.member_id, instance_id)


def leave_group(group_id: str, member_id: str) -> Any:
    """A LeaveGroup request of a dynamic member; static ones do not leave."""
    return _LEAVE_GROUP(group_id, member_id)


def offset_commit(
    group_id: str,
    membership: Membership,
    instance_id: str | None,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> Any:
    """An OffsetCommit request."""
    by_topic: dict[str, list[tuple[int, int, int, str]]] = {}
    for tp, offset in offsets.items():
        of_partition = (tp.partition, offset.offset, _UNKNOWN_LEADER_EPOCH, offset.metadata)
        by_topic.setdefault(tp.topic, []).append(of_partition)
    return OffsetCommitRequest_v7(
        group_id, membership.generation, membership.member_id, instance_id, list(by_topic.items())
    )


def offset_fetch_error(response: Any) -> int:
    """The error of an OffsetFetch response as a whole, such as that the broker is not the coordinator.

    It says nothing of the partitions then. aiokafka, which from 0.13 on uses a version that has it, does not
    look at it; 0 for other responses.
    """
    return int(getattr(response, "error_code", 0)) if response.API_KEY == _OFFSET_FETCH else 0


def _newest(request: Any) -> Any:
    return request[-1] if isinstance(request, list) else request


_JOIN_GROUP = _newest(group.JoinGroupRequest)
_SYNC_GROUP = _newest(group.SyncGroupRequest)
_LEAVE_GROUP = _newest(group.LeaveGroupRequest)
_JOINS = (_JOIN_GROUP, _SYNC_GROUP)


# ---- requests that aiokafka has no recent version of

_Struct: Any = getattr(api, "RequestStruct", api.Request)
"""From aiokafka 0.13 on a `Request` is what chooses one of several structs."""

_Response: Any = api.Response

_NAME = String("utf-8")


class _OneVersion(_Struct):  # type: ignore[misc]  # aiokafka has no types
    """A struct that is its own request, of one version."""

    API_KEY = -1
    API_VERSION = -1
    SCHEMA = Schema()
    RESPONSE_TYPE = _Response

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> _OneVersion:
        """The request that a connection of aiokafka 0.13 or later sends, given the versions that its broker
        knows.
        """
        oldest, newest = versions.get(self.API_KEY, (0, -1))
        if not oldest <= self.API_VERSION <= newest:
            raise IncompatibleBrokerVersion(
                f"{type(self).__name__} needs a broker of Kafka 2.3 or later; this one knows the versions "
                f"{oldest} to {newest}"
            )
        return self


class HeartbeatResponse_v3(_Response):  # type: ignore[misc]
    API_KEY = 12
    API_VERSION = 3
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16))


class HeartbeatRequest_v3(_OneVersion):
    API_KEY = 12
    API_VERSION = 3
    RESPONSE_TYPE = HeartbeatResponse_v3
    SCHEMA = Schema(
        ("group", _NAME),
        ("generation_id", Int32),
        ("member_id", _NAME),
        ("group_instance_id", _NAME),
    )


class OffsetCommitResponse_v7(_Response):  # type: ignore[misc]
    API_KEY = 8
    API_VERSION = 7
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(("topic", _NAME), ("partitions", Array(("partition", Int32), ("error_code", Int16)))),
        ),
    )


class OffsetCommitRequest_v7(_OneVersion):
    API_KEY = 8
    API_VERSION = 7
    RESPONSE_TYPE = OffsetCommitResponse_v7
    SCHEMA = Schema(
        ("group", _NAME),
        ("generation_id", Int32),
        ("member_id", _NAME),
        ("group_instance_id", _NAME),
        (
            "topics",
            Array(
                ("topic", _NAME),
                (
                    "partitions",
                    Array(
                        ("partition", Int32),
                        ("offset", Int64),
                        ("leader_epoch", Int32),
                        ("metadata", _NAME),
                    ),
                ),
            ),
        ),
    )
