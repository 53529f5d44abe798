"""CooperativeKafkaConsumers in the test's process, and a listener that records its calls."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor as StockCooperativeStickyAssignor,
)
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError
from kafka.structs import MemberState

import kafka_assignors_kafka_python
from compat_tests.scenarios.in_process import InProcess, polling_until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from kafka_assignors_kafka_python import CooperativeKafkaConsumer
from kafka_assignors_strategies import for_kafka_python

PROGRAM = "compat_tests.kafka_python.cooperative_member"


class Listener(ConsumerRebalanceListener):
    """Records its calls in order, and runs the test's action for each."""

    consumer: Any = None

    def __init__(self, **actions: Callable[[set[TopicPartition]], Any]) -> None:
        self.calls: list[tuple[str, set[TopicPartition]]] = []
        self._actions = actions

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._told("revoked", revoked)

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self._told("lost", lost)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._told("assigned", assigned)

    def _told(self, what: str, partitions: set[TopicPartition]) -> None:
        self.calls.append((what, partitions))
        self._actions.get(what, lambda _: None)(partitions)

    def told(self, what: str) -> list[set[TopicPartition]]:
        return [partitions for call, partitions in self.calls if call == what and partitions]


@contextlib.contextmanager
def consuming(
    group: GroupOfMembers,
    listener: Any = None,
    kind: type[CooperativeKafkaConsumer] = CooperativeKafkaConsumer,
    **settings: Any,
) -> Iterator[Any]:
    consumer = kind(
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


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def share(group: GroupOfMembers, *consumers: CooperativeKafkaConsumer) -> None:
    """Poll until each consumer has a fair share and its listener has been called."""
    fair = sum(group.topics.values()) // len(consumers)

    def is_settled(consumer: CooperativeKafkaConsumer) -> bool:
        is_told = consumer._coordinator.member.call is None
        return is_told and len(consumer.assignment()) == fair and state_of(consumer) == MemberState.STABLE

    polling_until(lambda: all(map(is_settled, consumers)), *consumers)


def state_of(consumer: CooperativeKafkaConsumer) -> str:
    # Not read from `group_metadata`, because joins then wait for the next poll.
    state: str = consumer._coordinator.state
    return state


def committed(positions: dict[TopicPartition, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {tp: OffsetAndMetadata(position, "", -1) for tp, position in positions.items()}


def of(group: GroupOfMembers, *numbers: int) -> set[TopicPartition]:
    return {TopicPartition(group.topic("orders"), number) for number in numbers}


class Counting(CooperativeKafkaConsumer):
    """A consumer that also commits offsets that are numbers."""

    @property
    def coordinator(self) -> Any:
        return self._coordinator

    @property
    def member(self) -> Any:
        return self._coordinator.member

    def commit(self, offsets: Any = None, timeout_ms: int | None = None) -> None:
        super().commit(offsets and committed(offsets), timeout_ms)


class KafkaPythonInProcess(InProcess):
    program = PROGRAM
    plugin = kafka_assignors_kafka_python
    sources = for_kafka_python
    topic_partition = TopicPartition
    listener_class = Listener
    rebalance_timeout: ClassVar = {}  # It is that of polls, five minutes.
    commit_errors = (CommitFailedError,)
    stock_assignors = (
        RangePartitionAssignor,
        StockCooperativeStickyAssignor,
        StockCooperativeStickyAssignor(),
    )

    def construct(self, **settings: Any) -> None:
        CooperativeKafkaConsumer("orders", **settings)

    def consuming(self, group: GroupOfMembers, listener: Any = None, **settings: Any) -> Any:
        return consuming(group, listener, Counting, **settings)

    def ask(self, source: Any, topics: Mapping[str, int]) -> Any:
        return source(topics)

    def noted(self, source: Any, note: Callable[[Mapping[str, int]], object]) -> Any:
        def weights(topics: Mapping[str, int]) -> Any:
            note(topics)
            return source(topics)

        return weights
