"""Heartbeat and OffsetCommit requests that carry the instance id of a static member (KIP-345).

No release of aiokafka has them: from 0.10 to 0.14 Heartbeat ends with version 1 and OffsetCommit with version
3. Without the id a broker cannot tell a member whose place another process has taken that it was fenced. The
fields are those of `HeartbeatRequest.json` and `OffsetCommitRequest.json` in Kafka's
`clients/src/main/resources/common/message`. Every broker that knows a JoinGroup with an instance id (version
5, Kafka 2.3) knows these versions too. LeaveGroup has one as well, but static members do not leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokafka.errors import IncompatibleBrokerVersion
from aiokafka.protocol import api
from aiokafka.protocol.types import Array, Int16, Int32, Int64, Schema, String

__all__ = ["HeartbeatRequest_v3", "OffsetCommitRequest_v7"]

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
