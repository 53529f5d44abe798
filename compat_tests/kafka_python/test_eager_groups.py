"""Groups of stock KafkaConsumers of kafka-python with our strategies, on a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor

from compat_tests.eager_scenarios import EagerScenarios, StaticMemberScenarios
from compat_tests.group_of_members import GroupOfMembers
from compat_tests.kafka_cluster import Kafka
from compat_tests.kafka_python.member import KNOWS_STATIC_MEMBERS
from kafka_assignors_kafka_python import StickyAssignor

PROGRAM = "compat_tests.kafka_python.member"


class TestEagerGroups(EagerScenarios):
    program = PROGRAM


if KNOWS_STATIC_MEMBERS:  # from 2.3 on

    class TestStaticMembers(StaticMemberScenarios):
        program = PROGRAM


def test_a_consumer_that_polls_in_steps_shorter_than_a_join_does_not_stand_still(kafka: Kafka) -> None:
    # With kafka-python's own assignors it does: the leader learns of "payments" only after it has assigned,
    # joins again because of it, and the poll that sends the request is over before the answer is there.
    with GroupOfMembers(kafka, PROGRAM, {"orders": 4, "payments": 2}) as group:
        group.start("leader", ["sticky"], topics=["orders"], poll_ms=10)
        group.wait_for("the leader", lambda: group.members["leader"].reports("assigned"))
        group.start("b", ["sticky"], topics=["payments"], poll_ms=10)
        settled = group.settle()
        assert (settled.count("leader"), settled.count("b")) == (4, 2)


@contextmanager
def polling(group: GroupOfMembers, assignor: Any) -> Iterator[KafkaConsumer]:
    """A consumer of this process, polled in a thread of its own."""
    consumer = KafkaConsumer(
        *group.topics,
        bootstrap_servers=group.kafka.bootstrap,
        group_id=group.id,
        partition_assignment_strategy=[assignor],
        heartbeat_interval_ms=200,
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
        thread.join(30)


def settled(group: GroupOfMembers, consumers: Sequence[KafkaConsumer]) -> list[set[Any]]:
    """Wait until the consumers have everything between them, in equal shares."""
    fair = sum(group.topics.values()) // len(consumers)
    deadline = time.monotonic() + 60
    while True:
        owned = [set(consumer.assignment()) for consumer in consumers]
        if [len(share) for share in owned] == [fair] * len(consumers) and len(set().union(*owned)) == sum(
            group.topics.values()
        ):
            return owned
        assert time.monotonic() < deadline, owned
        time.sleep(0.05)


if hasattr(AbstractPartitionAssignor, "supported_protocols"):  # from 3.0 on; 2.x never makes an instance

    def test_a_class_is_as_good_as_an_instance(kafka: Kafka) -> None:
        with (
            GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group,
            polling(group, StickyAssignor) as consumer,
        ):
            assert len(settled(group, [consumer])[0]) == 2


def test_one_instance_in_two_consumers_of_a_process_keeps_them_apart(kafka: Kafka) -> None:
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
    # Each was told by its own memory: two claims on the same partitions would have counted for neither.
    assert after[0] < before[0]
    assert after[1] < before[1]
