"""Leaders and sources of weights use no thread of the application's executor."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from compat_tests.aiokafka.cooperative_consumers import consuming, until, with_group
from compat_tests.support.group_of_members import GroupOfMembers
from kafka_assignors_aiokafka import CooperativeStickyAssignor, assignor
from kafka_assignors_strategies import Weighted

pytestmark = pytest.mark.exhaustive


@contextlib.asynccontextmanager
async def full_default_executor() -> AsyncIterator[None]:
    released = threading.Event()
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    blocked = loop.run_in_executor(None, released.wait)
    try:
        yield
        assert not blocked.done()
    finally:
        released.set()


def ones(topics: Mapping[str, int]) -> dict[str, list[int]]:
    return {name: [1] * count for name, count in topics.items()}


@pytest.mark.parametrize(
    "make",
    [CooperativeStickyAssignor, lambda: assignor(Weighted(), weights=ones)],
    ids=["sticky", "with weights"],
)
@with_group(orders=4)
async def test_a_leader_needs_no_thread_of_the_default_executor(group: GroupOfMembers, make: Any) -> None:
    async with (
        full_default_executor(),
        consuming(group, partition_assignment_strategy=[make()]) as consumer,
    ):
        await until(lambda: len(consumer.assignment()) == 4)
