"""The requests of a member on kafka-python: their connections, timeouts and metrics.

The versions are those of kafka-python's own coordinator: the newest that both sides know, up to a limit where
a later version has another meaning.

All of it runs on kafka-python's I/O thread, except for the calls of `in_thread`.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent import futures
from contextlib import suppress
from typing import Any

from kafka import errors as Errors
from kafka.future import Future
from kafka.protocol.consumer import (  # pyright: ignore[reportMissingImports]  # its stubs are of 2.x
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from kafka.protocol.consumer.metadata import ConsumerProtocolType  # pyright: ignore[reportMissingImports]
from kafka.protocol.metadata import MetadataResponse  # pyright: ignore[reportMissingImports]

from kafka_assignors.messages import JoinedMember, JoinGroupResponse, SyncGroupResponse
from kafka_assignors.rebalance.client import drop_unsent
from kafka_assignors.rebalance.error_codes import membership_error
from kafka_assignors.rebalance.events import NO_MEMBERSHIP, Membership, MembershipError, Partition
from kafka_assignors.rebalance.lead import LeaderThreads, ask_in_thread
from kafka_assignors.rebalance.session import Session
from kafka_assignors_kafka_python.cooperative.inside import ConsumerCoordinator
from kafka_assignors_kafka_python.cooperative.metrics import CoordinatorMetrics

_HEARD = (MembershipError.NONE, MembershipError.REBALANCE_IN_PROGRESS)

_LONGEST_REASON = 255

_FLUSH_S = 1.0
"""How long a close waits for requests that are still being written."""

_BEYOND_REBALANCE_MS = 5000
"""How much longer than `max_poll_interval_ms` a join may take, for the way of the response; as in Java."""


class RequestingCoordinator(ConsumerCoordinator):  # type: ignore[misc]
    """kafka-python's coordinator, with the requests of a session (`kafka_assignors.rebalance.client`)."""

    errors: Any = Errors

    _session: Session
    _joining_id = ""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._threads = LeaderThreads(self.group_id)
        self._calls: set[Any] = set()  # the futures of `in_thread`

    def take_over_metrics(self, stock: Any) -> CoordinatorMetrics | None:
        """Take over the sensors of `stock`; the observer that feeds them, None without a registry."""
        self._sensors, self._consumer_sensors = stock._sensors, stock._consumer_sensors
        self.heartbeat = stock.heartbeat  # One of the metrics looks at it.
        registry = stock.config["metrics"]
        return registry and CoordinatorMetrics(registry, self._sensors, self._consumer_sensors)

    # ---- the event loop

    async def in_thread(self, function: Callable[..., Any], /, *arguments: Any) -> Any:
        called = self._threads.call(function, *arguments)
        returned: Any = Future()
        self._calls.add(returned)

        def tell(_: object) -> None:
            with suppress(Exception):  # The I/O thread has ended: the consumer was closed, and nothing waits.
                self.start(_end, returned, called)

        called.add_done_callback(tell)
        try:
            return await returned
        finally:
            self._calls.discard(returned)

    ask = staticmethod(ask_in_thread)

    def start(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function on the I/O thread; a future. Any thread may call this."""
        return self._manager.call_soon(function, *arguments)

    def wakeup(self) -> _Wakeup:
        return _Wakeup(self)

    async def back_off(self) -> None:
        try:
            await self._net.sleep(self.config["retry_backoff_ms"] / 1000)
        except RuntimeError:
            if not self._net._closed:  # A closed client has no timers any more.
                raise

    async def wait_for(self, future: Any, timeout_ms: float | None) -> Any:
        """The value of `future`; KafkaTimeoutError after `timeout_ms`."""
        return await self._manager.wait_for(future, timeout_ms)

    # ---- the coordinator

    async def find_coordinator(self, timeout_s: float) -> None:
        if not await self.ensure_coordinator_ready_async(timeout_ms=timeout_s * 1000):
            raise Errors.CoordinatorNotAvailableError(self.group_id)

    async def ensure_coordinator_ready_async(self, timeout_ms: float | None = None) -> bool:
        """Wait until the coordinator is known; False after the timeout, KafkaError if a retry is of no use.

        kafka-python does the same, but retries without a pause while brokers name a coordinator that cannot
        be reached, and waits `request_timeout_ms` for a connection that is silent.
        """
        deadline = float("inf") if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        patience_ms = self.config["session_timeout_ms"] / 3
        while self.coordinator_unknown():
            if time.monotonic() >= deadline or self._net._closed:
                return False
            left_ms = (deadline - time.monotonic()) * 1000
            try:
                await self.wait_for(self.lookup_coordinator(), min(left_ms, patience_ms))
            except Errors.KafkaError as error:
                if isinstance(error, Errors.KafkaTimeoutError) and left_ms > patience_ms:
                    self._close_silent_connections(error)
                    patience_ms *= 2  # Perhaps a connection takes long to open.
                if not error.retriable or self._net._closed:
                    raise
                # Perhaps all known brokers have gone.
                self._cluster.request_update()
            if self.coordinator_unknown():
                await self.back_off()
        return True

    def forget_coordinator(self, error_code: int) -> None:
        self.coordinator_dead(Errors.for_code(error_code)())

    # ---- requests

    async def join_group(
        self, member_id: str, protocols: Sequence[tuple[str, bytes]], reason: str
    ) -> JoinGroupResponse:
        config = self.config
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=config["session_timeout_ms"],
            rebalance_timeout_ms=config["max_poll_interval_ms"],
            member_id=member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=ConsumerProtocolType,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name, data) for name, data in protocols],
            reason=reason[:_LONGEST_REASON],
            # From version 9 on, a restarted static leader is told to skip the assignment, which is not
            # implemented here.
            max_version=8,
        )
        response = await self.send(request, joining=True)
        return JoinGroupResponse(
            response.error_code,
            response.member_id,
            response.generation_id,
            response.leader,
            response.protocol_name,
            [
                JoinedMember(one.member_id, one.group_instance_id, bytes(one.metadata))
                for one in response.members
            ],
        )

    async def sync_group(
        self, membership: Membership, strategy: str, assignments: Mapping[str, bytes]
    ) -> SyncGroupResponse:
        request = SyncGroupRequest(
            **self._of(membership),
            generation_id=membership.generation,
            protocol_type=ConsumerProtocolType,
            protocol_name=strategy,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id, data)
                for member_id, data in assignments.items()
            ],
            max_version=5,
        )
        response = await self.send(request, joining=True)
        return SyncGroupResponse(response.error_code, bytes(response.assignment or b""))

    async def send_heartbeat(self, membership: Membership) -> int:
        """The error code of the response; KafkaTimeoutError after a third of `session_timeout_ms`.

        After the timeout the connection is closed, and with it all that are silent. Otherwise the lookup and
        the next request would wait on dead connections until the session ends.
        """
        self.heartbeat.sent_heartbeat()
        node_id = self.coordinator_id
        request = HeartbeatRequest(**self._of(membership), generation_id=membership.generation)
        try:
            sending = self._manager.call_soon(self.send, request)
            response = await self.wait_for(sending, self.config["session_timeout_ms"] / 3)
        except Errors.KafkaTimeoutError as error:
            self._close_silent_connections(error, node_id)
            if self.coordinator_id == node_id:
                self.coordinator_dead(error)
            raise
        if membership_error(response.error_code) in _HEARD:
            self.heartbeat.received_heartbeat()
        return int(response.error_code)

    async def leave_group(self, member_id: str, reason: str) -> None:
        leaving = LeaveGroupRequest.MemberIdentity(
            member_id=member_id, group_instance_id=self.group_instance_id, reason=reason[:_LONGEST_REASON]
        )
        await self.send(LeaveGroupRequest(group_id=self.group_id, member_id=member_id, members=[leaving]))

    def _of(self, membership: Membership) -> dict[str, Any]:
        """The fields of every request of a joined member, without the generation, which has two names."""
        return {
            "group_id": self.group_id,
            "member_id": membership.member_id,
            "group_instance_id": self.group_instance_id,
        }

    async def send(self, request: Any, *, joining: bool = False) -> Any:
        """The response of the coordinator. KafkaError if there is none."""
        if self.coordinator_unknown():
            raise Errors.CoordinatorNotAvailableError(self.group_id)
        coordinator_id = node_id = self.coordinator_id
        timeout_ms = None
        if joining:
            node_id = self._joining_id = _joining_node(self._cluster, coordinator_id)
            # The broker answers when all members have joined, or when the leader has assigned.
            longest_ms = self.config["max_poll_interval_ms"] + _BEYOND_REBALANCE_MS
            timeout_ms = max(self.config["request_timeout_ms"], longest_ms)
        try:
            return await self._manager.send(request, node_id=node_id, request_timeout_ms=timeout_ms)
        except Errors.KafkaError as error:
            if not isinstance(error, Errors.Cancelled):  # This member has closed the connection of joins.
                self._failed_request(coordinator_id, request, error)
            raise

    def _failed_request(self, node_id: Any, request: Any, error: Exception) -> None:
        # A request may fail on an old coordinator when the new one is known, which stays known.
        if node_id == self.coordinator_id:
            super()._failed_request(node_id, request, error)

    def _handle_offset_fetch_response(self, response: Any) -> Any:
        # Otherwise each try during a transaction would log an unknown error.
        topics = response.groups[0].topics if response.API_VERSION >= 8 else response.topics
        unstable = Errors.UnstableOffsetCommitError  # pyright: ignore[reportAttributeAccessIssue]
        if unstable.errno in (one.error_code for topic in topics for one in topic.partitions):
            raise unstable(self.group_id)
        return super()._handle_offset_fetch_response(response)

    def give_up(self, join: object) -> None:
        for returned in [one for one in self._calls if not one.is_done]:
            returned.failure(Errors.Cancelled("the group goes on without this member"))
        self._manager.close(node_id=self._joining_id)

    # ---- the connection of all other requests, and commits

    def _close_silent_connections(self, error: Exception, coordinator_id: object = None) -> None:
        """Close what received nothing for a sixth of the session, and that of a coordinator that is silent.

        Requests that wait there get the error. The connection of joins stays while one is under way. A
        connection that is only idle is opened again when it is needed.
        """
        silent_since = time.monotonic() - self.config["session_timeout_ms"] / 6000
        for node_id, connection in list(self._manager._conns.items()):
            transport = connection.transport
            is_silent = transport is None or transport.last_read < silent_since
            is_waited_for = node_id == self._joining_id and not self._session.joins_are_answered
            if (is_silent and not is_waited_for) or node_id == coordinator_id:
                connection.close(error)

    def _open_connection(self) -> Any:
        """The connection for all requests except joins, if it writes a request at once; else None.

        kafka-python keeps requests back while a connection is being opened or authenticated again, is
        throttled, or has its share of requests without a response.
        """
        connection = None if self.coordinator_unknown() else self._manager._conns.get(self.coordinator_id)
        if connection is None or not connection.connected or connection.paused:
            return None
        if connection._reauth.is_reauthenticating or connection.transport.is_closing():
            return None
        return connection

    def is_ready(self) -> bool:
        return self._open_connection() is not None

    async def connect(self, timeout_s: float) -> None:
        await self.find_coordinator(timeout_s)
        node_id = self.coordinator_id
        try:
            await self._manager.get_connection(node_id)
        except Errors.KafkaError as error:
            self._failed_request(node_id, OffsetCommitRequest, error)
            raise
        if not self.is_ready():
            raise Errors.NodeNotReadyError(node_id)

    def check_offsets(self, offsets: Mapping[Any, Any]) -> None:
        # Version 8 takes texts of any length, but a broker closes the connection at one over 32 KiB.
        self._commit(NO_MEMBERSHIP, offsets).encode(version=7)

    def offset_commit(
        self, membership: Membership, offsets: Mapping[Any, Any]
    ) -> Awaitable[Mapping[Partition, int]]:
        request = self._commit(membership, offsets)
        node_id, connection = self.coordinator_id, self._open_connection()
        if connection is None:
            raise Errors.NodeNotReadyError(node_id)
        connected = connection.transport._sock
        response = connection.send_request(request)
        drop_unsent(connected, when_closed=True)
        return self._error_codes(node_id, request, connected, response)

    def _commit(self, membership: Membership, offsets: Mapping[Any, Any]) -> Any:
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
            **self._of(membership),
            generation_id_or_member_epoch=membership.generation,
            topics=[of_topic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()],
            max_version=8,
        )

    async def _error_codes(
        self, node_id: str, request: Any, connected: Any, response: Any
    ) -> Mapping[Partition, int]:
        try:
            answered = await response
        except Errors.KafkaError as error:
            self._failed_request(node_id, request, error)
            raise
        drop_unsent(connected, when_closed=False)
        return {
            (topic.name, partition.partition_index): partition.error_code
            for topic in answered.topics
            for partition in topic.partitions
        }

    async def close_connections(self) -> None:
        """Close all connections while the I/O thread still runs.

        A connection closes when its pending writes are done. kafka-python ends the thread before that, and
        leaves the socket open.
        """
        self._manager.close()
        for connection in tuple(self._manager._conns.values()):
            transport = connection.transport
            try:
                await self.wait_for(connection.close_future, _FLUSH_S * 1000)
            except Errors.KafkaError:
                if transport is not None:
                    transport._close()


def _end(returned: Any, called: futures.Future[Any]) -> None:
    """Give a future of kafka-python the result or error of a call in a thread."""
    if returned.is_done:  # It was given up.
        return
    if (error := called.exception()) is None:
        returned.success(called.result())
    else:
        returned.failure(error)


class _Wakeup:
    """Lets one task at a time wait for `notify`, which the I/O thread alone calls, or for a timeout."""

    def __init__(self, coordinator: RequestingCoordinator) -> None:
        self._coordinator = coordinator
        self._notified = Future()

    async def __call__(self, timeout_s: float | None = None, /) -> None:
        with suppress(Errors.KafkaTimeoutError):
            await self._coordinator.wait_for(self._notified, None if timeout_s is None else timeout_s * 1000)
        self._notified = Future()

    def notify(self) -> None:
        if not self._notified.is_done:
            self._notified.success(None)


def _joining_node(cluster: Any, coordinator_id: str) -> str:
    """The node id of the coordinator for joins alone (see `Client.join_group`).

    kafka-python has a connection for each node id, and gives coordinators ids of their own.
    """
    joining_id = f"joining-{coordinator_id}"
    broker = cluster.broker_metadata(coordinator_id)
    known = cluster.broker_metadata(joining_id)
    if known is None or (known.host, known.port) != (broker.host, broker.port):
        cluster._coordinator_brokers[joining_id] = MetadataResponse.MetadataResponseBroker(
            joining_id, broker.host, broker.port, None
        )
    return joining_id
