"""The requests of a member on aiokafka: over which connection they go, and how long a response may take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import aiokafka.errors as Errors
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.util import wait_for

from kafka_assignors.rebalance import clock
from kafka_assignors.rebalance.error_codes import coordinator_moved
from kafka_assignors.rebalance.transport import (
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    OffsetCommit,
    Request,
    SyncGroup,
    SyncGroupResponse,
)
from kafka_assignors_aiokafka.cooperative import requests

__all__ = ["AiokafkaTransport", "RequestingCoordinator", "close_silent_connections"]

Response = TypeVar("Response")

log = logging.getLogger("kafka_assignors_aiokafka")

_BEYOND_REBALANCE_S = 5.0
"""How much longer than `rebalance_timeout_ms` a join may take; as in Java, for the way of the response."""


class RequestingCoordinator(GroupCoordinator):  # type: ignore[misc]  # aiokafka has no types
    """aiokafka's coordinator, with its own choice of connections and timeouts."""

    async def _send_req(self, request: Any) -> Any:
        node_id = self.coordinator_id
        if node_id is None:
            raise Errors.GroupCoordinatorNotAvailableError()
        connection = requests.connection_of(request, ConnectionGroup.COORDINATION)
        try:
            if connection == requests.JOINING:
                await self._open_for_joining(node_id)
            response = await self._client.send(node_id, request, group=connection)
        except Errors.KafkaError as error:
            log.warning("group %r: its coordinator does not answer: %r", self.group_id, error)
            self.coordinator_dead()
            raise
        if code := requests.offset_fetch_error(response):
            # aiokafka sends this request, and takes the response for "nothing is committed".
            if coordinator_moved(code):
                self.coordinator_dead()
            raise Errors.for_code(code)()
        return response

    async def _open_for_joining(self, node_id: int) -> None:
        """Give the responses to JoinGroup and SyncGroup the time that the group gives its slowest member.

        A member that gives up earlier joins again with another claim, and the whole group begins anew.
        """
        await self._client.ready(node_id, group=requests.JOINING)
        connection = self._client._conns.get((node_id, requests.JOINING))
        if connection is not None:
            patience_s = self._rebalance_timeout_ms / 1000 + _BEYOND_REBALANCE_S
            connection._request_timeout = max(connection._request_timeout, patience_s)

    async def send_with_timeout(self, request: Any) -> Any:
        """Send a request that a coordinator answers at once; KafkaTimeoutError after `session_timeout_ms`.

        The connections are closed then, as the client's own timeout does. Otherwise the same broker is found
        again, and the same socket is used for as long as nothing resets it.
        """
        node_id = self.coordinator_id
        try:
            return await wait_for(self._send_req(request), self._session_timeout_ms / 1000)
        except asyncio.TimeoutError:
            for group in (ConnectionGroup.COORDINATION, requests.JOINING):
                connection = self._client._conns.get((node_id, group))
                if connection is not None:
                    connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
            self.coordinator_dead()
            raise _NoResponseError("the coordinator did not answer within session_timeout_ms") from None

    def close_joining_connection(self) -> None:
        """Close the connection of joins: what waits on it fails."""
        connection = self._client._conns.get((self.coordinator_id, requests.JOINING))
        if connection is not None:
            connection.close()


class _NoResponseError(Errors.KafkaTimeoutError):  # type: ignore[misc]
    retriable = True


