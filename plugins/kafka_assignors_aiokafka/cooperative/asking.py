"""How requests reach a broker: on which connection, and how long an answer may take."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import aiokafka.errors as Errors
from aiokafka.client import ConnectionGroup
from aiokafka.conn import CloseReason
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.util import wait_for

from kafka_assignors.rebalance.events import MembershipError
from kafka_assignors_aiokafka.cooperative import requests

__all__ = ["AskingCoordinator", "close_silent_connections"]

log = logging.getLogger("kafka_assignors_aiokafka")

_BEYOND_REBALANCE_S = 5.0
"""How much longer than `rebalance_timeout_ms` a join may take; as in Java, for the way of the answer."""


class AskingCoordinator(GroupCoordinator):  # type: ignore[misc]  # aiokafka has no types
    """aiokafka's coordinator, with what ours sends and how long it waits."""

    def settle(self, error_code: int) -> MembershipError:
        """What an error code says, the coordinator looked for elsewhere if it is not there any more."""
        if requests.coordinator_moved(error_code):
            self.coordinator_dead()
        return requests.membership_error(error_code)

    async def back_off(self) -> None:
        """Wait before the next try."""
        await asyncio.sleep(self._retry_backoff_ms / 1000)

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
            # aiokafka sends this request, and takes the answer for "nothing is committed".
            self.settle(code)
            raise Errors.for_code(code)()
        return response

    async def _open_for_joining(self, node_id: int) -> None:
        """Give the answers to JoinGroup and SyncGroup the time that the group gives its slowest member.

        A member that gives up earlier joins again with another claim, and the whole group begins anew.
        """
        await self._client.ready(node_id, group=requests.JOINING)
        connection = self._client._conns.get((node_id, requests.JOINING))
        if connection is not None:
            patience_s = self._rebalance_timeout_ms / 1000 + _BEYOND_REBALANCE_S
            connection._request_timeout = max(connection._request_timeout, patience_s)

    async def _ask(self, request: Any) -> Any:
        """Send a request that a coordinator answers at once; TimeoutError after `session_timeout_ms`.

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
            raise


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
