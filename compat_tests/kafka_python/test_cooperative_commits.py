"""Commits of CooperativeKafkaConsumers that cannot be sent, or are too many, and those in transactions."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.errors import KafkaError
from kafka.net.selector import NetworkSelector
from kafka.structs import MemberState

from compat_tests.kafka_python.in_process import PROGRAM, Listener, committed, consuming, of
from compat_tests.scenarios.in_process import joining, polling_until, read_first, share
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S, wait_for
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_kafka_python import CooperativeKafkaConsumer
from kafka_assignors_kafka_python.cooperative import transactions
from kafka_assignors_kafka_python.cooperative.transactions import TooManyCommitsError

MOST_OPEN = 50
"""The limit of open commits in these tests, instead of 5,000."""


def test_a_revocation_goes_on_after_its_commit_failed_for_an_offset_that_cannot_be_sent(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    with GroupOfMembers(kafka, PROGRAM, {"orders": 1, "payments": 1}) as group:
        with consuming(group, listener, enable_auto_commit=True) as consumer:
            polling_until(lambda: len(consumer.assignment()) == 2, consumer)
            going, staying = sorted(consumer.assignment())
            member_id = consumer.group_metadata().member_id
            consumer.pause(going)
            consumer.seek(going, 1 << 63)
            consumer.subscribe([staying.topic], listener=listener)
            polling_until(lambda: listener.told("revoked"), consumer)
            assert listener.told("revoked") == [{going}]
            polling_until(lambda: consumer.assignment() == {staying}, consumer)
            consumer.commit(committed({staying: 4}))
        (record,) = [one for one in caplog.records if "could not be committed" in one.message]
        assert record.levelname == "ERROR"
        assert record.exc_info is not None
        assert repr(group.id) in record.message
        assert repr(member_id) in record.message


def test_more_commits_than_may_be_open_are_refused_until_some_have_ended(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "MOST_OPEN", MOST_OPEN)
    answered: list[object] = []
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group,
        consuming(group, request_timeout_ms=200_000) as consumer,
    ):
        polling_until(lambda: consumer.assignment(), consumer)
        (tp,) = of(group, 0)
        may_go_on = threading.Event()
        consumer._coordinator._manager.call_soon(may_go_on.wait)  # The I/O thread takes no commits meanwhile.
        futures = [consumer.commit_async(committed({tp: n}), lambda *outcome: None) for n in range(MOST_OPEN)]
        refused = consumer.commit_async(committed({tp: 7}), lambda offsets, outcome: answered.append(outcome))
        assert isinstance(refused.exception, TooManyCommitsError)
        assert refused.retriable()
        may_go_on.set()
        polling_until(lambda: all(future.is_done for future in futures), consumer)
        assert all(future.succeeded() for future in futures)
        assert answered == [refused.exception]
        assert consumer.committed(tp) == MOST_OPEN - 1
        consumer.commit_async(committed({tp: 8}))
        polling_until(lambda: consumer.committed(tp) == 8, consumer)


def test_the_io_thread_alone_ends_commits_also_those_that_end_before_they_have_begun() -> None:
    """Two threads that end them would call a callback twice, or never."""

    class Completed(deque[Any]):
        def append(self, completed: Any) -> None:
            super().append((threading.current_thread(), *completed))

    def ended(*arguments: Any) -> Any:
        future = net.call_soon_with_future(*arguments)
        wait_for("the end of the commit", lambda: future.is_done)
        return future

    async def commit(*_: object) -> None:
        pass

    net, completed = NetworkSelector(), Completed()
    net.start()
    config = {"request_timeout_ms": 1000}
    coordinator: Any = SimpleNamespace(completed_offset_commits=completed, config=config, start=ended)
    commits = transactions.AsyncCommits(coordinator, SimpleNamespace(commit=commit))  # type: ignore[arg-type]
    for name in ("first", "second"):
        commits.start({}, name)  # type: ignore[arg-type]
    assert [*completed] == [(net._io_thread, name, {}, None) for name in ("first", "second")]
    net.stop()


# ---- consume, transform, produce: transactions that commit while members join and leave


@contextlib.contextmanager
def transactional_producer(group: GroupOfMembers) -> Iterator[Any]:
    producer = KafkaProducer(bootstrap_servers=group.kafka.bootstrap, transactional_id=group.id)
    try:
        producer.init_transactions()
        yield producer
    finally:
        producer.close(timeout=5)


def commit(producer: Any, offset: int, tp: TopicPartition, metadata: Any) -> None:
    producer.begin_transaction()
    producer.send_offsets_to_transaction(committed({tp: offset}), metadata)
    producer.commit_transaction()


def several_heartbeats_later(consumer: CooperativeKafkaConsumer) -> None:
    heartbeat = consumer._coordinator.heartbeat
    for _ in range(4):
        last = heartbeat.last_send
        polling_until(lambda last=last: heartbeat.last_send > last)  # type: ignore[misc]


def test_offsets_are_committed_in_a_transaction_unless_the_partitions_are_lost(kafka: Kafka) -> None:
    listener = Listener()
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        contextlib.closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap)) as admin,
        transactional_producer(group) as producer,
        consuming(group, listener) as consumer,
    ):
        share(group, consumer)
        (tp,) = of(group, 0)
        commit(producer, 3, tp, consumer.group_metadata())
        polling_until(lambda: consumer.committed(tp) == 3)  # EndTxn returns before the markers are written.

        admin.remove_group_members(group.id, [MemberToRemove(consumer.group_metadata().member_id)])
        polling_until(
            lambda: consumer._coordinator.state == MemberState.UNJOINED
        )  # A heartbeat detects the removal.
        # The broker accepts offsets from a non-member. This one was a member, and its user has not been told.
        with pytest.raises(KafkaError):
            commit(producer, 7, tp, consumer.group_metadata())
        assert consumer.committed(tp) == 3
        polling_until(lambda: listener.told("lost"), consumer)


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
        read_first(first, len(first.assignment()))
        metadata = first.group_metadata()
        calls = list(listener.calls)
        second.poll(timeout_ms=0)
        polling_until(lambda: joining(second))
        several_heartbeats_later(first)  # The responses report that the group is rebalancing.
        assert first._coordinator._member.must_join

        (tp,) = of(group, 0)
        commit(producer, 5, tp, metadata)
        assert listener.calls == calls
        share(group, first, second)
        polling_until(lambda: first.committed(tp) == 5)


@contextlib.contextmanager
def held_in_a_join(kafka: Kafka, **settings: Any) -> Iterator[tuple[GroupOfMembers, list[Any]]]:
    """Three consumers: the JoinGroup of the first one waits for the second, which joins in its next poll."""
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group,
        consuming(group, **settings) as first,
        consuming(group) as second,
        consuming(group) as third,
    ):
        share(group, first)
        share(group, first, second)
        group.produce(5)
        read_first(first, len(first.assignment()))
        second.group_metadata()
        polling_until(lambda: joining(first), third, first)
        yield group, [first, second, third]


def test_metadata_of_the_group_wait_for_the_join_that_is_under_way(kafka: Kafka) -> None:
    with held_in_a_join(kafka) as (group, consumers), transactional_producer(group) as producer:
        first, second, _ = consumers
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
        share(group, *consumers)
        polling_until(lambda: first.committed(tp) == 5)


def test_metadata_of_the_group_do_not_wait_for_ever(kafka: Kafka) -> None:
    with held_in_a_join(kafka, request_timeout_ms=5000) as (group, consumers):
        first = consumers[0]
        assert first.group_metadata().generation_id == first._coordinator.member.membership.generation
        assert joining(first)
        share(group, *consumers)


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
