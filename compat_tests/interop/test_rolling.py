"""Groups of all clients under one strategy name, rolled to our assignors and back, on a real broker.

A member is stopped, and a member of another client is started in its place, while records are written. When
the leader is stopped, another member leads, so members of every kind lead in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from compat_tests.interop.mixed_group import (
    JAVA,
    LIBRDKAFKA,
    OUR_AIOKAFKA,
    OUR_KAFKA_PYTHON,
    STOCK_AIOKAFKA,
    STOCK_KAFKA_PYTHON,
    Kind,
    MixedGroup,
)
from compat_tests.interop.recorded_group import Change
from compat_tests.support.kafka_cluster import Kafka
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies import load_strategy
from tests.exact_score import plain

TOPICS = {"orders": 12, "payments": 7}

OURS = (OUR_AIOKAFKA, OUR_KAFKA_PYTHON)


def rolled_to_ours_and_back(kafka: Kafka, name: str, others: Sequence[Kind]) -> list[Change]:
    """Roll a group to ours and back, check what holds for any name, and return the changes."""
    ours = [OURS[number % 2] for number in range(len(others))]
    with MixedGroup(kafka, name, TOPICS) as group:
        group.form(others)
        seen = [group.watch(lambda: group.roll(ours)), group.watch(lambda: group.roll(others))]
        assert {*group.consumed().values()} == {1}
    for one in seen:
        assert one.owned_twice == []
        assert {change.after.protocol for change in one.changes} == {name}
    # Several kinds have led.
    assert len(frozenset().union(*(one.leaders for one in seen))) > 1
    return [change for one in seen for change in one.changes]


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("range", [JAVA, STOCK_AIOKAFKA, STOCK_KAFKA_PYTHON]),
        ("roundrobin", [LIBRDKAFKA, STOCK_KAFKA_PYTHON, STOCK_AIOKAFKA]),
    ],
    ids=["range", "roundrobin"],
)
def test_members_get_the_same_partitions_from_any_leader(
    kafka: Kafka, name: str, others: Sequence[Kind]
) -> None:
    strategy = load_strategy(name)
    for change in rolled_to_ours_and_back(kafka, name, others):
        generation = change.after
        topics = {topic for topics in generation.subscribed.values() for topic in topics}
        group = Group.of(
            [Topic(topic, TOPICS[topic.split("-")[0]]) for topic in topics],
            [Member(id, topics) for id, topics in generation.subscribed.items()],
        )
        assert generation.assignment.members == plain(strategy.assign(group)), generation.leader


@pytest.mark.parametrize(
    ("name", "others", "with_the_least_moves"),
    [
        ("sticky", [JAVA, STOCK_AIOKAFKA, STOCK_KAFKA_PYTHON], ("ours", JAVA.label)),
        ("cooperative-sticky", [JAVA, LIBRDKAFKA, JAVA], ("ours",)),
    ],
    ids=["sticky", "cooperative-sticky"],
)
def test_members_keep_what_balance_allows_under_leaders_of_ours(
    kafka: Kafka, name: str, others: Sequence[Kind], with_the_least_moves: tuple[str, ...]
) -> None:
    for change in rolled_to_ours_and_back(kafka, name, others):
        if all(leader.startswith(with_the_least_moves) for leader in change.leaders):
            assert change.moved == change.least, change.leaders


@pytest.mark.parametrize(
    ("name", "guarded", "others"),
    [
        ("range", OUR_KAFKA_PYTHON, [JAVA, LIBRDKAFKA, STOCK_AIOKAFKA, STOCK_KAFKA_PYTHON]),
        ("cooperative-sticky", OUR_AIOKAFKA, [JAVA, LIBRDKAFKA]),
    ],
    ids=["range", "cooperative-sticky"],
)
def test_members_of_other_clients_take_the_assignments_that_keep_their_group_classic(
    kafka: Kafka, name: str, guarded: Kind, others: list[Kind]
) -> None:
    with MixedGroup(kafka, name, {"orders": 12}) as group:
        group.join(replace(guarded, prefix="guarded:"))
        group.settle()
        for kind in others:
            group.join(kind)
        before = group.settle()
        loads = [before.count(member) for member in before.names]
        assert max(loads) - min(loads) <= 1
        group.start("kip848", [], program="compat_tests.support.kip848_member")
        group.wait_for_report("kip848", "refused", "group id does not exist")
        group.stop("kip848")
        assert group.settle().generation == before.generation
