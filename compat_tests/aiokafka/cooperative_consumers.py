"""CooperativeAIOKafkaConsumers in the test's process, and a listener that records its calls."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition

from compat_tests.scenarios.in_process import RecordingListener
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer

PROGRAM = "compat_tests.aiokafka.cooperative_member"

__all__ = ["Listener", "consumer_of", "consuming", "of", "until", "with_group"]


class Listener(RecordingListener, ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Its actions may be coroutine functions."""


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


def with_group(records: int = 0, **topics: int) -> Callable[[Any], Any]:
    """The test runs in an event loop with a group; each partition of these topics has so many records."""

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        def run(kafka: Kafka, **arguments: Any) -> None:
            with GroupOfMembers(kafka, PROGRAM, topics) as group:
                if records:
                    group.produce(records)
                asyncio.run(test(group=group, **arguments))

        parameters = inspect.signature(test).parameters
        own = inspect.Parameter("kafka", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        others = [each for name, each in parameters.items() if name != "group"]
        run.__signature__ = inspect.Signature([own, *others])  # type: ignore[attr-defined]
        return run

    return decorate


async def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


def of(group: GroupOfMembers, *numbers: int) -> set[TopicPartition]:
    return {TopicPartition(group.topic("orders"), number) for number in numbers}
