"""A member: kafka-python's own consumer with `sticky` or `cooperative`, or our CooperativeKafkaConsumer."""

from __future__ import annotations

from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer

from benchmarks.pause.journal import JournalWriter, Kind
from benchmarks.pause.members.spec import FETCH_BYTES, MemberSpec, listener, stand_by
from compat_tests.support.member_reports import sigterms


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


def consume(spec: MemberSpec, journal: JournalWriter) -> None:
    stopping = sigterms()
    consumer_class, assignor = consumer_of(spec.protocol)
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
    )
    try:
        consumer.subscribe([spec.topic], listener=listener(ConsumerRebalanceListener, journal))
        while not stopping:
            for records in consumer.poll(timeout_ms=spec.poll_ms).values():
                for record in records:
                    journal.delivered(record.partition, record.offset, record.value)
    finally:
        consumer.close()
        journal.add(Kind.LEFT)


if __name__ == "__main__":
    # The modules that `consumer_of` imports must also be loaded before the order to join comes.
    consumer_of(MemberSpec.from_arguments().protocol)
    consume(*stand_by())
