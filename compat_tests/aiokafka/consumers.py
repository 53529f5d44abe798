"""Stock consumers in the test's process, for tests that observe or hold their internals."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from types import FunctionType
from typing import Any

from aiokafka import AIOKafkaConsumer

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S

__all__ = ["consumer_of", "renamed", "settle", "stopping"]


def consumer_of(group: GroupOfMembers, *assignors: Any, **settings: Any) -> AIOKafkaConsumer:
    """A consumer of all topics of the group, not yet started."""
    return AIOKafkaConsumer(
        *group.topics,
        **{
            "bootstrap_servers": group.kafka.bootstrap,
            "group_id": group.id,
            "partition_assignment_strategy": list(assignors),
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 30_000,  # Longer than a busy machine stalls.
            **settings,
        },
    )


@contextlib.asynccontextmanager
async def stopping(*consumers: AIOKafkaConsumer) -> AsyncIterator[None]:
    """Stop the consumers when the block ends."""
    try:
        yield
    finally:
        for consumer in consumers:
            await consumer.stop()


async def settle(group: GroupOfMembers, *consumers: AIOKafkaConsumer) -> None:
    """Wait until the consumers own all partitions, in equal shares."""

    def shares() -> list[int]:
        return [len(consumer.assignment()) for consumer in consumers]

    fair = sum(group.topics.values()) // len(consumers)
    deadline = time.monotonic() + HANG_S
    while shares() != [fair] * len(consumers):
        assert time.monotonic() < deadline, shares()
        await asyncio.sleep(0.05)


def renamed(function: Any, variable: str) -> Any:
    """The same function with another name for one of its variables."""
    code = function.__code__
    names = tuple(f"{name}_" if name == variable else name for name in code.co_varnames)
    return FunctionType(code.replace(co_varnames=names), function.__globals__, function.__name__)
