"""CooperativeAIOKafkaConsumers whose calls wait for their results: the event loop runs in another thread."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

from aiokafka import TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError

import kafka_assignors_aiokafka
from compat_tests.aiokafka.cooperative_consumers import Listener, consumer_of
from compat_tests.scenarios.in_process import InProcess
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_strategies import for_aiokafka

__all__ = ["AIOKafkaInProcess", "Waiting", "waited_for"]


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
    def coordinator(self) -> Any:
        return self.consumer._coordinator

    @property
    def member(self) -> Any:
        return self.coordinator._member

    def poll(self, timeout_ms: int) -> Any:
        return self.getmany(timeout_ms=timeout_ms)

    def close(self) -> None:
        self.stop()


class AIOKafkaInProcess(InProcess):
    program = "compat_tests.aiokafka.cooperative_member"
    plugin = kafka_assignors_aiokafka
    sources = for_aiokafka
    topic_partition = TopicPartition
    listener_class = WaitingListener
    commit_errors = (IllegalStateError, CommitFailedError)
    stock_assignors = (RangePartitionAssignor, StickyPartitionAssignor)

    def construct(self, **settings: Any) -> None:
        waited_for(lambda: kafka_assignors_aiokafka.CooperativeAIOKafkaConsumer("orders", **settings))

    @contextlib.contextmanager
    def consuming(self, group: GroupOfMembers, listener: Any = None, **settings: Any) -> Iterator[Any]:
        defaults: dict[str, Any] = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 200}
        consumer = Waiting(waited_for(lambda: consumer_of(group, **{**defaults, **settings})))
        if listener is not None:
            listener.consumer = consumer
        consumer.subscribe(list(group.topics), listener=listener)
        try:
            consumer.start()
            yield consumer
        finally:
            consumer.close()
