"""The requests of a member on aiokafka: their connections and timeouts.

Up to aiokafka 0.12 a request is a list of its versions; the newest is used, which brokers know since Kafka
2.3. From 0.13 on it is one class that negotiates the version with the broker.

Three requests are declared here, since no release of aiokafka from 0.10 to 0.14 has the versions that a
member needs. The fields are those of `HeartbeatRequest.json`, `OffsetCommitRequest.json` and
`OffsetFetchRequest.json` in Kafka's `clients/src/main/resources/common/message`.

- Heartbeat and OffsetCommit with the instance id of a static member (KIP-345). Without it, a broker cannot
  tell a member that another process has fenced it. Their responses are those of aiokafka's latest versions.
  Every broker that knows a JoinGroup with an instance id (version 5, Kafka 2.3) knows these versions too.
  LeaveGroup needs no id, since static members do not leave.
- OffsetFetch that requires stable offsets (KIP-447, Kafka 2.5), as Java always does. A broker of Kafka 4
  that takes over a group answers other requests from what its replicas have confirmed so far. For about a
  second that may be less than what the coordinator before it has accepted.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent import futures
from contextlib import suppress
from typing import Any, NoReturn

import aiokafka.errors as Errors
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.protocol import ConsumerProtocol
from aiokafka.protocol import api, commit, group
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
    UnsignedVarInt32,
)
from aiokafka.util import wait_for

from kafka_assignors.messages import JoinedMember, JoinGroupResponse, SyncGroupResponse
from kafka_assignors.rebalance.client import drop_unsent
from kafka_assignors.rebalance.error_codes import coordinator_moved
from kafka_assignors.rebalance.events import Membership, Partition
from kafka_assignors.rebalance.lead import LeaderThreads, ask_in_thread
from kafka_assignors.rebalance.session import Session

log = logging.getLogger("kafka_assignors_aiokafka")

_BEYOND_REBALANCE_S = 5.0
"""How much longer than `rebalance_timeout_ms` a join may take, for the way of the response; as in Java."""

_JOINING = 2
"""The connection of joins alone (see `Client.join_group`), in addition to those of `ConnectionGroup`."""

_UNKNOWN_LEADER_EPOCH = -1
_OFFSET_FETCH = 9
_UNSTABLE_OFFSET_COMMIT = 88


def _newest(request: Any) -> Any:
    return request[-1] if isinstance(request, list) else request


_JOIN_GROUP = _newest(group.JoinGroupRequest)
_SYNC_GROUP = _newest(group.SyncGroupRequest)
_LEAVE_GROUP = _newest(group.LeaveGroupRequest)
_JOINS = (_JOIN_GROUP, _SYNC_GROUP)


class RequestingCoordinator(GroupCoordinator):  # type: ignore[misc]  # aiokafka has no types
    """aiokafka's coordinator, with the requests of a session (`kafka_assignors.rebalance.client`)."""

    errors: Any = Errors

    _session: Session
    _joining_id: int | None = None
    """The broker that the last join was sent to; the coordinator may have moved since."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._threads = LeaderThreads(settings["group_id"])
        self._event_loop = asyncio.get_running_loop()
        super().__init__(*arguments, **settings)

    # ---- the event loop

    async def in_thread(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        return await asyncio.wrap_future(self._threads.call(function, *arguments))

    def ask(self, source: Callable[..., Any], topics: Mapping[str, int]) -> futures.Future[Any]:
        if any(map(inspect.iscoroutinefunction, (source, type(source).__call__))):
            return asyncio.run_coroutine_threadsafe(source(topics), self._event_loop)
        return ask_in_thread(source, topics)

    def wakeup(self) -> _Wakeup:
        return _Wakeup()

    async def back_off(self) -> None:
        await asyncio.sleep(self._retry_backoff_ms / 1000)

    # ---- the coordinator

    async def find_coordinator(self, timeout_s: float) -> None:
        try:
            await wait_for(self.ensure_coordinator_known(), timeout_s)
        except asyncio.TimeoutError:
            raise Errors.GroupCoordinatorNotAvailableError() from None

    async def ensure_coordinator_known(self) -> None:
        """Look the coordinator up, as aiokafka does; on new connections after a third of the session.

        aiokafka waits `request_timeout_ms` for the response to FindCoordinator, for that to the Metadata
        request after a failure, and for a connection.
        """
        patience_s = self._session_timeout_ms / 3000
        while self.coordinator_id is None and not self._closing.done():
            try:
                await wait_for(super().ensure_coordinator_known(), patience_s)
            except asyncio.TimeoutError:
                self._close_silent_connections()
                patience_s *= 2  # Perhaps a connection takes long to open.

    def forget_coordinator(self, error_code: int) -> None:
        self.coordinator_dead()

    def _does_not_answer(self, node_id: Any, error: Exception) -> NoReturn:
        log.warning("group %r: its coordinator does not answer: %r", self.group_id, error)
        if node_id == self.coordinator_id:
            self.coordinator_dead()
        raise error

    # ---- requests

    async def join_group(
        self, member_id: str, protocols: Sequence[tuple[str, bytes]], reason: str
    ) -> JoinGroupResponse:
        timeouts_ms = (self._session_timeout_ms, self._rebalance_timeout_ms)
        kind, instance_id = ConsumerProtocol.PROTOCOL_TYPE, self._group_instance_id
        request = _JOIN_GROUP(self.group_id, *timeouts_ms, member_id, instance_id, kind, list(protocols))
        response = await self._send_req(request)
        return JoinGroupResponse(
            response.error_code,
            response.member_id,
            response.generation_id,
            response.leader_id,
            response.group_protocol,
            # (id, metadata), from version 5 on (id, instance id, metadata)
            [JoinedMember(one[0], one[1] if len(one) == 3 else None, one[-1]) for one in response.members],
        )

    async def sync_group(
        self, membership: Membership, strategy: str, assignments: Mapping[str, bytes]
    ) -> SyncGroupResponse:
        request = _SYNC_GROUP(*self._of(membership), list(assignments.items()))
        response = await self._send_req(request)
        return SyncGroupResponse(response.error_code, response.member_assignment)

    async def send_heartbeat(self, membership: Membership) -> int:
        request = HeartbeatRequest_v3(*self._of(membership))
        return int((await self._send_with_timeout(request)).error_code)

    async def leave_group(self, member_id: str, reason: str) -> None:
        await self._send_with_timeout(_LEAVE_GROUP(self.group_id, member_id))

    def _of(self, membership: Membership) -> tuple[str, int, str, str | None]:
        """The first fields of every request of a member that has joined."""
        return self.group_id, membership.generation, membership.member_id, self._group_instance_id

    async def _send_with_timeout(self, request: Any) -> Any:
        """Send a request that a coordinator answers at once; KafkaTimeoutError after a third of the session.

        After the timeout the connection is closed, as by the client's own timeout, and with it all that are
        silent. Otherwise the lookup and the next request would wait on dead connections until the session
        ends.
        """
        node_id = self.coordinator_id
        try:
            return await wait_for(self._send_req(request), self._session_timeout_ms / 3000)
        except asyncio.TimeoutError:
            self._close_silent_connections(node_id)
            if node_id == self.coordinator_id:
                self.coordinator_dead()
            raise _NoResponseError(
                "the coordinator did not answer within a third of session_timeout_ms"
            ) from None

    async def _send_req(self, request: Any) -> Any:
        node_id = self.coordinator_id
        if node_id is None:
            raise Errors.GroupCoordinatorNotAvailableError()
        connection = _JOINING if isinstance(request, _JOINS) else ConnectionGroup.COORDINATION
        try:
            if connection == _JOINING:
                await self._open_for_joining(node_id)
            if request.API_KEY == _OFFSET_FETCH:
                request = await self._of_stable_offsets(node_id, request)
            response = await self._client.send(node_id, request, group=connection)
        except Errors.KafkaError as error:
            self._does_not_answer(node_id, error)
        if response.API_KEY == _OFFSET_FETCH:
            self._check_offset_fetch(response)
        return response

    async def _opened(self, node_id: int, connection: int) -> Any:
        """The connection, which is opened if it is not open; None if that fails."""
        await self._client.ready(node_id, group=connection)
        return self._client._conns.get((node_id, connection))

    # ---- committed offsets

    async def _of_stable_offsets(self, node_id: int, request: Any) -> Any:
        """aiokafka's OffsetFetch request as one that requires stable offsets, if the broker knows that."""
        connection = await self._opened(node_id, ConnectionGroup.COORDINATION)
        if connection is None:  # `send` would try once more, without the versions that the broker knows.
            raise Errors.NodeNotReadyError(node_id)
        # Before aiokafka 0.13 the versions are one attribute further away.
        versions = getattr(connection, "_version_info", connection)._versions
        if versions.get(_OFFSET_FETCH, (0, 0))[1] < OffsetFetchRequest_v7.API_VERSION:
            return request
        asked = request.topics if hasattr(request, "topics") else request._partitions
        topics: list[Any] = [(topic, partitions, 0) for topic, partitions in asked]
        return OffsetFetchRequest_v7(0, self.group_id, topics, True, 0)

    def _check_offset_fetch(self, response: Any) -> None:
        """Raise for what aiokafka's code does not know; it judges all other error codes of partitions."""
        if code := int(getattr(response, "error_code", 0)):
            # Of the response as a whole. aiokafka takes it for "nothing is committed".
            if coordinator_moved(code):
                self.coordinator_dead()
            raise Errors.for_code(code)()
        if any(
            code == _UNSTABLE_OFFSET_COMMIT for _, partitions in response.topics for *_, code in partitions
        ):
            raise _UnstableOffsetCommitError(f"group {self.group_id!r}: a transaction with offsets is open")

    # ---- the connection of joins

    async def _open_for_joining(self, node_id: int) -> None:
        """Wait for JoinGroup and SyncGroup for as long as the group waits for its slowest member.

        A member that gives up earlier rejoins with another claim, and the whole group starts again.
        """
        self._joining_id = node_id
        connection = await self._opened(node_id, _JOINING)
        if connection is not None:
            patience_s = self._rebalance_timeout_ms / 1000 + _BEYOND_REBALANCE_S
            connection._request_timeout = max(connection._request_timeout, patience_s)

    def give_up(self, join: object) -> None:
        if isinstance(join, asyncio.Future):
            # Not at once: a task that is cancelled before it runs would count as unanswered for ever.
            self._event_loop.call_soon(join.cancel)
        connection = self._client._conns.get((self._joining_id, _JOINING))
        if connection is not None:
            connection.close()

    # ---- the connection of all other requests, and commits

    def _close_silent_connections(self, coordinator_id: int | None = None) -> None:
        """Close what got no response for a sixth of the session, and those of a coordinator that is silent.

        The connection of joins stays while one is under way. A connection that is only idle is opened again
        when it is needed.
        """
        silent_since = time.monotonic() - self._session_timeout_ms / 6000
        for (node_id, which), connection in list(self._client._conns.items()):
            of_coordinator = node_id == coordinator_id and which != ConnectionGroup.DEFAULT
            is_waited_for = which == _JOINING and not self._session.joins_are_answered
            # aiokafka does not reopen the bootstrap connection.
            if is_waited_for or node_id == "bootstrap" or not connection.connected():
                continue
            if of_coordinator or connection._last_action < silent_since:
                connection.close(reason=CloseReason.CONNECTION_TIMEOUT)

    def _open_connection(self) -> Any:
        connection = self._client._conns.get((self.coordinator_id, ConnectionGroup.COORDINATION))
        return connection if connection is not None and connection.connected() else None

    def is_ready(self) -> bool:
        return self._open_connection() is not None

    async def connect(self, timeout_s: float) -> None:
        await self.find_coordinator(timeout_s)
        node_id = self.coordinator_id
        if node_id is None:
            raise Errors.GroupCoordinatorNotAvailableError()
        try:
            opening = self._client.ready(node_id, group=ConnectionGroup.COORDINATION)
            is_open = await wait_for(opening, timeout_s)
        except asyncio.TimeoutError:
            self.coordinator_dead()
            raise Errors.NodeNotReadyError() from None
        if not is_open:
            self._does_not_answer(node_id, Errors.NodeNotReadyError(node_id))
        if not self.is_ready():
            raise Errors.NodeNotReadyError(node_id)

    def check_offsets(self, offsets: Mapping[Any, Any]) -> None:
        for tp, offset in offsets.items():
            _COMMITTED.encode(_committed(tp, offset))

    def offset_commit(
        self, membership: Membership, offsets: Mapping[Any, Any]
    ) -> Awaitable[Mapping[Partition, int]]:
        by_topic: dict[str, list[tuple[int, int, int, str]]] = {}
        for tp, offset in offsets.items():
            by_topic.setdefault(tp.topic, []).append(_committed(tp, offset))
        node_id, connection = self.coordinator_id, self._open_connection()
        if connection is None:
            raise Errors.NodeNotReadyError(node_id)
        writer = connection._writer
        response = connection.send(OffsetCommitRequest_v7(*self._of(membership), list(by_topic.items())))
        drop_unsent(writer.get_extra_info("socket"), when_closed=True)
        return self._error_codes(node_id, connection, writer, response)

    async def _error_codes(
        self, node_id: Any, connection: Any, writer: Any, response: Awaitable[Any]
    ) -> Mapping[Partition, int]:
        try:
            answered = await response
        except (asyncio.TimeoutError, Errors.KafkaError) as error:
            writer.transport.abort()
            connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
            is_known = isinstance(error, Errors.KafkaError)
            self._does_not_answer(node_id, error if is_known else Errors.RequestTimedOutError())
        drop_unsent(writer.get_extra_info("socket"), when_closed=False)
        return {(topic, number): code for topic, partitions in answered.topics for number, code in partitions}


