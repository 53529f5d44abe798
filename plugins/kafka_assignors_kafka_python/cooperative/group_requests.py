"""Requests to the coordinator of a group, wherever that is. All of it runs on kafka-python's I/O thread."""

from __future__ import annotations

import time
from typing import Any

from kafka import errors as Errors

from kafka_assignors.rebalance.error_codes import coordinator_moved, membership_error
from kafka_assignors.rebalance.events import MembershipError
from kafka_assignors_kafka_python.cooperative.inside import ConsumerCoordinator, joining_node
from kafka_assignors_kafka_python.cooperative.latencies import Latencies

__all__ = ["GroupRequests"]


class GroupRequests(ConsumerCoordinator):  # type: ignore[misc]
    """kafka-python's coordinator: joins have a connection of their own."""

    _latencies: Latencies
    _joining_id: str

    async def ensure_coordinator_ready_async(self, timeout_ms: float | None = None) -> bool:
        """Wait until the coordinator is known; whether it is. KafkaError if waiting is of no use.

        kafka-python does the same, but asks again at once, and again, while brokers name a coordinator that
        cannot be reached.
        """
        deadline = float("inf") if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        while self.coordinator_unknown():
            if time.monotonic() >= deadline:
                return False
            left_ms = None if timeout_ms is None else (deadline - time.monotonic()) * 1000
            try:
                await self.wait_for(self.lookup_coordinator(), left_ms)
            except Errors.KafkaError as error:
                if not error.retriable:
                    raise
                # Perhaps all brokers that are known have gone.
                self._cluster.request_update()
            if self.coordinator_unknown():
                await self.back_off()
        return True

    async def send(self, request: Any, *, joining: bool = False) -> Any:
        """The answer of the coordinator. KafkaError if there is none."""
        if self.coordinator_unknown():
            raise Errors.CoordinatorNotAvailableError(self.group_id)
        node_id, timeout_ms = self.coordinator_id, None
        if joining:
            node_id = self._joining_id = joining_node(self._cluster, node_id)
            # The broker holds it until all have joined, or the leader has assigned.
            timeout_ms = max(self.config["request_timeout_ms"], self.config["max_poll_interval_ms"] + 5000)
        sent_at = time.monotonic()
        try:
            response = await self._manager.send(request, node_id=node_id, request_timeout_ms=timeout_ms)
        except Errors.KafkaError as error:
            if not isinstance(error, Errors.Cancelled):  # That is ours, see `_leave`.
                self._failed_request(node_id, request, error)
            raise
        self._latencies.answered(request, response, (time.monotonic() - sent_at) * 1000)
        return response

    def settle(self, error_code: int) -> MembershipError:
        """What an error code says, the coordinator looked for elsewhere if it is not there any more."""
        if coordinator_moved(error_code):
            self.coordinator_dead(Errors.for_code(error_code)())
        return membership_error(error_code)

    async def back_off(self) -> None:
        """Wait before the next try."""
        await self._net.sleep(self.config["retry_backoff_ms"] / 1000)

    async def wait_for(self, future: Any, timeout_ms: float | None) -> Any:
        """Its value; KafkaTimeoutError if that takes longer."""
        return await self._manager.wait_for(future, timeout_ms)
