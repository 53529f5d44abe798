"""A lag on a real broker, and a server that accepts connections but never answers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S, wait_for


def lag(group: GroupOfMembers, records: Mapping[int, int]) -> str:
    """Commit 0 for every partition of the group's topic, and write `records` to some; returns the topic."""
    ((topic, partitions),) = group.topics.items()
    write(group, records)
    settings = {"bootstrap.servers": group.kafka.bootstrap, "group.id": group.id}
    with contextlib.closing(Consumer(settings)) as consumer:
        offsets = [TopicPartition(topic, partition, 0) for partition in range(partitions)]
        wait_for("the coordinator", lambda: _is_committed(consumer, offsets))
    return topic


def write(group: GroupOfMembers, records: Mapping[int, int]) -> None:
    """Write `records` more to some partitions of the group's topic."""
    (topic,) = group.topics
    producer = Producer({"bootstrap.servers": group.kafka.bootstrap, "linger.ms": 50})
    for partition, count in records.items():
        for _ in range(count):
            producer.produce(topic, b"x", partition=partition)
    assert producer.flush(HANG_S) == 0


def _is_committed(consumer: Consumer, offsets: list[TopicPartition]) -> bool:
    """Commit; false while the coordinator is not ready, as the group may be the broker's first."""
    try:
        consumer.commit(offsets=offsets, asynchronous=False)
    except KafkaException as refused:
        if not refused.args[0].retriable():
            raise
        return False
    return True


@contextlib.contextmanager
def silent_server() -> Iterator[str]:
    """The address of a server that accepts connections but never answers, like a stalled broker."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"
