"""Topics that are missing, or created again, under a CooperativeKafkaConsumer of the default metadata age."""

from __future__ import annotations

import time

import pytest
from kafka import TopicPartition

from compat_tests.kafka_python.in_process import PROGRAM, consuming
from compat_tests.scenarios.in_process import polling_until
from compat_tests.support.group_of_members import GroupOfMembers
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors_kafka_python import CooperativeKafkaConsumer


@pytest.fixture
def group(kafka: Kafka) -> GroupOfMembers:
    with GroupOfMembers(kafka, PROGRAM, {"orders": 2}) as group:
        group.produce(5)
        yield group


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


def read(consumer: CooperativeKafkaConsumer, each: int) -> dict[TopicPartition, list[int]]:
    """The offsets of the next records, when there are at least `each` of every partition."""
    offsets: dict[TopicPartition, list[int]] = {}

    def is_enough() -> bool:
        for tp, records in consumer.poll(timeout_ms=50).items():
            offsets.setdefault(tp, []).extend(record.offset for record in records)
        return len(offsets) == 2 and all(len(found) >= each for found in offsets.values())

    polling_until(is_enough)
    return offsets


@pytest.mark.parametrize(("new", "is_committed"), [(3, True), (9, False)])
def test_all_records_of_a_recreated_topic_come(group: GroupOfMembers, new: int, is_committed: bool) -> None:
    with consuming(group) as consumer:
        old = read(consumer, 5)
        assert {tuple(found) for found in old.values()} == {(0, 1, 2, 3, 4)}
        if is_committed:
            consumer.commit()
        recreate(group, consumer)
        group.produce(new)
        assert {tuple(found) for found in read(consumer, new).values()} == {tuple(range(new))}


def test_records_that_were_fetched_of_the_old_topic_are_not_taken_for_those_of_the_new_one(
    group: GroupOfMembers,
) -> None:
    with consuming(group, max_poll_records=1) as consumer:
        seen = {tp: [] for tp in read(consumer, 1)}
        recreate(group, consumer)
        group.produce(7)
        deadline = time.monotonic() + HANG_S
        while any(found != [*range(7)] for found in seen.values()):
            assert time.monotonic() < deadline, seen
            for tp, records in consumer.poll(timeout_ms=50).items():
                seen[tp].extend(record.offset for record in records)


class TestMissingTopics:
    def test_a_leader_asks_for_topics_of_other_members(self, group: GroupOfMembers) -> None:
        with consuming(group) as leader:
            polling_until(lambda: len(leader.assignment()) == 2, leader)
            with consuming(group) as other:
                other.subscribe([f"late-{group.run}"])
                polling_until(lambda: other._coordinator.member.in_group, leader, other)
                group.create_topic("late", 1)
                polling_until(lambda: len(other.assignment()) == 1, leader, other)
