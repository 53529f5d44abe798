"""CooperativeKafkaConsumers in the test's process: listener, commits, positions, subscriptions."""

from __future__ import annotations

import collections
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.errors import KafkaConfigurationError, KafkaError
from kafka.future import Future

from compat_tests.kafka_python import in_process
from compat_tests.scenarios.in_process import (
    ConsumerScenarios,
    WeightScenarios,
    polling_until,
    read_by_partition,
    read_first,
    share,
)
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_kafka_python import CooperativeKafkaConsumer
from kafka_assignors_kafka_python.cooperative.fetching import CooperativeFetcher, CooperativeSubscriptionState
from kafka_assignors_kafka_python.cooperative.inside import require_inside
from kafka_assignors_kafka_python.cooperative.user_thread import ErrorsOfUser


class AsyncListener(AsyncConsumerRebalanceListener):
    """Awaits the test's action when partitions are revoked."""

    def __init__(self, revoked: Callable[[set[TopicPartition]], Any]) -> None:
        self._revoked = revoked

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        pass


class TestConsumer(ConsumerScenarios, in_process.KafkaPythonInProcess):
    pass


class TestWeights(WeightScenarios, in_process.KafkaPythonInProcess):
    pass


def test_a_release_that_lacks_what_we_need_is_refused_and_what_it_lacks_is_named() -> None:
    with pytest.raises(RuntimeError, match=r"kafka-python \d.*, whose object has no _sensors"):
        require_inside(object(), object())


@pytest.mark.parametrize("poll_ms", [0, 3])
def test_polls_that_are_over_long_before_a_join_get_their_partitions_and_records(
    kafka: Kafka, poll_ms: int
) -> None:
    # kafka-python's own consumer occasionally hangs for good when a poll ends at the wrong moment.
    with GroupOfMembers(kafka, in_process.PROGRAM, {"orders": 4}) as group:
        group.produce(1)
        for _ in range(4):
            with in_process.consuming(group) as consumer:
                deadline, read = time.monotonic() + HANG_S, set()
                while len(read) < 4:
                    assert time.monotonic() < deadline
                    read |= consumer.poll(timeout_ms=poll_ms).keys()