class _NoResponseError(Errors.KafkaTimeoutError):  # type: ignore[misc]
    retriable = True


class _UnstableOffsetCommitError(Errors.KafkaError):  # type: ignore[misc]
    retriable = True


def _committed(tp: Any, offset: Any) -> tuple[int, int, int, str]:
    """The fields of a partition in an OffsetCommit request."""
    return tp.partition, offset.offset, _UNKNOWN_LEADER_EPOCH, offset.metadata


class _Wakeup:
    """Lets one task at a time wait for `notify` or a timeout."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def __call__(self, timeout_s: float | None = None, /) -> None:
        with suppress(asyncio.TimeoutError):
            await wait_for(self._event.wait(), timeout_s)
        self._event.clear()

    def notify(self) -> None:
        self._event.set()


def close_silent_connections(client: Any, retry_backoff_s: float) -> None:
    """Make this client open new connections after no broker has answered its Metadata requests.

    aiokafka closes a connection after a timeout, except after that of a Metadata request. A connection that
    has died without a reset would be used again and again.
    """
    update = client._metadata_update

    async def metadata_update(cluster: Any, topics: Any) -> bool:
        if await update(cluster, topics):
            return True
        silent = [
            connection
            for (node_id, group), connection in client._conns.items()
            # aiokafka does not reopen the bootstrap connection.
            if group == ConnectionGroup.DEFAULT and node_id != "bootstrap" and connection.connected()
        ]
        if not silent:
            return False
        for connection in silent:
            connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
        await asyncio.sleep(retry_backoff_s)
        return bool(await update(cluster, topics))

    client._metadata_update = metadata_update


# ---- requests that aiokafka has no recent version of

_Struct: Any = getattr(api, "RequestStruct", api.Request)
"""From aiokafka 0.13 on, a `Request` chooses one of several structs."""
_Response: Any = api.Response

_NAME = String("utf-8")
_OF_MEMBER = (
    ("group", _NAME),
    ("generation_id", Int32),
    ("member_id", _NAME),
    ("group_instance_id", _NAME),
)
"""The first fields of every request of a member."""


class _OneVersion(_Struct):  # type: ignore[misc]  # aiokafka has no types
    """A request that has a single version."""

    API_KEY = -1
    API_VERSION = -1
    SCHEMA = Schema()
    RESPONSE_TYPE: Any = _Response

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> _OneVersion:
        """Check that the broker knows this version; aiokafka calls it from 0.13 on."""
        oldest, newest = versions.get(self.API_KEY, (0, -1))
        if not oldest <= self.API_VERSION <= newest:
            raise Errors.IncompatibleBrokerVersion(
                f"{type(self).__name__} needs a broker of Kafka 2.3 or later; this one knows the versions "
                f"{oldest} to {newest}"
            )
        return self


class HeartbeatRequest_v3(_OneVersion):
    API_KEY = 12
    API_VERSION = 3
    RESPONSE_TYPE = group.HeartbeatResponse_v1
    SCHEMA = Schema(*_OF_MEMBER)


_COMMITTED_FIELDS = (
    ("partition", Int32),
    ("offset", Int64),
    ("leader_epoch", Int32),
    ("metadata", _NAME),
)
_COMMITTED = Schema(*_COMMITTED_FIELDS)


class OffsetCommitRequest_v7(_OneVersion):
    API_KEY = 8
    API_VERSION = 7
    RESPONSE_TYPE = commit.OffsetCommitResponse_v3
    SCHEMA = Schema(
        *_OF_MEMBER,
        ("topics", Array(("topic", _NAME), ("partitions", Array(*_COMMITTED_FIELDS)))),
    )


class _Tags(UnsignedVarInt32):  # type: ignore[misc]
    """The number of tagged fields: 0 in a request. Those of a response are skipped."""

    @classmethod
    def decode(cls, data: Any) -> int:
        number = int(super().decode(data))
        for _ in range(number):
            super().decode(data)
            data.read(super().decode(data))
        return number


class _Fields(Schema):  # type: ignore[misc]
    """Fields of which those with the name `_` are read and left out."""

    def decode(self, data: Any) -> tuple[Any, ...]:
        values = super().decode(data)
        return tuple(value for name, value in zip(self.names, values, strict=True) if name != "_")


_COMPACT = CompactString("utf-8")
_FETCHED_PARTITION = _Fields(
    ("partition", Int32),
    ("offset", Int64),
    ("_", Int32),  # the leader's epoch
    ("metadata", _COMPACT),
    ("error_code", Int16),
    ("_", _Tags),
)
_FETCHED_TOPIC = _Fields(("topic", _COMPACT), ("partitions", CompactArray(_FETCHED_PARTITION)), ("_", _Tags))


class _OffsetFetchResponse_v7(_Response):  # type: ignore[misc]
    """`topics` has the rows of aiokafka's versions: (topic, [(partition, offset, metadata, error code)])."""

    API_KEY = _OFFSET_FETCH
    API_VERSION = 7
    SCHEMA = Schema(
        ("header_tags", _Tags),
        ("throttle_time_ms", Int32),
        ("topics", CompactArray(_FETCHED_TOPIC)),
        ("error_code", Int16),
        ("tags", _Tags),
    )


class OffsetFetchRequest_v7(_OneVersion):
    """A flexible version. The tags of its headers are fields here: aiokafka 0.10 has plain headers alone."""

    API_KEY = _OFFSET_FETCH
    API_VERSION = 7
    RESPONSE_TYPE = _OffsetFetchResponse_v7
    SCHEMA = Schema(
        ("header_tags", _Tags),
        ("group", _COMPACT),
        (
            "topics",
            CompactArray(("topic", _COMPACT), ("partitions", CompactArray(Int32)), ("tags", _Tags)),
        ),
        ("require_stable", Boolean),
        ("tags", _Tags),
    )
