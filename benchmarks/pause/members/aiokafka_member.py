"""A member: aiokafka's own consumer with `range` or `sticky`, or our CooperativeAIOKafkaConsumer."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from benchmarks.pause.journal import JournalWriter, Kind
from benchmarks.pause.members.spec import FETCH_BYTES, MemberSpec, stand_by
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, CooperativeStickyAssignor

PROTOCOLS: dict[str, Callable[[], tuple[type[Any], Any]]] = {
    "range": lambda: (AIOKafkaConsumer, RangePartitionAssignor),
    "sticky": lambda: (AIOKafkaConsumer, StickyPartitionAssignor),
    "ours": lambda: (CooperativeAIOKafkaConsumer, CooperativeStickyAssignor()),
}


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, journal: JournalWriter) -> None:
        self._journal = journal

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._journal.add(Kind.REVOKED, [tp.partition for tp in revoked])

    def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._journal.add(Kind.REVOKED, [tp.partition for tp in lost])

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._journal.add(Kind.ASSIGNED, [tp.partition for tp in assigned])


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


async def consume(spec: MemberSpec, journal: JournalWriter) -> None:
    consumer_class, assignor = PROTOCOLS[spec.protocol]()
    consumer = consumer_class(
        partition_assignment_strategy=[assignor], fetch_min_bytes=FETCH_BYTES, **settings_of(spec)
    )
    consumer.subscribe([spec.topic], listener=Listener(journal))
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    try:
        await consumer.start()
        while not stopping.is_set():
            for records in (await consumer.getmany(timeout_ms=spec.poll_ms)).values():
                for record in records:
                    journal.delivered(record.partition, record.offset, record.value)
    finally:
        await consumer.stop()
        journal.add(Kind.LEFT)


if __name__ == "__main__":
    asyncio.run(consume(*stand_by()))
