"""CooperativeAIOKafkaConsumers in the test's process, and a listener that records its calls."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer

__all__ = ["Listener", "consumer_of", "consuming", "of", "until"]


class Listener(ConsumerRebalanceListener):
    """Records its calls in order, and runs the test's action for each."""

    def __init__(self, **actions: Callable[[set[TopicPartition]], Any]) -> None:
        self.calls: list[tuple[str, set[TopicPartition]]] = []
        self._actions = actions

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        return self._told("revoked", revoked)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> Any:
        return self._told("lost", lost)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        return self._told("assigned", assigned)

    def _told(self, what: str, partitions: set[TopicPartition]) -> Any:
        self.calls.append((what, partitions))
        return self._actions.get(what, lambda _: None)(partitions)

    def told(self, what: str) -> list[set[TopicPartition]]:
        return [partitions for call, partitions in self.calls if call == what and partitions]


def consumer_of(group: GroupOfMembers, **settings: Any) -> CooperativeAIOKafkaConsumer:
    return CooperativeAIOKafkaConsumer(
        **{
            "bootstrap_servers": group.kafka.bootstrap,
            "group_id": group.id,
            "session_timeout_ms": 30_000,  # Longer than a busy machine stalls.
            "enable_auto_commit": False,
            **settings,
        }
    )


@contextlib.asynccontextmanager
async def consuming(
    group: GroupOfMembers, listener: Listener | None = None, **settings: Any
) -> AsyncIterator[CooperativeAIOKafkaConsumer]:
    defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200}
    consumer = consumer_of(group, **{**defaults, **settings})
    consumer.subscribe(list(group.topics), listener=listener)
    try:
        await asyncio.wait_for(consumer.start(), HANG_S)
        yield consumer
    finally:
        await consumer.stop()


async def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def of(group: GroupOfMembers, *numbers: int) -> set[TopicPartition]:
    return {TopicPartition(group.topic("orders"), number) for number in numbers}
