"""A lag on a real broker, and a server that accepts connections but never answers."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S

__all__ = ["lag", "silent_server", "write"]


def lag(group: GroupOfMembers, records: Mapping[int, int]) -> str:
    """Commit 0 for every partition of the group's topic, and write `records` to some; returns the topic."""
    ((topic, partitions),) = group.topics.items()
    write(group, records)
    settings = {"bootstrap.servers": group.kafka.bootstrap, "group.id": group.id}
    with contextlib.closing(Consumer(settings)) as consumer:
        offsets = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
        _commit(consumer, offsets)
    return topic


def write(group: GroupOfMembers, records: Mapping[int, int]) -> None:
    """Write `records` more to some partitions of the group's topic."""
    (topic,) = group.topics
    producer = Producer({"bootstrap.servers": group.kafka.bootstrap, "linger.ms": 50})
    for partition, count in records.items():
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(HANG_S) == 0


def _commit(consumer: Consumer, offsets: list[TopicPartition]) -> None:
    """Commit and retry until the coordinator is ready; the group may be the broker's first."""
    deadline = time.monotonic() + HANG_S
    while True:
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
            return
        except KafkaException as refused:
            if not refused.args[0].retriable() or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """The address of a server that accepts connections but never answers, like a stalled broker."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"
