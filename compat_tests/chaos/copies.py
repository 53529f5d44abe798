"""The copies that members made in transactions: the committed records of one topic."""

from __future__ import annotations

import collections
import time
from collections.abc import Mapping

from compat_tests.chaos.ledger import Partition
from compat_tests.support.kafka_admin import Kafka

__all__ = ["Copies"]

_PARTITIONS = 3
_SILENCE_S = 30.0
"""Longer than a transaction stays open."""


class Copies:
    """The topic of copies, and how often it contains each record."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._kafka = kafka
        self.topic = topic

    def create_topic(self) -> None:
        self._kafka.create_topic(self.topic, _PARTITIONS, replication_factor=3)

    def read(self, written: Mapping[Partition, int]) -> Mapping[Partition, collections.Counter[int]]:
        """How often each offset of a partition was copied; reads until all are there, or no more come."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self._kafka.bootstrap,
                "group.id": f"reader-of-{self.topic}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        found: dict[Partition, collections.Counter[int]] = collections.defaultdict(collections.Counter)
        last_at = time.monotonic()
        try:
            consumer.assign([TopicPartition(self.topic, number, 0) for number in range(_PARTITIONS)])
            while True:
                messages = consumer.consume(1000, timeout=1.0)
                last_at = time.monotonic() if messages else last_at
                for message in messages:
                    if message.error() is None and (value := message.value()) is not None:
                        topic, partition, offset = value.decode().split("/")
                        found[topic, int(partition)][int(offset)] += 1
                is_complete = all(len(found[tp]) >= count for tp, count in written.items())
                # An excess copy may still come, so reading goes on until no message comes.
                if not messages and (is_complete or time.monotonic() > last_at + _SILENCE_S):
                    return found
        finally:
            consumer.close()
