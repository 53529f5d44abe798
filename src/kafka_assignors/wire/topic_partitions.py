"""Topics with their partition numbers: the array that subscription, assignment and user data share."""

from __future__ import annotations

from collections.abc import Sequence

from kafka_assignors.group import TopicPartitions
from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.writer import Writer

__all__ = ["read_topic_partitions", "write_topic_partitions"]

_SMALLEST_ELEMENT_BYTES = 2 + 4  # an empty topic name and an empty array of partitions


def read_topic_partitions(reader: Reader, field: str) -> dict[str, Sequence[int]]:
    """Partition numbers by topic; those of a topic that appears more than once are joined, in order."""
    at_once = reader.int32s_by_name()
    if at_once is not None:
        return dict(at_once)
    partitions: dict[str, Sequence[int]] = {}
    joined: dict[str, list[int]] = {}
    for _ in reader.items(field, _SMALLEST_ELEMENT_BYTES):
        topic = reader.string("topic")
        numbers = reader.int32s("partitions")
        if topic not in partitions:
            partitions[topic] = numbers
        else:
            joined.setdefault(topic, list(partitions[topic])).extend(numbers)
    partitions.update((topic, tuple(numbers)) for topic, numbers in joined.items())
    return partitions


def write_topic_partitions(writer: Writer, field: str, partitions: TopicPartitions) -> None:
    """Topics in ascending order, so that equal values give equal bytes; partitions in their own order."""
    in_order = sorted(partitions)
    if writer.int32s_by_name(in_order, partitions):
        return
    for topic in writer.items(field, in_order):
        writer.string("topic", topic)
        writer.int32s("partitions", partitions[topic])
