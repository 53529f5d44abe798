"""Polls of an idle CooperativeKafkaConsumer leave no objects behind."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest
from kafka.future import Future

from compat_tests.kafka_python.in_process import PROGRAM, consuming, share
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_kafka_python import CooperativeKafkaConsumer, StrategyAssignor, assignor
from kafka_assignors_strategies import Standby

ROUNDS = 5
POLLS = 100
POLL_MS = 20
"""With a `retry_backoff_ms` of 1, each poll starts several waits, also on a slow machine."""


def pause_everything(consumer: CooperativeKafkaConsumer) -> None:
    consumer.pause(*consumer.assignment())


def do_nothing(consumer: CooperativeKafkaConsumer) -> None:
    pass


def held() -> tuple[int, int]:
    """The number of callbacks in futures, and the number of objects."""
    gc.collect()
    objects = gc.get_objects()
    futures = [one for one in objects if type(one) is Future]
    callbacks = sum(len(one._callbacks or ()) + len(one._errbacks or ()) for one in futures)
    return callbacks, len(objects)


def poll_often(consumer: CooperativeKafkaConsumer) -> None:
    for _ in range(POLLS):
        consumer.poll(timeout_ms=POLL_MS)


def assert_flat(consumer: CooperativeKafkaConsumer) -> None:
    """Check that polls leave neither callbacks nor objects.

    A leak adds some in every round of polls. Concurrent activity adds some in a few rounds.
    """
    poll_often(consumer)
    growth, before = [], held()
    for _ in range(ROUNDS):
        poll_often(consumer)
        now = held()
        callbacks, objects = (after - earlier for after, earlier in zip(now, before, strict=True))
        if callbacks < POLLS / 10 and objects < POLLS:
            return
        growth.append((callbacks, objects))
        before = now
    pytest.fail(f"callbacks and objects left by {POLLS} polls, {ROUNDS} times: {growth}")


@pytest.mark.parametrize("make_quiet", [do_nothing, pause_everything])
def test_polls_of_a_consumer_without_records_leave_nothing_behind(
    kafka: Kafka, make_quiet: Callable[[CooperativeKafkaConsumer], None]
) -> None:
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        consuming(group, retry_backoff_ms=1) as consumer,
    ):
        share(group, consumer)
        make_quiet(consumer)
        assert_flat(consumer)


def test_polls_of_a_member_without_partitions_leave_nothing_behind(kafka: Kafka) -> None:
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 1}) as group,
        consuming(group, retry_backoff_ms=1) as first,
        consuming(group, retry_backoff_ms=1) as second,
    ):
        settle(first, second, owned=1)
        assert_flat(next(one for one in (first, second) if not one.assignment()))


def test_polls_of_a_standby_member_leave_nothing_behind(kafka: Kafka) -> None:
    def strategies(standby: bool) -> list[StrategyAssignor]:
        return [assignor(Standby(standby=standby))]

    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 4}) as group,
        consuming(group, partition_assignment_strategy=strategies(standby=False)) as active,
        consuming(group, retry_backoff_ms=1, partition_assignment_strategy=strategies(True)) as standby,
    ):
        settle(active, standby, owned=4)
        assert len(active.assignment()) == 4
        assert_flat(standby)


def settle(*consumers: CooperativeKafkaConsumer, owned: int) -> None:
    """Poll until all consumers are in one generation, and own that many partitions together."""
    deadline = time.monotonic() + HANG_S
    while True:
        for consumer in consumers:
            consumer.poll(timeout_ms=20)
        metadata = [consumer.group_metadata() for consumer in consumers]
        together = {one.generation_id for one in metadata} | {one.state for one in metadata}
        is_settled = all(one._coordinator.member.call is None for one in consumers)
        if is_settled and len(together) == 2 and sum(len(one.assignment()) for one in consumers) == owned:
            return
        assert time.monotonic() < deadline
