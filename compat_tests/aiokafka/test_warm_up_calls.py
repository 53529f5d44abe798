"""Calls of a listener's warm-up methods that end in unusual ways."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafka_assignors_aiokafka.cooperative.listener import WarmUpTask

PARTITIONS = frozenset({("t", 0)})


class Stop(BaseException):
    """What an application raises to end a part of itself."""


class Listener:
    async def on_partitions_warming(self, partitions: Any) -> None:
        raise Stop

    async def on_warming_cancelled(self, partitions: Any) -> None:
        raise asyncio.CancelledError  # As of a task of the listener's that it has cancelled and awaits.


def test_what_the_listener_raises_does_not_end_the_task_that_waits_for_it() -> None:
    async def test() -> None:
        call = WarmUpTask(Listener(), PARTITIONS)
        with pytest.raises(RuntimeError, match="Stop"):
            await call.ended(60)
        await call.tell_cancelled(PARTITIONS, 60)

    asyncio.run(test())
