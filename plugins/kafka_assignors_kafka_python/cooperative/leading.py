"""The work of a leader between its JoinGroup response and its SyncGroup request, while heartbeats go on.

All of it runs on kafka-python's I/O thread, but for two things that have threads of their own: the strategy,
and to decode what members sent.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from kafka import errors as Errors
from kafka.future import Future

from kafka_assignors.assignor import Assignor
from kafka_assignors.leader_bytes import EncodedAssignments
from kafka_assignors.rebalance.transport import JoinGroupResponse
from kafka_assignors_kafka_python._client.leading import Leading, read_members, run_in_background
from kafka_assignors_kafka_python._client.v3 import refresh_metadata

T = TypeVar("T")

_REFRESH_TIMEOUT_MS = 1000.0
"""How long a member waits for newer metadata when an assignment has more than it knows of."""


class _Coordinator(Protocol):
    """The part of the coordinator that a leader uses."""

    _cluster: Any

    @property
    def knows_topics_of_group(self) -> bool: ...
    def start(self, function: Callable[..., Any], *arguments: Any) -> Any: ...
    async def wait_for(self, future: Any, timeout_ms: float | None) -> Any: ...


async def assign(
    coordinator: _Coordinator, assignor: Assignor, joined: JoinGroupResponse, *, eager: bool
) -> EncodedAssignments:
    """The assignment of each member. Raises what the strategy raises."""
    decoded = await in_background(coordinator.start, lambda: read_members(assignor, joined.members))
    leading = Leading(coordinator, assignor, decoded, joined.generation)
    # While all members go on consuming, newer metadata of known topics need not be waited for: their request
    # comes after a fetch, which may take `fetch_max_wait_ms`. If they differ, the leader rejoins.
    refreshed = coordinator.start(refresh_metadata, coordinator._cluster)
    if eager or not coordinator.knows_topics_of_group:
        with suppress(Errors.KafkaError):
            await coordinator.wait_for(refreshed, leading.metadata_timeout_s * 1000)
    leading.read_metadata()
    await in_background(coordinator.start, leading.think)
    return leading.finish()


async def refresh_soon(coordinator: _Coordinator) -> None:
    """Get newer metadata, if they come soon."""
    refreshed = coordinator.start(refresh_metadata, coordinator._cluster)
    with suppress(Errors.KafkaError):
        await coordinator.wait_for(refreshed, _REFRESH_TIMEOUT_MS)


async def in_background(start: Callable[..., Any], function: Callable[[], T]) -> T:
    """Run something of the leader's in a thread of its own, while the I/O thread goes on.

    `start` runs a function on the I/O thread.
    """
    done: Any = Future()

    def run() -> None:
        tell: Any
        outcome: Any
        try:
            tell, outcome = done.success, function()
        except Exception as error:
            tell, outcome = done.failure, error
        with suppress(Exception):  # The I/O thread has ended: the consumer was closed, and nothing waits.
            start(tell, outcome)

    run_in_background(run)
    outcome: T = await done
    return outcome
