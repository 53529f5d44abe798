"""Writes a record to every partition all the time, and counts the records that brokers have confirmed."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from compat_tests.chaos.ledger import Partition

__all__ = ["WRITE_EVERY_S", "Writer"]

WRITE_EVERY_S = 0.1


class Writer:
    """Writes a record to every partition all the time, and counts the confirmed ones."""

    def __init__(self, bootstrap: str, topics: Mapping[str, int], *, every_s: float = WRITE_EVERY_S) -> None:
        self._bootstrap = bootstrap
        self._every_s = every_s
        self._topics = dict(topics)
        self._ends: dict[Partition, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.failed: list[str] = []

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def is_writing(self) -> bool:
        return not self._stopping.is_set()

    def grow(self, topic: str, partitions: int) -> None:
        self._topics[topic] = partitions

    def confirmed(self) -> dict[Partition, int]:
        return dict(self._ends)

    def _confirm(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
            return
        partition = (message.topic(), message.partition())
        self._ends[partition] = max(self._ends.get(partition, 0), message.offset() + 1)

    def _write(self) -> None:
        from confluent_kafka import KafkaException, Producer

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
        while not self._stopping.wait(self._every_s):
            for topic, partitions in list(self._topics.items()):
                for partition in range(partitions):
                    # The client may not know a new partition yet.
                    with contextlib.suppress(KafkaException, BufferError):
                        producer.produce(topic, b"a record", partition=partition, on_delivery=self._confirm)
            producer.poll(0)
        producer.flush(120)
