"""Reads the generations of a group from the coordinator's own records: the same way for every client."""

from __future__ import annotations

import struct
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_replay.folds.consumer_offsets import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    GroupMetadataKey,
    decode_group_metadata,
    decode_key,
    group_partition,
)

__all__ = ["GenerationReader"]

_TOPIC = "__consumer_offsets"
_EPOCH = struct.Struct(">hi")
"""The beginning of a ConsumerGroupMetadataValue: its version, and the epoch of the group."""


class GenerationReader:
    """Reads the records of one group that are stored after the reader is created."""

    def __init__(self, kafka: Kafka, group: str) -> None:
        self._kafka = kafka
        self._group = group
        consumer = self._consumer()
        try:
            self._begin = self._end_offset(consumer, self._partition(consumer))
        finally:
            consumer.close()

    def generations(self) -> list[tuple[int, int]]:
        """(nanoseconds of CLOCK_MONOTONIC, number) of each generation or KIP-848 epoch, ordered by time."""
        clock_began_ns = time.time_ns() - time.monotonic_ns()
        consumer = self._consumer()
        found = []
        try:
            partition = self._partition(consumer)
            end = self._end_offset(consumer, partition)
            consumer.assign([TopicPartition(_TOPIC, partition, self._begin)])
            position = self._begin
            # The log may end with control records, which are not delivered; the timeout then ends the loop.
            while position < end and (messages := consumer.consume(1000, timeout=5)):
                for message in messages:
                    position = (message.offset() or 0) + 1
                    number = self._number(message.key(), message.value())
                    if number is not None:
                        found.append((message.timestamp()[1] * 1_000_000 - clock_began_ns, number))
        finally:
            consumer.close()
        return found

    def _number(self, key: bytes | None, value: bytes | None) -> int | None:
        if key is None or value is None:
            return None
        match decode_key(key):
            case GroupMetadataKey(self._group):
                return decode_group_metadata(value).generation
            case ConsumerGroupKey(ConsumerGroupRecord.METADATA, self._group):
                return int(_EPOCH.unpack_from(value)[1])
        return None

    def _partition(self, consumer: Consumer) -> int:
        """The partition of the group's records. Before a first group creates the topic, its log is empty."""
        found = consumer.list_topics(_TOPIC, timeout=10).topics[_TOPIC].partitions
        return group_partition(self._group, len(found)) if found else 0

    def _end_offset(self, consumer: Consumer, partition: int) -> int:
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(_TOPIC, partition), timeout=10)[1])
        except KafkaException:
            return 0

    def _consumer(self) -> Consumer:
        # librdkafka requires a group id; it is never used.
        return Consumer(
            {
                "bootstrap.servers": self._kafka.bootstrap,
                "group.id": "none",
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": 10,
            }
        )
