"""A member: kafka-python's own consumer with `sticky` or `cooperative`, or our CooperativeKafkaConsumer.

If there is something to restore, ours restores it before it gets a partition, and drains before it leaves.
"""

from __future__ import annotations

import threading
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

from benchmarks.pause.journal import JournalWriter, Kind
from benchmarks.pause.members.spec import FETCH_BYTES, MemberSpec, listener, stand_by
from compat_tests.support.member_reports import sigterms

DRAIN_MS = 120_000


def consumer_of(protocol: str) -> tuple[type[Any], Any]:
    """The class of the consumer, and its assignor. Some versions of kafka-python lack some of them."""
    match protocol:
        case "sticky":
            from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

            return KafkaConsumer, StickyPartitionAssignor
        case "cooperative":
            from kafka.coordinator.assignors.cooperative_sticky import (
                CooperativeStickyAssignor as StockCooperativeSticky,
            )

            return KafkaConsumer, StockCooperativeSticky
        case "ours":
            from kafka_assignors_kafka_python import CooperativeKafkaConsumer, CooperativeStickyAssignor

            return CooperativeKafkaConsumer, CooperativeStickyAssignor()
    raise ValueError(f"no protocol {protocol!r}")


def warm_listener(journal: JournalWriter, spec: MemberSpec) -> Any:
    """A listener that restores partitions before the member gets them."""

    class Listener(type(listener(ConsumerRebalanceListener, journal, spec))):  # type: ignore[misc]
        def on_partitions_warming(self, partitions: set[TopicPartition], cancelled: threading.Event) -> None:
            cancelled.wait(spec.restoring_s(len(partitions)))
            self.warm |= partitions

    return Listener()


def consume(spec: MemberSpec, journal: JournalWriter) -> None:
    stopping = sigterms()
    consumer_class, assignor = consumer_of(spec.protocol)
    warms = spec.protocol == "ours" and spec.restore_s > 0
    consumer = consumer_class(
        bootstrap_servers=spec.bootstrap,
        group_id=spec.group,
        client_id=spec.name,
        partition_assignment_strategy=[assignor],
        auto_offset_reset="earliest",
        session_timeout_ms=spec.session_timeout_ms,
        heartbeat_interval_ms=spec.heartbeat_interval_ms,
        max_poll_interval_ms=spec.max_poll_interval_ms,
        auto_commit_interval_ms=spec.commit_interval_ms,
        fetch_max_wait_ms=spec.fetch_wait_ms,
        fetch_min_bytes=FETCH_BYTES,
        **({"max_warming": spec.at_once} if warms else {}),
    )
    draining: threading.Thread | None = None
    try:
        plain = listener(ConsumerRebalanceListener, journal, spec)
        consumer.subscribe([spec.topic], listener=warm_listener(journal, spec) if warms else plain)
        while not stopping or (draining is not None and draining.is_alive()):
            for records in consumer.poll(timeout_ms=spec.poll_ms).values():
                for record in records:
                    journal.delivered(record.partition, record.offset, record.value)
            if stopping and warms and draining is None:
                draining = threading.Thread(target=consumer.drain, kwargs={"timeout_ms": DRAIN_MS})
                draining.start()
    finally:
        consumer.close()
        journal.add(Kind.LEFT)


if __name__ == "__main__":
    # The modules that `consumer_of` imports must also be loaded before the order to join comes.
    consumer_of(MemberSpec.from_arguments().protocol)
    consume(*stand_by())
