"""A member: confluent-kafka, with `cooperative` (cooperative-sticky) or `kip848` (the broker assigns)."""

from __future__ import annotations

import time
from typing import Any

from confluent_kafka import Consumer

from benchmarks.pause.journal import JournalWriter, Kind
from benchmarks.pause.members.spec import FETCH_BYTES, MemberSpec, stand_by
from compat_tests.support.member_reports import sigterms


def protocol_of(spec: MemberSpec) -> dict[str, object]:
    """The settings of the protocol. Under KIP-848, session and heartbeats are settings of the broker."""
    if spec.protocol == "kip848":
        return {"group.protocol": "consumer"}
    return {
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": spec.session_timeout_ms,
        "heartbeat.interval.ms": spec.heartbeat_interval_ms,
    }


def consume(spec: MemberSpec, journal: JournalWriter) -> None:
    stopping = sigterms()
    consumer = Consumer(
        {
            "bootstrap.servers": spec.bootstrap,
            "group.id": spec.group,
            "client.id": spec.name,
            "auto.offset.reset": "earliest",
            "max.poll.interval.ms": spec.max_poll_interval_ms,
            "auto.commit.interval.ms": spec.commit_interval_ms,
            "fetch.wait.max.ms": spec.fetch_wait_ms,
            "fetch.min.bytes": FETCH_BYTES,
            **protocol_of(spec),
        }
    )

    # The client itself adds and removes the partitions after these callbacks return.
    def assigned(_: Consumer, partitions: list[Any]) -> None:
        journal.add(Kind.ASSIGNED, [tp.partition for tp in partitions])
        time.sleep(spec.restoring_s(len(partitions)))

    def revoked(_: Consumer, partitions: list[Any]) -> None:
        journal.add(Kind.REVOKED, [tp.partition for tp in partitions])

    consumer.subscribe([spec.topic], on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    try:
        while not stopping:
            # consume() would wait for several records; poll() returns the first available one.
            message: Any = consumer.poll(spec.poll_ms / 1000)
            if message is not None and message.error() is None:
                journal.delivered(message.partition(), message.offset(), message.value())
    finally:
        consumer.close()
        journal.add(Kind.LEFT)


if __name__ == "__main__":
    consume(*stand_by())
