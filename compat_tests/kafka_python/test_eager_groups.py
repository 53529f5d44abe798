"""Groups of stock KafkaConsumers of kafka-python with our strategies, on a real broker."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from compat_tests.kafka_python.member import KNOWS_RACKS
from compat_tests.kafka_python.test_assignor import hide_what_members_hold
from compat_tests.scenarios.eager import EagerScenarios, SlowRevocationScenarios
from compat_tests.scenarios.leader import LeaderScenarios
from compat_tests.scenarios.rack import RackScenarios
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from compat_tests.support.strategies_of_others import CooperativeOnly, Reversed
from kafka_assignors_kafka_python import StickyAssignor, assignor

PROGRAM = "compat_tests.kafka_python.member"
COOPERATIVE = "compat_tests.kafka_python.cooperative_member"

MAKES_INSTANCES = hasattr(AbstractPartitionAssignor, "supported_protocols")
"""kafka-python 3 makes an instance of an assignor class; 2.x uses the class itself."""


class TestEagerGroups(EagerScenarios):
    program = PROGRAM


class TestSlowRevocations(SlowRevocationScenarios):
    program = PROGRAM


class TestLeaders(LeaderScenarios):
    program = PROGRAM
    asks_for_topics = False


class TestRacks(RackScenarios):
    program = PROGRAM
    other_program = COOPERATIVE if KNOWS_RACKS else PROGRAM


def test_a_consumer_that_polls_in_steps_shorter_than_a_join_does_not_stand_still(kafka: Kafka) -> None:
    # With kafka-python's own assignors it hangs. The leader learns of "payments" only after it has assigned,
    # and joins again. The poll that sends the JoinGroup request ends before the response arrives.
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4, "payments": 2}) as group:
        group.start("leader", ["sticky"], topics=["orders"], poll_ms=10)
        group.wait_for("the leader", lambda: group.members["leader"].reports("assigned"))
        group.start("b", ["sticky"], topics=["payments"], poll_ms=10)
        settled = group.settle()
        assert (settled.count("leader"), settled.count("b")) == (4, 2)


@contextlib.contextmanager
def polling(group: GroupOfMembers, assignor: Any) -> Iterator[KafkaConsumer]:
    """A consumer in this process, polled on its own thread."""
    consumer = KafkaConsumer(
        *group.topics,
        bootstrap_servers=group.kafka.bootstrap,
        group_id=group.id,
        partition_assignment_strategy=[assignor],
        heartbeat_interval_ms=200,
        session_timeout_ms=30_000,  # Longer than a busy machine stalls.
    )
    stopping = threading.Event()

    def poll() -> None:
        while not stopping.is_set():
            consumer.poll(timeout_ms=500)
        consumer.close()

    thread = threading.Thread(target=poll)
    thread.start()
    try:
        yield consumer
    finally:
        stopping.set()
        thread.join(HANG_S)


def settled(group: GroupOfMembers, consumers: Sequence[KafkaConsumer]) -> list[set[Any]]:
    """Wait until the consumers own all partitions, in equal shares."""
    fair = sum(group.topics.values()) // len(consumers)
    deadline = time.monotonic() + HANG_S
    while True:
        owned = [set(consumer.assignment()) for consumer in consumers]
        if [len(share) for share in owned] == [fair] * len(consumers) and len(set().union(*owned)) == sum(
            group.topics.values()
        ):
            return owned
        assert time.monotonic() < deadline, owned
        time.sleep(0.05)


if MAKES_INSTANCES:

    def test_consumer_accepts_an_assignor_class_as_well_as_an_instance(kafka: Kafka) -> None:
        with (
            GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group,
            polling(group, StickyAssignor) as consumer,
        ):
            assert len(settled(group, [consumer])[0]) == 2


def test_consumers_of_a_process_that_share_an_assignor_are_separate_members(kafka: Kafka) -> None:
    shared = StickyAssignor()
    with (
        GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group,
        polling(group, shared) as first,
    ):
        settled(group, [first])
        with polling(group, shared) as second:
            before = settled(group, [first, second])
            with polling(group, shared) as third:
                after = settled(group, [first, second, third])
    # Each consumer claimed its own partitions: two claims on the same partitions cancel each other.
    assert after[0] < before[0]
    assert after[1] < before[1]


if not MAKES_INSTANCES:

    def test_where_the_bytes_of_members_cannot_be_read_an_eager_strategy_stays_sticky(
        kafka: Kafka, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hide_what_members_hold(monkeypatch, "members")
        with (
            GroupOfMembers(kafka, PROGRAM, {"orders": 6}) as group,
            polling(group, StickyAssignor()) as first,
            polling(group, StickyAssignor()) as second,
        ):
            before = settled(group, [first, second])
            with polling(group, StickyAssignor()) as third:
                after = settled(group, [first, second, third])
        assert after[0] < before[0]
        assert after[1] < before[1]


TWINS = "2 assignors with the name 'sticky'"
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"partition_assignment_strategy": [StickyAssignor(), StickyAssignor()]}, ValueError, TWINS),
    ({"partition_assignment_strategy": [StickyPartitionAssignor, StickyAssignor()]}, ValueError, TWINS),
    (
        {"partition_assignment_strategy": [StickyAssignor(), assignor(CooperativeOnly())]},
        ValueError,
        "'test-cooperative-only' runs under .* alone.*: use CooperativeKafkaConsumer",
    ),
    (
        {"partition_assignment_strategy": [assignor(Reversed(), weights=lambda topics: {})]},
        ValueError,
        "'test-reversed' has a source of weights.*: use CooperativeKafkaConsumer",
    ),
]
if not MAKES_INSTANCES:
    classes = {"partition_assignment_strategy": [StickyAssignor]}
    WRONG += [(classes, TypeError, r"needs an instance: pass \[CooperativeStickyAssignor\(\)\]")]


@pytest.mark.parametrize(("settings", "error", "message"), WRONG)
def test_a_wrong_configuration_is_refused_as_early_as_the_client_shows_it(
    kafka: Kafka, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group:

        def construct() -> KafkaConsumer:
            return KafkaConsumer(
                *group.topics, bootstrap_servers=kafka.bootstrap, group_id=group.id, **settings
            )

        if MAKES_INSTANCES:
            with pytest.raises(error, match=message):
                construct()
        else:  # 2.x reveals its settings only when it joins
            with contextlib.closing(construct()) as consumer, pytest.raises(error, match=message):
                consumer.poll(timeout_ms=10_000)
