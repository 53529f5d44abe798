"""The requests of a member on aiokafka: over which connection they go, and how long a response may take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import aiokafka.errors as Errors
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.util import wait_for

from kafka_assignors.rebalance import clock
from kafka_assignors.rebalance.error_codes import coordinator_moved
from kafka_assignors.rebalance.events import Membership, Partition
from kafka_assignors.rebalance.transport import JoinGroupResponse, SyncGroupResponse
from kafka_assignors_aiokafka.cooperative import requests

__all__ = ["AiokafkaTransport", "RequestingCoordinator", "close_silent_connections"]

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

    async def send_join(self, member_id: str, protocols: Sequence[tuple[str, bytes]]) -> Any:
        """Send JoinGroup with this coordinator's timeouts."""
        request = requests.join_group(
            self.group_id,
            self._session_timeout_ms,
            self._rebalance_timeout_ms,
            member_id,
            self._group_instance_id,
            protocols,
        )
        return await self._send_req(request)

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
        self._member = (coordinator.group_id, coordinator._group_instance_id)

    def now(self) -> float:
        return clock.including_suspend()

    def wakeup(self) -> _Wakeup:
        return _Wakeup()

    def outcome(self) -> _Outcome:
        return _Outcome()

    async def back_off(self) -> None:
        await asyncio.sleep(self._coordinator._retry_backoff_ms / 1000)

    async def find_coordinator(self, timeout_s: float) -> None:
        if self._coordinator.coordinator_id is not None:
            return
        try:
            await wait_for(self._coordinator.ensure_coordinator_known(), timeout_s)
        except asyncio.TimeoutError:
            raise Errors.GroupCoordinatorNotAvailableError() from None

    def forget_coordinator(self, error_code: int) -> None:
        self._coordinator.coordinator_dead()

    def give_up(self, join: object) -> None:
        if isinstance(join, asyncio.Future):
            join.cancel()
        self._coordinator.close_joining_connection()

    async def join_group(
        self, member_id: str, protocols: Sequence[tuple[str, bytes]], reason: str
    ) -> JoinGroupResponse:
        response = await self._coordinator.send_join(member_id, protocols)
        return JoinGroupResponse(
            response.error_code,
            response.member_id,
            response.generation_id,
            response.leader_id,
            response.group_protocol,
            response,
        )

    async def sync_group(
        self, membership: Membership, strategy: str, assignments: Mapping[str, bytes]
    ) -> SyncGroupResponse:
        group_id, instance_id = self._member
        request = requests.sync_group(group_id, membership, instance_id, assignments)
        response = await self._coordinator._send_req(request)
        return SyncGroupResponse(response.error_code, response.member_assignment)

    async def heartbeat(self, membership: Membership) -> int:
        group_id, instance_id = self._member
        request = requests.heartbeat(group_id, membership, instance_id)
        return int((await self._coordinator.send_with_timeout(request)).error_code)

    async def leave_group(self, member_id: str, reason: str) -> None:
        await self._coordinator.send_with_timeout(requests.leave_group(self._member[0], member_id))

    async def offset_commit(
        self, membership: Membership, offsets: Mapping[Any, Any]
    ) -> Mapping[Partition, int]:
        group_id, instance_id = self._member
        request = requests.offset_commit(group_id, membership, instance_id, offsets)
        response = await self._coordinator._send_req(request)
        return {(topic, number): code for topic, partitions in response.topics for number, code in partitions}


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
