"""A consumer of a group with `StickyAssignor`, as you would run it in production.

    $ python -m examples.aiokafka.plain --bootstrap-server localhost:9092 --topic orders --group billing

Start it several times to see the partitions shared; stop one with Ctrl-C or SIGTERM.

aiokafka rebalances in the background, while your code may be in the middle of a batch. So the batch in hand
is finished, and what was processed is committed, before the partitions go: that is all `Worker` is about.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Coroutine, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError
from aiokafka.structs import ConsumerRecord

from examples.command_line import parser, start_logging
from kafka_assignors_aiokafka import StickyAssignor

log = logging.getLogger("examples.aiokafka")

COMMIT_INTERVAL_S = 5.0
MAX_BATCH = 100
"""The maximum number of records in a batch. A rebalance waits for the current batch, which has to finish
within `rebalance_timeout_ms`."""

FINISH_S = 10.0
"""The time after the signal for the current batch and its commit."""

LEAVE_S = 5.0
"""The time for leaving the group. Both together are less than `terminationGracePeriodSeconds`."""


async def process(record: ConsumerRecord[bytes, bytes]) -> None:
    """Your work. A record may come twice (after a crash or a lost session), so make it idempotent."""


class Worker(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Processes records and commits their offsets: at intervals, before a rebalance, and at the end."""

    def __init__(self, consumer: AIOKafkaConsumer) -> None:
        self._consumer = consumer
        self._at_work = asyncio.Lock()
        self._processed: dict[TopicPartition, int] = {}
        self._next_commit = time.monotonic() + COMMIT_INTERVAL_S

    async def run(self, stopping: asyncio.Event) -> None:
        """Consume until `stopping` is set."""
        while not stopping.is_set():
            # Not under the lock: getmany waits for the rebalance, and the rebalance waits for the lock.
            batches = await self._consumer.getmany(timeout_ms=500, max_records=MAX_BATCH)
            # Await nothing here: a rebalance could begin before the batch holds the lock.
            async with self._at_work:
                for partition, records in batches.items():
                    for record in records:
                        await process(record)
                    self._processed[partition] = records[-1].offset + 1
                    log.debug(
                        "%s-%d: processed offsets %d to %d",
                        *partition,
                        records[0].offset,
                        records[-1].offset,
                    )
                if time.monotonic() >= self._next_commit:
                    await self._commit()
        async with self._at_work:
            await self._commit()  # stop() leaves the group without calling on_partitions_revoked

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        async with self._at_work:
            await self._commit()

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        everything = sorted(self._consumer.assignment())  # includes the kept ones of a cooperative consumer
        log.info("assigned: %s", ", ".join(f"{topic}-{number}" for topic, number in everything))

    async def _commit(self) -> None:
        # commit() without offsets also commits records that are not processed yet; a crash would lose them.
        offsets, self._processed = self._processed, {}
        self._next_commit = time.monotonic() + COMMIT_INTERVAL_S
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except CommitFailedError:
            # The session was lost, and the new owners of the partitions get these records again.
            log.warning("too late to commit %s", offsets)
        else:
            log.info("committed %d partitions", len(offsets))


async def consume(consumer: AIOKafkaConsumer, topic: str) -> None:
    """Consume `topic` until SIGTERM or SIGINT."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    worker = Worker(consumer)
    consumer.subscribe([topic], listener=worker)
    await run(consumer, worker.run(stopping), stopping)
    log.info("stopped")


async def run(
    consumer: AIOKafkaConsumer,
    work: Coroutine[Any, Any, None],
    stopping: asyncio.Event,
    finish_s: float = FINISH_S,
) -> None:
    """Start the consumer, run `work`, which ends when `stopping` is set, and stop the consumer.

    Without a broker, aiokafka repeats a commit without end, and `start` and `stop` take as long as their
    requests. So each has a limit.
    """

    async def start_and_work() -> None:
        await consumer.start()
        await work

    working = asyncio.create_task(start_and_work())
    signalled = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait([working, signalled], return_when=asyncio.FIRST_COMPLETED)
        await _end(working, finish_s)
    finally:
        signalled.cancel()
        work.close()  # If the consumer has not started, Python would warn.
        await _end(asyncio.create_task(consumer.stop()), LEAVE_S)


async def _end(task: asyncio.Task[None], limit_s: float) -> None:
    """Wait until `task` ends, and cancel it after `limit_s`. Raises its exception."""
    await asyncio.wait([task], timeout=limit_s)
    if not task.done():
        log.warning("not done after %g s", limit_s)
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():  # aiokafka's `stop` may end so by itself when its connection breaks.
        task.result()


async def main() -> None:
    options = parser(__doc__).parse_args()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        partition_assignment_strategy=[StickyAssignor()],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        # The default, session_timeout_ms, limits how long a rebalance waits for the slowest batch.
        rebalance_timeout_ms=60_000,
    )
    await consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    asyncio.run(main())
