"""CooperativeAIOKafkaConsumers in the test's process, also with calls that wait for their results."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError

import kafka_assignors_aiokafka
from compat_tests.scenarios.in_process import InProcess, RecordingListener
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer
from kafka_assignors_strategies import for_aiokafka

PROGRAM = "compat_tests.aiokafka.cooperative_member"


class Listener(RecordingListener, ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Its actions may be coroutine functions."""


def consumer_of(group: GroupOfMembers, **settings: Any) -> CooperativeAIOKafkaConsumer:
    return CooperativeAIOKafkaConsumer(
        **{
            "bootstrap_servers": group.kafka.bootstrap,
            "group_id": group.id,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
            "session_timeout_ms": 30_000,  # Longer than a busy machine stalls.
            "enable_auto_commit": False,
            **settings,
        }
    )


@contextlib.asynccontextmanager
async def consuming(
    group: GroupOfMembers, listener: Listener | None = None, **settings: Any
) -> AsyncIterator[CooperativeAIOKafkaConsumer]:
    consumer = consumer_of(group, **settings)
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


@functools.cache
def event_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def waited_for(call: Callable[[], Any]) -> Any:
    """The result of a call that is made in the event loop."""

    async def run() -> Any:
        result = call()
        return await result if inspect.isawaitable(result) else result

    return asyncio.run_coroutine_threadsafe(run(), event_loop()).result(HANG_S)


class WaitingListener(Listener):
    """Its actions run in a thread of their own, so that they may wait for calls of the consumer."""

    async def _told(self, what: str, partitions: set[TopicPartition]) -> None:
        await asyncio.to_thread(super()._told, what, partitions)


class Waiting:
    def __init__(self, consumer: Any) -> None:
        self.consumer = consumer

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.consumer, name)
        return lambda *arguments, **options: waited_for(lambda: method(*arguments, **options))

    @property
    def _coordinator(self) -> Any:
        return self.consumer._coordinator

    def poll(self, timeout_ms: int) -> Any:
        return self.getmany(timeout_ms=timeout_ms)

    def close(self) -> None:
        self.stop()


class AIOKafkaInProcess(InProcess):
    program = PROGRAM
    plugin = kafka_assignors_aiokafka
    sources = for_aiokafka
    topic_partition = TopicPartition
    listener_class = WaitingListener
    kafka_error = KafkaError
    stock_assignors = (RangePartitionAssignor, StickyPartitionAssignor)

    consumer_class = CooperativeAIOKafkaConsumer
    of_client = frozenset(inspect.signature(AIOKafkaConsumer).parameters) - {"topics"}
    # aiokafka 0.13 lacks `api_version`, and `client_rack` is new in 0.14.
    of_some_releases = frozenset({"api_version", "client_rack"})

    def construct(self, **settings: Any) -> None:
        waited_for(lambda: CooperativeAIOKafkaConsumer("orders", **settings))

    @contextlib.contextmanager
    def consuming(self, group: GroupOfMembers, listener: Any = None, **settings: Any) -> Iterator[Any]:
        consumer = Waiting(waited_for(lambda: consumer_of(group, **settings)))
        if listener is not None:
            listener.consumer = consumer
        consumer.subscribe(list(group.topics), listener=listener)
        try:
            consumer.start()
            yield consumer
        finally:
            consumer.close()