def test_an_async_listener_can_await_a_commit_and_its_error_is_raised_also_by_close(kafka: Kafka) -> None:
    async def commit(revoked: set[TopicPartition]) -> None:
        await first.commit_async(in_process.committed({tp: first.position(tp) for tp in revoked}))
        raise ValueError("I will not")

    with GroupOfMembers(kafka, in_process.PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        with in_process.consuming(group, AsyncListener(commit)) as first:
            read_first(first, 4)
            with in_process.consuming(group) as second:
                with pytest.raises(KafkaError, match=r"on_partitions_revoked of .* failed: .*I will not"):
                    share(group, first, second)
                share(group, first, second)
                assert {second.position(tp) for tp in second.assignment()} == {10}
                with pytest.raises(KafkaError, match="I will not"):
                    first.close()
                share(group, second)  # The first one has left all the same.


def test_partitions_that_stay_keep_their_buffers_positions_and_pauses(kafka: Kafka) -> None:
    def buffers(consumer: CooperativeKafkaConsumer) -> dict[TopicPartition, object]:
        fetcher = consumer._fetcher
        return {**fetcher._paused_completed_fetches, **fetcher._paused_partition_records}

    with GroupOfMembers(kafka, in_process.PROGRAM, {"orders": 4}) as group:
        group.produce(10)
        with in_process.consuming(group, max_poll_records=3) as first:
            read: dict[TopicPartition, int] = {}
            while len(read) < 4:
                for tp, records in first.poll(timeout_ms=100).items():
                    read[tp] = len(records)
                    first.pause(tp)
            polling_until(lambda: len(buffers(first)) == 4, first)
            buffered = buffers(first)
            with in_process.consuming(group) as second:
                share(group, first, second)
                stayed = first.assignment()
                assert len(stayed) == 2
                assert all(buffers(first)[tp] is buffered[tp] for tp in stayed)
                assert first.paused() == stayed
                assert {tp: first.position(tp) for tp in stayed} == {tp: read[tp] for tp in stayed}
                assert second.paused() == set()
                first.resume(*stayed)
                rest = {tp: 10 - read[tp] for tp in stayed}
                assert read_by_partition(first, sum(rest.values())) == rest


def test_poll_does_not_miss_that_it_knows_where_to_begin(kafka: Kafka) -> None:
    with (
        GroupOfMembers(kafka, in_process.PROGRAM, {"orders": 1}) as group,
        in_process.consuming(group) as consumer,
    ):
        group.produce(1)
        consumer.unsubscribe()
        consumer.assign(in_process.of(group, 0))
        fetcher = consumer._fetcher
        send_fetches = fetcher.send_fetches

        def send_fetches_and_be_slow() -> None:
            send_fetches()
            if fetcher._reset_task is not None:
                polling_until(lambda: fetcher._reset_task.is_done)

        fetcher.send_fetches = send_fetches_and_be_slow
        assert consumer.poll(timeout_ms=HANG_S * 1000)


def test_poll_does_not_miss_records_that_come_while_it_sends_fetches(kafka: Kafka) -> None:
    with (
        GroupOfMembers(kafka, in_process.PROGRAM, {"orders": 2}) as group,
        contextlib.closing(KafkaProducer(bootstrap_servers=kafka.bootstrap)) as producer,
        in_process.consuming(group, fetch_max_wait_ms=15_000) as consumer,
    ):

        def produce() -> None:
            producer.send(group.topic("orders"), b"a record", partition=0).get(timeout=HANG_S)

        produce()
        consumer.unsubscribe()
        consumer.assign(in_process.of(group, 0, 1))
        assert consumer.poll(timeout_ms=HANG_S * 1000)
        consumer.poll()
        fetcher = consumer._fetcher
        send_fetches = fetcher.send_fetches
        of_the_other: list[Any] = []

        def be_slow_and_send_fetches() -> None:
            fetcher.send_fetches = send_fetches
            produce()
            polling_until(lambda: fetcher._completed_fetches)
            of_the_other.extend(send_fetches())

        fetcher.send_fetches = be_slow_and_send_fetches
        assert consumer.poll(timeout_ms=HANG_S * 1000)
        assert [fetch.is_done for fetch in of_the_other] == [False]  # The poll did not wait for this fetch.


def test_a_subclass_that_takes_a_part_of_the_consumer_away_is_refused(kafka: Kafka) -> None:
    class Subclass(CooperativeKafkaConsumer):
        _coordinator = None

    with pytest.raises(RuntimeError, match=r"Subclass._coordinator is not the Coop"):
        Subclass("orders", group_id="g", bootstrap_servers=kafka.bootstrap)


def test_revocation_does_not_reuse_a_commit_that_an_earlier_one_did_not_await(kafka: Kafka) -> None:
    automatic: dict[str, Any] = {"enable_auto_commit": True, "auto_commit_interval_ms": 3_600_000}
    listener = in_process.Listener()
    with (
        GroupOfMembers(kafka, in_process.PROGRAM, {"orders": 4}) as group,
        in_process.consuming(group, listener, **automatic) as first,
    ):
        group.produce(10)
        share(group, first)
        coordinator = first._coordinator
        with in_process.consuming(group) as second:
            second.poll(timeout_ms=0)
            polling_until(
                lambda: coordinator.member.call is not None and coordinator.member.call.is_revocation
            )
            first.poll(timeout_ms=0)  # The commit is in flight or done.
            first.unsubscribe()
        first.subscribe(list(group.topics), listener=listener)
        share(group, first)
        group.produce(10)
        polling_until(lambda: [first.position(tp) for tp in first.assignment()] == [20] * 4, first)
        listener.calls.clear()
        with in_process.consuming(group) as third:
            share(group, first, third)
            (moved,) = listener.told("revoked")
            assert {tp: third.committed(tp) for tp in moved} == dict.fromkeys(moved, 20)


def test_an_error_of_the_same_source_takes_the_place_of_one_that_was_not_raised() -> None:
    errors = ErrorsOfUser(lambda: None)
    for number in range(1000):
        errors.raise_in_poll(KafkaError(number))
    with pytest.raises(KafkaError, match="999"):
        errors.raise_next()
    errors.raise_next()


# ---- what both threads change


@contextlib.contextmanager
def beside(changes: Callable[[int], object], times: int) -> Iterator[threading.Thread]:
    """Another thread calls `changes` with 0, 1, 2 …"""
    thread = threading.Thread(target=lambda: [changes(number) for number in range(times)])
    thread.start()
    yield thread
    thread.join(HANG_S)


def test_topics_of_the_group_are_read_while_the_other_thread_adds_some(impatient_threads: None) -> None:
    state = CooperativeSubscriptionState("earliest")
    topics = [f"topic-{number}" for number in range(300)]
    state.subscribe(topics)
    with beside(lambda number: state.subscribe([*topics, f"added-{number}"]), 500) as adding:
        while adding.is_alive():
            assert sum(topic.startswith("topic") for topic in state.group_subscription()) == 300


def test_fetches_are_answered_while_records_of_old_logs_are_dropped(impatient_threads: None) -> None:
    old, fetcher = TopicPartition("old", 0), object.__new__(CooperativeFetcher)
    fetches = fetcher._completed_fetches = collections.deque()
    fetcher._recreated = {old: [Future()]}
    fetcher._paused_completed_fetches = fetcher._paused_partition_records = {}
    fetcher._next_partition_records = None

    def answer(number: int) -> None:
        fetches.append(SimpleNamespace(topic_partition=TopicPartition("new", number)))

    with beside(answer, 3000) as answering:
        while answering.is_alive():
            fetches.append(SimpleNamespace(topic_partition=old))
            fetcher._drop_records_of_old_logs()
    assert [fetch.topic_partition.partition for fetch in fetches] == [*range(3000)]


# ---- settings


def test_an_argument_of_a_later_kafka_python_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    later: Any = {"of_a_later_release": 1}
    with pytest.raises(KafkaConfigurationError, match="of_a_later_release"):
        CooperativeKafkaConsumer("orders", group_id="g", api_version=(3, 9), **later)
    monkeypatch.setitem(KafkaConsumer.DEFAULT_CONFIG, "of_a_later_release", 0)
    consumer = CooperativeKafkaConsumer("orders", group_id="g", api_version=(3, 9), **later)
    consumer.close(autocommit=False)
    assert consumer.config["of_a_later_release"] == 1


def test_a_poll_waits_for_at_most_half_of_the_poll_interval() -> None:
    """A wait until its end would exceed it, and the member would leave."""
    consumer = CooperativeKafkaConsumer(
        "orders",
        group_id="g",
        api_version=(3, 9),
        enable_auto_commit=False,
        heartbeat_interval_ms=3000,
        max_poll_interval_ms=4000,
    )
    wait_s = consumer._coordinator.time_to_next_poll()
    consumer.close(autocommit=False)
    assert wait_s == 2


# ---- topics that are created again, under a consumer of the default metadata age


def recreate(group: GroupOfMembers, consumer: CooperativeKafkaConsumer) -> None:
    """Delete the topic and create it again; the metadata of the consumer never lack it.

    No fetch fails meanwhile, since all partitions are paused.
    """
    cluster = consumer._client.cluster
    old = cluster.topic_id(group.topic("orders"))
    consumer.pause(*consumer.assignment())
    consumer.poll(timeout_ms=0)
    group.delete_topic("orders")
    deadline = time.monotonic() + HANG_S
    while True:
        try:
            group.create_topic("orders", 2)
            break
        except Exception:  # The broker has not removed the old topic yet.
            assert time.monotonic() < deadline
            time.sleep(0.1)
    cluster.request_update()
    polling_until(lambda: cluster.topic_id(group.topic("orders")) != old, consumer)
    consumer.resume(*consumer.assignment())


def read_offsets(consumer: CooperativeKafkaConsumer, each: int) -> dict[TopicPartition, list[int]]:
    """The offsets of the next records, when there are at least `each` of every partition."""
    offsets: dict[TopicPartition, list[int]] = {}

    def is_enough() -> bool:
        for tp, records in consumer.poll(timeout_ms=50).items():
            offsets.setdefault(tp, []).extend(record.offset for record in records)
        return len(offsets) == 2 and all(len(found) >= each for found in offsets.values())

    polling_until(is_enough)
    return offsets


@pytest.mark.parametrize(
    ("old", "new", "is_committed"),
    [(5, 3, True), (5, 9, False), (1, 7, False)],
    ids=["committed", "more than before", "old ones in the buffer"],
)
def test_all_records_of_a_recreated_topic_come_and_no_old_one(
    kafka: Kafka, old: int, new: int, is_committed: bool
) -> None:
    with (
        GroupOfMembers(kafka, in_process.PROGRAM, {"orders": 2}) as group,
        in_process.consuming(group, max_poll_records=old) as consumer,
    ):
        group.produce(5)
        read_offsets(consumer, old)
        if is_committed:
            consumer.commit()
        recreate(group, consumer)
        group.produce(new)
        assert {tuple(found) for found in read_offsets(consumer, new).values()} == {tuple(range(new))}
