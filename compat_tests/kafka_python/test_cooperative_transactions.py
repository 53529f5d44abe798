"""Consume, transform, produce: transactions that commit while members join and leave."""

from __future__ import annotations

import collections
import contextlib
import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as StockAssignor
from kafka.errors import KafkaError

from compat_tests.kafka_python.in_process import (
    PROGRAM,
    Listener,
    committed,
    consuming,
    of,
    share,
    until,
)
from compat_tests.scenarios.in_process import polling_until
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

    until(has_read)


def phase_of(consumer: CooperativeKafkaConsumer) -> Phase:
    phase: Phase = consumer._coordinator._member.phase
    return phase


def several_heartbeats_later(consumer: CooperativeKafkaConsumer) -> None:
    heartbeat = consumer._coordinator.heartbeat
    for _ in range(4):
        last = heartbeat.last_send
        until(lambda last=last: heartbeat.last_send > last)  # type: ignore[misc]


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
        until(lambda: phase_of(second) is Phase.JOINING)
        several_heartbeats_later(first)  # The responses report that the group is rebalancing.
        assert first._coordinator._member.must_join

        (tp,) = of(group, 0)
        commit(producer, 5, tp, metadata)
        assert listener.calls == calls
        share(group, first, second)
        until(lambda: first.committed(tp) == 5)


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
        until(lambda: first._coordinator.hold.is_held)
        several_heartbeats_later(first)
        assert taken == []
        second.poll(timeout_ms=0)
        taking.join(HANG_S)
        (metadata,) = taken
        assert metadata.generation_id > before
        tp = min(first.assignment())
        commit(producer, 5, tp, metadata)
        share(group, first, second, third)
        until(lambda: first.committed(tp) == 5)


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
            until(lambda: first._coordinator.member.membership.generation >= 3)
            share(group, first, second)


class Copier:
    """A member that copies the records of a topic to another topic in transactions, on its own thread."""

    def __init__(self, kind: Any, strategy: Any, group: GroupOfMembers, name: str) -> None:
        self.refused = 0
        self.error: BaseException | None = None
        self._kind, self._strategy, self._group, self._name = kind, strategy, group, name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(HANG_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._copy()
        except BaseException as error:
            self.error = error

    def _copy(self) -> None:
        group = self._group
        consumer = self._kind(
            group.topic("orders"),
            bootstrap_servers=group.kafka.bootstrap,
            group_id=group.id,
            partition_assignment_strategy=[self._strategy()],
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            heartbeat_interval_ms=200,
            max_poll_records=5,
        )
        with contextlib.closing(consumer), contextlib.ExitStack() as stack:
            consumer.partitions_for_topic(group.topic("orders"))
            producer = stack.enter_context(transactional_producer(group, self._name))
            while not self._stopping.is_set():
                batch = consumer.poll(timeout_ms=100)
                if not batch:
                    continue
                metadata = consumer.group_metadata()
                time.sleep(0.1)  # The work within a transaction.
                try:
                    producer.begin_transaction()
                    for tp, records in batch.items():
                        for record in records:
                            copy = f"{tp.partition}:{record.offset}".encode()
                            producer.send(group.topic("copies"), copy, partition=0)
                    ends = {tp: records[-1].offset + 1 for tp, records in batch.items()}
                    producer.send_offsets_to_transaction(committed(ends), metadata)
                    producer.commit_transaction()
                except KafkaError:
                    self.refused += 1
                    # The old producer would commit the refused offsets in the next transaction.
                    producer.abort_transaction()
                    stack.close()
                    producer = stack.enter_context(transactional_producer(group, self._name))
                    for tp in batch.keys() & consumer.assignment():
                        consumer.seek(tp, batch[tp][0].offset)


def copies(group: GroupOfMembers) -> collections.Counter[bytes]:
    reader = KafkaConsumer(
        bootstrap_servers=group.kafka.bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        group_id=None,
    )
    with contextlib.closing(reader):
        tp = TopicPartition(group.topic("copies"), 0)
        reader.assign([tp])
        end = reader.end_offsets([tp])[tp]
        found: collections.Counter[bytes] = collections.Counter()

        def is_read() -> bool:
            for records in reader.poll(timeout_ms=100).values():
                found.update(record.value for record in records)
            return bool(reader.position(tp) >= end)

        until(is_read)
        return found


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [(CooperativeKafkaConsumer, None), (KafkaConsumer, StockAssignor)],
    ids=["ours", "stock"],
)
def test_transactions_copy_each_record_once_while_members_join_and_leave(
    kafka: Kafka, kind: Any, strategy: Any
) -> None:
    from kafka_assignors_kafka_python import CooperativeStickyAssignor

    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group:
        group.produce(40)
        group.create_topic("copies", 1)
        expected = {f"{partition}:{offset}".encode() for partition in range(6) for offset in range(40)}
        numbers = itertools.count()
        everyone: list[Copier] = []

        def join() -> Copier:
            copier = Copier(kind, strategy or CooperativeStickyAssignor, group, str(next(numbers)))
            everyone.append(copier)
            return copier

        present = [join(), join()]
        try:
            for _ in range(3):
                time.sleep(2)
                present.append(join())
                time.sleep(2)
                present.pop(0).stop()
            until(lambda: copies(group).keys() >= expected)
        finally:
            for copier in present:
                copier.stop()
        assert [copier.error for copier in everyone] == [None] * len(everyone)
        assert copies(group) == dict.fromkeys(expected, 1)
        if kind is CooperativeKafkaConsumer:
            assert sum(copier.refused for copier in everyone) == 0
