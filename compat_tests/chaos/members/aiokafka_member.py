"""A member program: CooperativeAIOKafkaConsumer, polling and committing concurrently."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Collection, Sequence
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError

from compat_tests.aiokafka.member import settings_of
from compat_tests.chaos.members import application
from compat_tests.support.member_reports import MemberSpec, Reporter, by_topic
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer

_STOP_TIMEOUT_S = 5.0
_START_AGAIN_S = 1.0


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """The application around one consumer, and its listener."""

    max_records = 100
    rest_between_polls_s = 0.0
    """Records fetched during the rest are in the buffer when the process is frozen."""

    def __init__(self, spec: MemberSpec) -> None:
        self._spec = spec
        self._reporter = Reporter()
        self._application = application.Application(self._reporter, spec.name)
        self._consumer = self._made()
        loop = asyncio.get_running_loop()
        self._orders = application.ChaosOrders(
            lambda stand_still: loop.call_soon_threadsafe(self._freeze, stand_still)
        )
        if spec.warm_s is not None:
            self.on_partitions_warming = self._warm
        self._stopping = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)

    def _made(self) -> CooperativeAIOKafkaConsumer:
        return CooperativeAIOKafkaConsumer(
            **settings_of(self._spec), request_timeout_ms=application.REQUEST_TIMEOUT_MS
        )

    async def run(self) -> None:
        try:
            await self._start()
            committing = asyncio.create_task(self._commit_now_and_then())
            polling = asyncio.create_task(self._poll())
            stopping = asyncio.create_task(self._stopping.wait())
            await asyncio.wait([stopping, committing, polling], return_when=asyncio.FIRST_COMPLETED)
            if self._spec.warm_s is not None and not (committing.done() or polling.done()):
                await self._consumer.drain(timeout_ms=_STOP_TIMEOUT_S * 1000)
            for task in (committing, polling):
                if task.done():
                    task.result()
                task.cancel()
            await asyncio.wait([committing, polling])
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._commit(), _STOP_TIMEOUT_S)
        except Exception as error:
            self._reporter.failed(error)
            raise
        finally:
            self._reporter.stopped()
            await self._consumer.stop()
            self._reporter.report("closed")

    async def _start(self) -> None:
        # aiokafka gives up when each broker has failed once.
        while True:
            self._consumer.subscribe(self._spec.topics, listener=self)
            try:
                return await self._consumer.start()
            except KafkaConnectionError as error:
                self._reporter.failed(error, "raised")
                await self._consumer.stop()
                if self._stopping.is_set():
                    raise
                await asyncio.sleep(_START_AGAIN_S)
                self._consumer = self._made()

    async def _poll(self) -> None:
        while True:
            if (topics := self._orders.new_topics()) is not None:
                self._consumer.subscribe(topics, listener=self)
            if self._orders.busy:
                await asyncio.sleep(0.05)
                continue
            try:
                batch = await self._consumer.getmany(timeout_ms=100, max_records=self.max_records)
            except KafkaError as error:
                self._reporter.failed(error, "raised")
                await asyncio.sleep(0.1)
                continue
            await self._process(batch)
            await asyncio.sleep(self.rest_between_polls_s)

    async def _process(self, batch: dict[TopicPartition, Sequence[Any]]) -> None:
        for tp, records in batch.items():
            self._application.process(tp.topic, tp.partition, [record.offset for record in records])

    def _freeze(self, stand_still: Callable[[], object]) -> None:
        # This runs between two steps of the loop: `getmany` does not yield after it has checked the lease.
        stand_still()

    async def _commit_now_and_then(self) -> None:
        committing: set[asyncio.Task[None]] = set()
        try:
            while True:
                await asyncio.sleep(application.COMMIT_EVERY_S)
                if len(committing) < application.MOST_COMMITS:
                    committing.add(task := asyncio.create_task(self._commit()))
                    task.add_done_callback(committing.discard)
        finally:
            for task in committing:
                task.cancel()

    async def _commit(self, partitions: Collection[application.Partition] | None = None) -> None:
        offsets = self._application.uncommitted(partitions)
        if not offsets:
            return
        signature = self._application.signature
        try:
            await self._consumer.commit(
                {TopicPartition(*tp): (offset, signature) for tp, offset in offsets.items()}
            )
        except KafkaError as error:
            self._application.commit_failed(offsets, error)
        else:
            self._application.committed(offsets)

    # ---- the listener

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._reporter.report("revoking", partitions=by_topic(revoked))
        await self._wait_as_ordered()
        await self._commit(revoked)
        self._application.forget(revoked)
        self._reporter.revoked(revoked)
        self._orders.raise_if_ordered()

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self._application.forget(lost)
        self._reporter.report("lost", partitions=by_topic(lost))
        await self._wait_as_ordered()
        self._orders.raise_if_ordered()

    async def _warm(self, partitions: set[TopicPartition]) -> None:
        self._reporter.report("warming", partitions=by_topic(partitions))
        await asyncio.sleep(self._spec.warm_s or 0.0)
        await self._wait_as_ordered()
        self._orders.raise_if_ordered()

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        coordinator = self._consumer._coordinator
        self._reporter.report("added", partitions=by_topic(assigned))
        self._application.assigned(coordinator.member_id, coordinator.generation, self._consumer.assignment())
        await self._wait_as_ordered()
        self._orders.raise_if_ordered()

    async def _wait_as_ordered(self) -> None:
        for seconds in self._orders.delays_s():
            await asyncio.sleep(seconds)


def main(member: type[Member]) -> None:
    async def run() -> None:
        await member(MemberSpec.from_arguments()).run()

    asyncio.run(run())


if __name__ == "__main__":
    main(Member)
