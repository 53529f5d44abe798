"""The Java member of mixed groups and recordings behaves like a Java consumer."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from compat_tests.java.member import JavaMember
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.kafka_cluster import Kafka

PARTITIONS = 6
RECORDS = 50
"""Records in each partition."""

# No test here waits for a session to expire, and a slow machine must not cause one to expire.
FAST: dict[str, object] = {"heartbeat.interval.ms": 300, "session.timeout.ms": 120_000, "max.poll.records": 7}


@pytest.fixture
def topic(kafka: Kafka, numbers: Callable[[], int]) -> str:
    name = f"java-member-{numbers()}"
    kafka.create_topic(name, PARTITIONS)
    produce(kafka, name)
    return name


@pytest.fixture(scope="module")
def numbers() -> Callable[[], int]:
    return itertools.count().__next__


def produce(kafka: Kafka, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "enable.idempotence": True})
    for number in range(PARTITIONS * RECORDS):
        producer.produce(topic, value=str(number), partition=number % PARTITIONS)
    assert producer.flush(HANG_S) == 0


def partitions_of(*members: JavaMember) -> list[int]:
    return sorted(partition for member in members for share in member.owned.values() for partition in share)


def consumed(*members: JavaMember) -> dict[int, list[int]]:
    """The offsets delivered to these members, by partition, sorted."""
    offsets: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    for member in members:
        for event in member.events:
            for spans in event.get("records", {}).values():
                for partition, (first, last, count) in spans.items():
                    assert last - first + 1 == count
                    offsets[int(partition)] += range(first, last + 1)
    return {partition: sorted(found) for partition, found in offsets.items()}


@pytest.mark.parametrize(
    "options",
    [{"assignors": "range"}, {"assignors": "cooperative-sticky"}, {"protocol": "consumer"}],
    ids=["eager", "cooperative", "kip-848"],
)
def test_partitions_pass_from_member_to_member_with_nothing_missing_or_doubled(
    kafka: Kafka, topic: str, options: dict[str, str]
) -> None:
    # Under KIP-848 these times are settings of the broker.
    config = {} if "protocol" in options else FAST
    everything = list(range(PARTITIONS))
    each_once = {partition: [*range(RECORDS)] for partition in everything}
    each_twice = {partition: [*range(2 * RECORDS)] for partition in everything}
    with JavaMember(kafka.bootstrap, topic, [topic], config=config, **options) as first:
        first.wait_until(lambda: partitions_of(first) == everything and consumed(first) == each_once)
        with JavaMember(kafka.bootstrap, topic, [topic], config=config, **options) as second:
            second.wait_until(lambda: len(partitions_of(second)) == 3)
            first.wait_until(lambda: partitions_of(first, second) == everything)
            first.leave()
            second.wait_until(lambda: partitions_of(second) == everything)
            produce(kafka, topic)
            second.wait_until(lambda: consumed(first, second) == each_twice)
            second.terminate()
            assert [member.events[-1]["event"] for member in (first, second)] == ["left", "left"]


def test_a_static_member_comes_back_to_the_partitions_it_had(kafka: Kafka, topic: str) -> None:
    def member() -> JavaMember:
        # The broker keeps the place of a static member that has ended until its session expires.
        return JavaMember(kafka.bootstrap, topic, [topic], assignors="sticky", instance="pod-0", config=FAST)

    with member() as before:
        before.wait_until(lambda: len(partitions_of(before)) == PARTITIONS)
        before.kill()
    with member() as after:
        after.wait_until(lambda: len(partitions_of(after)) == PARTITIONS)
        told = [event for event in (*before.events, *after.events) if event["event"] == "assigned"]
    assert [event["generation"] for event in told] == [1, 1]
    assert len({event["member"] for event in told}) == 2
