"""The threads of a leader: each call that may take its time has one of its own, which ends with the call.

The application's default executor is not used. Its threads may all be busy with handlers that wait for a
commit; the coordinator accepts no commit before SyncGroup, and SyncGroup would wait for a thread.
A member that does not lead has no thread. `stop` waits for none, and neither does the end of the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from aiokafka.errors import KafkaError

from kafka_assignors.assignor import ask_in_thread

__all__ = ["LEADER_THREADS", "in_thread"]

Result = TypeVar("Result")

LEADER_THREADS = 4
"""How many calls of one consumer may be unfinished. A leader makes one at a time; those of earlier
generations, which the group did not wait for, go on until they return."""


async def in_thread(coordinator: Any, function: Callable[..., Result], *arguments: Any) -> Result:
    """What a function returns or raises in a thread; KafkaError if too many earlier calls are unfinished."""
    calls: set[Future[Result]] | None = getattr(coordinator, "_kafka_assignors_calls", None)
    if calls is None:
        calls = coordinator._kafka_assignors_calls = set()
    if len(calls) >= LEADER_THREADS:
        raise KafkaError(
            f"the strategy of group {coordinator.group_id!r} has not returned from {len(calls)} calls in "
            "earlier generations: make it return within the group's rebalance_timeout_ms, or raise that"
        )
    call = ask_in_thread(function, *arguments, name="kafka-assignors-leader")
    calls.add(call)
    call.add_done_callback(calls.discard)
    return await asyncio.wrap_future(call)
