"""CooperativeKafkaConsumers in the test's process, and a listener that records its calls."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor as StockCooperativeStickyAssignor,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

import kafka_assignors_kafka_python
from compat_tests.scenarios.in_process import InProcess, RecordingListener
from compat_tests.support.group_of_members import GroupOfMembers
from kafka_assignors_kafka_python import CooperativeKafkaConsumer
from kafka_assignors_strategies import for_kafka_python

PROGRAM = "compat_tests.kafka_python.cooperative_member"


class Listener(RecordingListener, ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    pass


def committed(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    """The offsets in the client's form."""
    return {tp: OffsetAndMetadata(at, "", -1) for tp, at in offsets.items()}


@contextlib.contextmanager
def consuming(group: GroupOfMembers, listener: Any = None, **settings: Any) -> Iterator[Any]:
    consumer = CooperativeKafkaConsumer(
        **{
            "bootstrap_servers": group.kafka.bootstrap,
            "group_id": group.id,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 200,
            "enable_auto_commit": False,
            **settings,
        }
    )
    if isinstance(listener, Listener):
        listener.consumer = consumer
    try:
        consumer.subscribe(list(group.topics), listener=listener)
        yield consumer
    finally:
        consumer.close()


def of(group: GroupOfMembers, *numbers: int) -> set[TopicPartition]:
    return {TopicPartition(group.topic("orders"), number) for number in numbers}


class KafkaPythonInProcess(InProcess):
    program = PROGRAM
    plugin = kafka_assignors_kafka_python
    sources = for_kafka_python
    topic_partition = TopicPartition
    listener_class = Listener
    kafka_error = KafkaError
    stock_assignors = (
        RangePartitionAssignor,
        StockCooperativeStickyAssignor,
        StockCooperativeStickyAssignor(),
    )

    consumer_class = CooperativeKafkaConsumer
    of_client = frozenset(KafkaConsumer.DEFAULT_CONFIG)

    def construct(self, **settings: Any) -> None:
        CooperativeKafkaConsumer("orders", **settings)

    def consuming(self, group: GroupOfMembers, listener: Any = None, **settings: Any) -> Any:
        return consuming(group, listener, **settings)
