"""The records of a group: those that the driver writes, and the copies that members make in transactions."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat_tests.chaos.ledger import Partition

WRITE_EVERY_S = 0.1


class Writer:
    """Writes a record to every partition all the time, and counts the confirmed ones."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int], *, every_s: float = WRITE_EVERY_S) -> None:
        self._bootstrap = bootstrap
        self._every_s = every_s
        self._topics = dict(topics)
        self._ends: dict[Partition, int] = {}
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def grow(self, topic: str, partitions: int) -> None:
        self._topics[topic] = partitions

    def confirmed(self) -> dict[Partition, int]:
        return dict(self._ends)

    def _confirm(self, error: Any, message: Any) -> None:
        if error is None:
            partition = (message.topic(), message.partition())
            self._ends[partition] = max(self._ends.get(partition, 0), message.offset() + 1)

    def _write(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "topic.metadata.refresh.interval.ms": 1000,
                "message.timeout.ms": 120_000,
                "log_level": 0,
            }
        )
        while not self.stopping.wait(self._every_s):
            for topic, partitions in list(self._topics.items()):
                for partition in range(partitions):
                    # The client may not know a new partition yet.
                    with contextlib.suppress(KafkaException, BufferError):
                        producer.produce(topic, b"a record", partition=partition, on_delivery=self._confirm)
            producer.poll(0)
        producer.flush(120)


COPIES_PARTITIONS = 3
_SILENCE_S = 30.0
"""Longer than a transaction stays open."""


def read_copies(
    bootstrap: str, topic: str, written: Mapping[Partition, int]
) -> Mapping[Partition, collections.Counter[int]]:
    """How often each offset of a partition was copied; reads until all are there, or no more come."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": f"reader-of-{topic}",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    found: dict[Partition, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    last_at = time.monotonic()
    with contextlib.closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(COPIES_PARTITIONS)])
        while True:
            messages = consumer.consume(1000, timeout=1.0)
            last_at = time.monotonic() if messages else last_at
            for message in messages:
                if message.error() is None and (value := message.value()) is not None:
                    copied, partition, offset = value.decode().split("/")
                    found[copied, int(partition)][int(offset)] += 1
            is_complete = all(len(found[tp]) >= count for tp, count in written.items())
            # An excess copy may still come, so reading goes on until no message comes.
            if not messages and (is_complete or time.monotonic() > last_at + _SILENCE_S):
                return found