class AiokafkaTransport:
    """The transport of one coordinator: see `kafka_assignors.rebalance.transport.Transport`."""

    errors: Any = Errors

    def __init__(
        self, coordinator: RequestingCoordinator, spawn: Callable[[Coroutine[Any, Any, None]], object]
    ) -> None:
        self.spawn = spawn
        self._coordinator = coordinator

    def now(self) -> float:
        """Seconds of the clock of the lease."""
        return clock.including_suspend()

    def wakeup(self) -> _Wakeup:
        """A wait that ends early."""
        return _Wakeup()

    def outcome(self) -> _Outcome:
        """What one caller waits for."""
        return _Outcome()

    async def back_off(self) -> None:
        """Wait before the next try."""
        await asyncio.sleep(self._coordinator._retry_backoff_ms / 1000)

    async def find_coordinator(self, timeout_s: float) -> None:
        """Wait until the coordinator is known."""
        if self._coordinator.coordinator_id is not None:
            return
        try:
            await wait_for(self._coordinator.ensure_coordinator_known(), timeout_s)
        except asyncio.TimeoutError:
            raise Errors.GroupCoordinatorNotAvailableError() from None

    def forget_coordinator(self, error_code: int) -> None:
        """Look the coordinator up before the next request."""
        self._coordinator.coordinator_dead()

    def give_up(self, join: object) -> None:
        """Wait no longer for the response to a JoinGroup or SyncGroup."""
        if isinstance(join, asyncio.Future):
            join.cancel()
        self._coordinator.close_joining_connection()

    async def send(self, request: Request[Response]) -> Response:
        """Send a request, and read its response."""
        response: Any = await self._send(request)
        return response  # type: ignore[no-any-return]

    async def _send(self, request: Any) -> Any:
        coordinator = self._coordinator
        group_id, instance_id = coordinator.group_id, coordinator._group_instance_id
        response: Any
        match request:
            case JoinGroup(member_id, protocols):
                response = await coordinator._send_req(
                    requests.join_group(
                        group_id,
                        coordinator._session_timeout_ms,
                        coordinator._rebalance_timeout_ms,
                        member_id,
                        instance_id,
                        protocols,
                    )
                )
                return JoinGroupResponse(
                    response.error_code,
                    response.member_id,
                    response.generation_id,
                    response.leader_id,
                    response.group_protocol,
                    response,
                )
            case SyncGroup(membership, _, assignments):
                response = await coordinator._send_req(
                    requests.sync_group(group_id, membership, instance_id, assignments)
                )
                return SyncGroupResponse(response.error_code, response.member_assignment)
            case Heartbeat(membership):
                heartbeat = requests.heartbeat(group_id, membership, instance_id)
                return (await coordinator.send_with_timeout(heartbeat)).error_code
            case LeaveGroup(member_id):
                await coordinator.send_with_timeout(requests.leave_group(group_id, member_id))
                return None
            case OffsetCommit(membership, offsets):
                response = await coordinator._send_req(
                    requests.offset_commit(group_id, membership, instance_id, offsets)
                )
                return {
                    (topic, number): code
                    for topic, partitions in response.topics
                    for number, code in partitions
                }
        raise TypeError(f"{request!r} is no request of a session")


class _Wakeup:
    """A wait of one task at a time that ends early."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    async def __call__(self, timeout_s: float | None = None, /) -> None:
        with suppress(asyncio.TimeoutError):
            await wait_for(self._event.wait(), timeout_s)
        self._event.clear()

    def notify(self) -> None:
        self._event.set()


class _Outcome:
    """The end of something that one caller waits for."""

    def __init__(self) -> None:
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve(self, error: Exception | None = None) -> None:
        if self._ended.done():
            return
        if error is None:
            self._ended.set_result(None)
        else:
            self._ended.set_exception(error)

    async def wait(self, timeout_s: float | None) -> None:
        try:
            await wait_for(self._ended, timeout_s)
        except asyncio.TimeoutError:
            raise Errors.KafkaTimeoutError(f"not committed within {timeout_s:g} s") from None


def close_silent_connections(client: Any, retry_backoff_s: float) -> None:
    """Have this client ask for metadata on new connections once no broker has answered on those it has.

    aiokafka closes a connection after a timeout, but not after that of a Metadata request. A connection that
    has died without a reset is used again and again.
    """
    update = client._metadata_update

    async def metadata_update(cluster: Any, topics: Any) -> bool:
        if await update(cluster, topics):
            return True
        silent = [
            connection
            for (node_id, group), connection in client._conns.items()
            # aiokafka does not open the bootstrap connection a second time.
            if group == ConnectionGroup.DEFAULT and node_id != "bootstrap" and connection.connected()
        ]
        if not silent:
            return False
        for connection in silent:
            connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
        await asyncio.sleep(retry_backoff_s)
        return bool(await update(cluster, topics))

    client._metadata_update = metadata_update
