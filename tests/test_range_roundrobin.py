"""`range` and `roundrobin` assign as Java's assignors of these names do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.group_json import parse_group
from kafka_assignors.strategies import Range, RebalanceProtocol, RoundRobin, Strategy
from kafka_assignors_cli.group_form import assignment_to_json

_LINES = (Path(__file__).parent / "data" / "java_assignments.jsonl").read_text(encoding="ascii").splitlines()
ANSWERS_OF_JAVA: list[dict[str, Any]] = [json.loads(line) for line in _LINES]
"""Random groups with racks, static members and different subscriptions, and what Java assigned."""

each_strategy = pytest.mark.parametrize("strategy", [Range(), RoundRobin()], ids=lambda one: one.name)


@each_strategy
def test_the_strategy_is_eager_and_equals_others_of_its_class(strategy: Strategy) -> None:
    assert strategy.protocols == (RebalanceProtocol.EAGER,)
    assert strategy == type(strategy)()


@each_strategy
@pytest.mark.parametrize("answer", ANSWERS_OF_JAVA)
def test_the_assignment_is_that_of_java_for_any_order_of_members_and_topics(
    strategy: Strategy, answer: dict[str, Any]
) -> None:
    group = parse_group(answer["group"])
    turned = Group.of(reversed([*group.topics.values()]), reversed([*group.members.values()]))
    assert assignment_to_json(strategy.assign(group)) == answer[strategy.name]
    assert strategy.assign(turned) == strategy.assign(group)


@each_strategy
def test_members_and_topics_sort_by_utf16_code_units(strategy: Strategy) -> None:
    # U+1F600 is above U+FF5A, but Java sees it as U+D83D U+DE00.
    low, high = "\U0001f600", "\uff5a"
    members = [Member(name, frozenset({low})) for name in (high, low)]
    assigned = assignment_to_json(strategy.assign(Group.of([Topic(low, 2)], members)))
    assert assigned == {low: {low: [0]}, high: {low: [1]}}
    topics = [Topic(high, 1), Topic(low, 1)]
    members = [Member(name, frozenset({low, high})) for name in "ab"]
    first = assignment_to_json(strategy.assign(Group.of(topics, members)))["a"]
    assert first == ({low: [0]} if strategy.name == "roundrobin" else {low: [0], high: [0]})


@each_strategy
def test_topics_without_metadata_partitions_or_readers_are_left_out(strategy: Strategy) -> None:
    members = [Member("m1", frozenset({"empty", "unknown"})), Member("m2", frozenset())]
    group = Group.of([Topic("empty", 0), Topic("unread", 4)], members)
    assert strategy.assign(group) == Assignment({"m1": {}, "m2": {}})
    assert strategy.assign(Group.of([], [])) == Assignment({})


def test_a_million_partitions_cost_no_object_each() -> None:
    topics = [Topic(f"t{number}", 1000) for number in range(1000)]
    names = frozenset(topic.name for topic in topics)
    group = Group.of(topics, [Member(f"m{number:04}", names) for number in range(100)])
    shares = Range().assign(group).members
    assert {id(share) for share in shares["m0000"].values()} == {id(shares["m0000"]["t0"])}
    assert all(share == range(990, 1000) for share in shares["m0099"].values())
