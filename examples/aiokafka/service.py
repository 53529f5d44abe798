"""A service for production: state per partition, health for Kubernetes, and an end that repeats no record.

    $ STATE_DIR=/tmp/billing python -m examples.aiokafka.service --topic orders --group billing
    $ curl -i localhost:8080/ready

It counts the records of each key. The counts of a partition and the offset that they cover are one file in
`STATE_DIR`, which all members share and which stands for your database. Both change in one step, so a record
that comes again is recognised by its offset.

../Dockerfile packs it, and ../kubernetes/service.yaml runs it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import CommitFailedError
from aiokafka.structs import ConsumerRecord

from examples.aiokafka.plain import LEAVE_S, run
from examples.command_line import parser, start_logging
from examples.health import STOP_S, Health
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, CooperativeStickyAssignor

log = logging.getLogger("examples.aiokafka")

FLUSH_INTERVAL_S = 5.0
MAX_BATCH = 100
"""The maximum number of records in a batch. A rebalance and the end wait for the current batch."""


@dataclass
class Counts:
    """The number of records of one partition by key.

    `next_offset` is the first offset that they do not include; `saved_offset` is that of the stored counts.
    """

    next_offset: int = 0
    by_key: Counter[str] = field(default_factory=Counter)
    saved_offset: int = 0


class Store:
    """Counts in files, one for each partition. Each write replaces the whole file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def load(self, partition: TopicPartition) -> Counts:
        try:
            stored = json.loads(self._file(partition).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Counts()
        return Counts(stored["next_offset"], Counter(stored["by_key"]), stored["next_offset"])

    def save(self, partition: TopicPartition, counts: Counts) -> bool:
        """Store `counts`. Return False, and store nothing, if another owner has stored counts since.

        A member whose session has ended may not know it yet. A database does this in one statement: `UPDATE
        counts SET … WHERE partition = … AND next_offset = <saved_offset>`.
        """
        if self.load(partition).next_offset != counts.saved_offset:
            return False
        file = self._file(partition)
        unfinished = file.with_suffix(f".{os.getpid()}")
        with unfinished.open("w", encoding="utf-8") as stream:
            json.dump({"next_offset": counts.next_offset, "by_key": counts.by_key}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        unfinished.replace(file)
        counts.saved_offset = counts.next_offset
        return True

    def _file(self, partition: TopicPartition) -> Path:
        return self._folder / f"{partition.topic}-{partition.partition}.json"


class Service(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Counts records; saves and commits at intervals, before it gives partitions up, and at the end."""

    def __init__(self, consumer: CooperativeAIOKafkaConsumer, store: Store, work_s: float) -> None:
        self._consumer = consumer
        self._store = store
        self._work_s = work_s
        self._at_work = asyncio.Lock()
        self._counts: dict[TopicPartition, Counts] = {}
        self._unsaved: set[TopicPartition] = set()
        self._next_flush = time.monotonic() + FLUSH_INTERVAL_S

    async def run(self, stopping: asyncio.Event, health: Health) -> None:
        """Consume until `stopping` is set, and finish the current batch."""
        while not stopping.is_set():
            health.beat()
            batches = await self._consumer.getmany(timeout_ms=500, max_records=MAX_BATCH)
            # Await nothing in between: a rebalance waits for a batch only if the batch holds the lock.
            async with self._at_work:
                for partition, records in batches.items():
                    await self._count(partition, records)
                if time.monotonic() >= self._next_flush:
                    await self._flush(self._counts)
        async with self._at_work:
            await self._flush(self._counts)

    async def _count(self, partition: TopicPartition, records: list[ConsumerRecord[bytes, bytes]]) -> None:
        counts = self._counts.get(partition)
        if counts is None:
            counts = self._counts[partition] = self._store.load(partition)
        new = [record for record in records if record.offset >= counts.next_offset]
        for record in new:
            await asyncio.sleep(self._work_s)
            counts.by_key[(record.key or b"").decode("utf-8", "replace")] += 1
        if new:
            counts.next_offset = new[-1].offset + 1
            self._unsaved.add(partition)
            log.debug("%s-%d: processed offsets %d to %d", *partition, new[0].offset, new[-1].offset)

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        everything = sorted(self._consumer.assignment())
        log.info("assigned: %s", ", ".join(f"{topic}-{number}" for topic, number in everything))

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        # With a cooperative consumer, these are the partitions that move; at the end, all that are left.
        async with self._at_work:
            await self._flush(revoked)
            self._forget(revoked)

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        # Other owners have the partitions, and continue from the stored counts.
        async with self._at_work:
            self._forget(lost)

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._counts.pop(partition, None)
            self._unsaved.discard(partition)

    async def _flush(self, partitions: Iterable[TopicPartition]) -> None:
        """Save the counts of these partitions, then commit: after a crash in between, records come again."""
        self._next_flush = time.monotonic() + FLUSH_INTERVAL_S
        offsets = {}
        for partition in self._unsaved.intersection(partitions):
            self._unsaved.discard(partition)
            if self._store.save(partition, self._counts[partition]):
                offsets[partition] = self._counts[partition].next_offset
            else:
                log.warning("%s-%d: another member has counted on", *partition)
                del self._counts[partition]
        if not offsets:
            return
        try:
            await self._consumer.commit(offsets)
        except CommitFailedError:
            log.warning("too late to commit %s", offsets)
        else:
            log.info("saved and committed %d partitions", len(offsets))


async def main() -> None:
    options = parser(__doc__).parse_args()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    consumer = CooperativeAIOKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        # Only for pods whose names stay when a pod is replaced (a StatefulSet); see
        # ../kubernetes/service.yaml.
        group_instance_id=os.environ.get("GROUP_INSTANCE_ID"),
        session_timeout_ms=int(os.environ.get("SESSION_TIMEOUT_MS", "30000")),
        heartbeat_interval_ms=3_000,
        rebalance_timeout_ms=60_000,
        partition_assignment_strategy=[CooperativeStickyAssignor()],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    store = Store(Path(os.environ.get("STATE_DIR", "state")))
    service = Service(consumer, store, float(os.environ.get("WORK_S", "0")))
    consumer.subscribe([options.topic], listener=service)
    port = int(os.environ.get("HEALTH_PORT", "8080"))
    with Health(port, lambda: loop.call_soon_threadsafe(stopping.set)) as health:

        async def work() -> None:
            health.ready = True
            try:
                await service.run(stopping, health)
            finally:
                health.ready = False

        await run(consumer, work(), stopping, STOP_S - LEAVE_S)
        log.info("stopped")


if __name__ == "__main__":
    start_logging()
    asyncio.run(main())
