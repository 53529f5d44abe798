"""A member program (see `compat_tests.support.member_reports`): librdkafka, eager or cooperative.

The member reports a partition as assigned before it takes it, and as revoked after it has given it up.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer

from compat_tests.support.librdkafka import leave
from compat_tests.support.member_reports import MemberSpec, Orders, Reporter, sigterms

UNKNOWN_GENERATION = -1


def consume(
    spec: MemberSpec, reporter: Reporter, protocol: Mapping[str, object], *, cooperative: bool
) -> None:
    """Be a member until SIGTERM; `protocol` holds the settings of the group protocol and the assignor."""
    stopping = sigterms()
    settings: dict[str, Any] = {
        "bootstrap.servers": spec.bootstrap,
        "group.id": spec.group,
        "client.id": spec.name,
        "auto.offset.reset": "earliest",
        "client.rack": spec.rack or "",
        "topic.metadata.refresh.interval.ms": spec.metadata_max_age_ms,
        **protocol,
    }
    if spec.instance_id is not None:
        settings["group.instance.id"] = spec.instance_id
    if spec.max_poll_interval_ms is not None:
        settings["max.poll.interval.ms"] = spec.max_poll_interval_ms
    consumer = Consumer(settings)
    owned: set[tuple[str, int]] = set()

    def assigned(_: Consumer, partitions: list[Any]) -> None:
        owned.update((tp.topic, tp.partition) for tp in partitions)
        reporter.assigned(consumer.memberid(), UNKNOWN_GENERATION, owned)
        if cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)

    def revoked(_: Consumer, partitions: list[Any]) -> None:
        time.sleep(spec.revoke_s)
        if cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        gone = {(tp.topic, tp.partition) for tp in partitions}
        owned.difference_update(gone)
        reporter.revoked(gone)
        if cooperative:
            reporter.assigned(consumer.memberid(), UNKNOWN_GENERATION, owned)

    consumer.subscribe(list(spec.topics), on_assign=assigned, on_revoke=revoked)
    orders = Orders()
    try:
        while not stopping:
            if (topics := orders.new_topics()) is not None:
                consumer.subscribe(topics, on_assign=assigned, on_revoke=revoked)
            if orders.busy:
                time.sleep(0.05)
                continue
            for message in consumer.consume(100, timeout=0.1):
                if (error := message.error()) is not None:
                    reporter.report("refused", error=error.str())
                    continue
                # A message without an error has a topic, a partition and an offset.
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                assert topic is not None
                assert partition is not None
                assert offset is not None
                reporter.consumed(topic, partition, [offset])
    finally:
        reporter.stopped()
        leave(consumer)


if __name__ == "__main__":
    spec = MemberSpec.from_arguments()
    classic = {
        "partition.assignment.strategy": ",".join(spec.assignors),
        "session.timeout.ms": spec.session_timeout_ms,
        "heartbeat.interval.ms": spec.heartbeat_interval_ms,
    }
    consume(spec, Reporter(), classic, cooperative="cooperative-sticky" in spec.assignors)
