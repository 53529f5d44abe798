"""Consume, transform, produce: groups that commit their offsets in the transactions of their output."""

from __future__ import annotations

import collections
import time

import pytest

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka

pytestmark = pytest.mark.exhaustive

PROGRAM = "compat_tests.aiokafka.copying_member"


def copies(group: GroupOfMembers, expected: int) -> collections.Counter[str]:
    """The committed records in the topic of copies, once `expected` different ones are there."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": group.kafka.bootstrap,
            "group.id": f"reader-of-{group.id}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    found: collections.Counter[str] = collections.Counter()
    deadline = time.monotonic() + HANG_S
    try:
        consumer.subscribe([f"copies-of-{group.topic('orders')}"])
        while len(found) < expected:
            assert time.monotonic() < deadline, f"{len(found)} of {expected} copies"
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None, message.error()
                value = message.value()
                assert value is not None
                found[value.decode()] += 1
    finally:
        consumer.close()
    return found


def test_a_group_that_commits_in_its_transactions_copies_every_record_while_members_come_and_go(
    kafka: Kafka,
) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        topic = group.topic("orders")
        kafka.create_topic(f"copies-of-{topic}", 1)
        group.start("a", ["sticky"])
        settled = group.settle()
        for name in ("b", "c"):
            group.produce(50)
            group.start(name, ["sticky"])
            settled = group.settle(after=settled)
        group.produce(50)
        group.stop("a")
        group.settle(after=settled)
        wanted = {f"{topic}/{partition}/{offset}" for partition in range(6) for offset in range(150)}
        assert copies(group, len(wanted)).keys() == wanted
