"""A member: aiokafka's own consumer with `range` or `sticky`, or our CooperativeAIOKafkaConsumer.

If there is something to restore, ours restores it before it gets a partition, and drains before it leaves.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from benchmarks.pause.journal import JournalWriter, Kind
from benchmarks.pause.members.spec import FETCH_BYTES, MemberSpec, listener, stand_by
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, CooperativeStickyAssignor

DRAIN_MS = 120_000

PROTOCOLS: dict[str, Callable[[], tuple[type[Any], Any]]] = {
    "range": lambda: (AIOKafkaConsumer, RangePartitionAssignor),
    "sticky": lambda: (AIOKafkaConsumer, StickyPartitionAssignor),
    "ours": lambda: (CooperativeAIOKafkaConsumer, CooperativeStickyAssignor()),
}


def settings_of(spec: MemberSpec) -> dict[str, Any]:
    """The arguments of a consumer, except for its assignor and the size of a fetch."""
    return {
        "bootstrap_servers": spec.bootstrap,
        "group_id": spec.group,
        "client_id": spec.name,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": spec.session_timeout_ms,
        "heartbeat_interval_ms": spec.heartbeat_interval_ms,
        "max_poll_interval_ms": spec.max_poll_interval_ms,
        "rebalance_timeout_ms": spec.max_poll_interval_ms,
        "auto_commit_interval_ms": spec.commit_interval_ms,
        "fetch_max_wait_ms": spec.fetch_wait_ms,
    }


def warm_listener(journal: JournalWriter, spec: MemberSpec) -> Any:
    """A listener that restores partitions before the member gets them."""

    class Listener(type(listener(ConsumerRebalanceListener, journal, spec))):  # type: ignore[misc]
        async def on_partitions_warming(self, partitions: set[TopicPartition]) -> None:
            await asyncio.sleep(spec.restoring_s(len(partitions)))
            self.warm |= partitions

        async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
            journal.add(Kind.ASSIGNED, [tp.partition for tp in assigned])
            await asyncio.sleep(spec.restoring_s(len(assigned - self.warm)))

    return Listener()


async def consume(spec: MemberSpec, journal: JournalWriter) -> None:
    consumer_class, assignor = PROTOCOLS[spec.protocol]()
    warms = spec.protocol == "ours" and spec.restore_s > 0
    consumer = consumer_class(
        partition_assignment_strategy=[assignor],
        fetch_min_bytes=FETCH_BYTES,
        **settings_of(spec),
        **({"max_warming": spec.at_once} if warms else {}),
    )
    plain = listener(ConsumerRebalanceListener, journal, spec)
    consumer.subscribe([spec.topic], listener=warm_listener(journal, spec) if warms else plain)
    draining: asyncio.Task[bool] | None = None
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    try:
        await consumer.start()
        while not stopping.is_set() or (draining is not None and not draining.done()):
            for records in (await consumer.getmany(timeout_ms=spec.poll_ms)).values():
                for record in records:
                    journal.delivered(record.partition, record.offset, record.value)
            if stopping.is_set() and warms and draining is None:
                draining = asyncio.create_task(consumer.drain(timeout_ms=DRAIN_MS))
    finally:
        await consumer.stop()
        journal.add(Kind.LEFT)


if __name__ == "__main__":
    asyncio.run(consume(*stand_by()))
