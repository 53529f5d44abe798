"""Consume, transform, produce: transactions that commit while members join and leave."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from kafka import KafkaProducer, TopicPartition

from compat_tests.kafka_python.in_process import (
    PROGRAM,
    Listener,
    committed,
    consuming,
    of,
)
from compat_tests.scenarios.in_process import polling_until, share
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.rebalance import Phase
from kafka_assignors_kafka_python import CooperativeKafkaConsumer


@contextlib.contextmanager
def transactional_producer(group: GroupOfMembers, name: str = "producer") -> Iterator[Any]:
    producer = KafkaProducer(bootstrap_servers=group.kafka.bootstrap, transactional_id=f"{group.id}-{name}")
    try:
        producer.init_transactions()
        yield producer
    finally:
        producer.close(timeout=5)


def commit(producer: Any, offset: int, tp: TopicPartition, metadata: Any) -> None:
    producer.begin_transaction()
    producer.send_offsets_to_transaction(committed({tp: offset}), metadata)
    producer.commit_transaction()


def read_from_each(consumer: CooperativeKafkaConsumer) -> None:
    read: set[TopicPartition] = set()

    def has_read() -> bool:
        read.update(consumer.poll(timeout_ms=20))
        return read >= consumer.assignment()

    polling_until(has_read)


def phase_of(consumer: CooperativeKafkaConsumer) -> Phase:
    phase: Phase = consumer._coordinator._member.phase
    return phase


def several_heartbeats_later(consumer: CooperativeKafkaConsumer) -> None:
    heartbeat = consumer._coordinator.heartbeat
    for _ in range(4):
        last = heartbeat.last_send
        polling_until(lambda last=last: heartbeat.last_send > last)  # type: ignore[misc]


def test_metadata_of_the_group_are_good_until_the_next_poll(kafka: Kafka) -> None:
    listener = Listener()
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        transactional_producer(group) as producer,
        consuming(group, listener) as first,
        consuming(group) as second,
    ):
        share(group, first)
        group.produce(5)
        read_from_each(first)
        metadata = first.group_metadata()
        calls = list(listener.calls)
        second.poll(timeout_ms=0)
        polling_until(lambda: phase_of(second) is Phase.JOINING)
        several_heartbeats_later(first)  # The responses report that the group is rebalancing.
        assert first._coordinator._member.must_join

        (tp,) = of(group, 0)
        commit(producer, 5, tp, metadata)
        assert listener.calls == calls
        share(group, first, second)
        polling_until(lambda: first.committed(tp) == 5)


def test_metadata_of_the_group_wait_for_the_join_that_is_under_way(kafka: Kafka) -> None:
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group,
        transactional_producer(group) as producer,
        consuming(group) as first,
        consuming(group) as second,
        consuming(group) as third,
    ):
        share(group, first)
        share(group, first, second)
        group.produce(5)
        read_from_each(first)
        # The second consumer joins only in its next poll, and the JoinGroup of the first one waits for it.
        second.group_metadata()
        polling_until(lambda: phase_of(first) is Phase.JOINING, third, first)
        before = first._coordinator.member.membership.generation
        taken: list[Any] = []
        taking = threading.Thread(target=lambda: taken.append(first.group_metadata()))
        taking.start()
        polling_until(lambda: first._coordinator.hold.is_held)
        several_heartbeats_later(first)
        assert taken == []
        second.poll(timeout_ms=0)
        taking.join(HANG_S)
        (metadata,) = taken
        assert metadata.generation_id > before
        tp = min(first.assignment())
        commit(producer, 5, tp, metadata)
        share(group, first, second, third)
        polling_until(lambda: first.committed(tp) == 5)


def test_metadata_of_the_group_do_not_wait_for_ever(kafka: Kafka) -> None:
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group,
        consuming(group, request_timeout_ms=5000) as first,
        consuming(group) as second,
        consuming(group) as third,
    ):
        share(group, first)
        share(group, first, second)
        group.produce(5)
        read_from_each(first)
        second.group_metadata()
        polling_until(lambda: phase_of(first) is Phase.JOINING, third, first)
        assert first.group_metadata().generation_id == first._coordinator.member.membership.generation
        assert phase_of(first) is Phase.JOINING
        share(group, first, second, third)


def test_a_listener_that_asks_for_metadata_does_not_hold_the_next_join_back(kafka: Kafka) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group:
        listener = Listener(
            assigned=lambda _: first.group_metadata(), revoked=lambda _: first.group_metadata()
        )
        with consuming(group, listener) as first, consuming(group) as second:
            share(group, first)
            second.poll(timeout_ms=0)
            # The revocation requires a second rebalance, which begins without another poll.
            polling_until(lambda: listener.told("revoked"), first)
            polling_until(lambda: first._coordinator.member.membership.generation >= 3)
            share(group, first, second)
