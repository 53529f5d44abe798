"""A CooperativeKafkaConsumer in the middle of a join, which a slow strategy prolongs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from kafka import TopicPartition

from compat_tests.kafka_python.in_process import (
    PROGRAM,
    Listener,
    committed,
    consuming,
    share,
    until,
)
from compat_tests.scenarios.in_process import polling_until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import StuckWithThree
from kafka_assignors.rebalance import Phase
from kafka_assignors.rebalance.events import AboutToJoin, RejoinRequested
from kafka_assignors_kafka_python import CooperativeKafkaConsumer, assignor


def phase_of(consumer: CooperativeKafkaConsumer) -> Phase:
    phase: Phase = consumer._coordinator._member.phase
    return phase


def unsubscribe(consumer: CooperativeKafkaConsumer) -> None:
    topics = sorted(consumer.subscription())
    consumer.unsubscribe()
    consumer.subscribe(topics)


def exceed_the_poll_interval(consumer: CooperativeKafkaConsumer) -> None:
    until(lambda: phase_of(consumer) is Phase.IDLE)


@pytest.mark.parametrize("leave", [unsubscribe, exceed_the_poll_interval])
def test_a_consumer_that_leaves_while_it_waits_for_its_assignment_can_join_again(
    kafka: Kafka, leave: Callable[[CooperativeKafkaConsumer], None]
) -> None:
    # The broker never answers the SyncGroup of a member that has left.
    strategy = StuckWithThree()
    leaving = {"max_poll_interval_ms": 10_000} if leave is exceed_the_poll_interval else {}
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group,
        consuming(group, partition_assignment_strategy=[assignor(strategy, shared_name=True)]) as leader,
        consuming(group, **leaving) as follower,
        consuming(group) as third,
    ):
        share(group, leader)
        share(group, leader, follower)
        try:
            polling_until(
                lambda: strategy.stuck.is_set() and phase_of(follower) is Phase.SYNCING, third, follower
            )
            leave(follower)
            polling_until(lambda: phase_of(third) is Phase.JOINING, third)  # because the follower has left
        finally:
            strategy.released.set()
        share(group, leader, follower, third)


def test_a_join_that_begins_while_the_user_unsubscribes_is_no_error(kafka: Kafka) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group, consuming(group) as consumer:
        share(group, consumer)
        coordinator, topics = consumer._coordinator, sorted(consumer.subscription())

        def begin_a_join_too_late() -> None:
            # The member state requests the join, which is sent after this function has returned.
            coordinator.handle(RejoinRequested("the test wants it"))
            coordinator.handle(AboutToJoin(coordinator._session.protocol))
            consumer._subscription.unsubscribe()

        coordinator.on_io_thread(begin_a_join_too_late)
        consumer.subscribe(topics)
        share(group, consumer)


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_consumer_that_is_closed_during_a_join_can_still_commit(kafka: Kafka, role: str) -> None:
    def commit(revoked: set[TopicPartition]) -> None:
        if strategy.stuck.is_set():
            threading.Timer(0.5, strategy.released.set).start()
            consumers[role].commit(committed(dict.fromkeys(revoked, 7)))

    strategy, listener = StuckWithThree(), Listener(revoked=commit)
    listeners = {"leader": Listener(), "follower": Listener(), role: listener}
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group,
        consuming(
            group, listeners["leader"], partition_assignment_strategy=[assignor(strategy, shared_name=True)]
        ) as leader,
        consuming(group, listeners["follower"]) as follower,
        consuming(group) as third,
    ):
        consumers = {"leader": leader, "follower": follower}
        share(group, leader)
        share(group, leader, follower)
        try:
            polling_until(
                lambda: strategy.stuck.is_set() and phase_of(follower) is Phase.SYNCING, third, follower
            )
            mine = consumers[role].assignment()
            consumers[role].close()
            assert listener.calls[-1] == ("revoked", mine)
            assert listener.told("lost") == []
        finally:
            strategy.released.set()
        assert [third.committed(tp) for tp in mine] == [7] * len(mine)
