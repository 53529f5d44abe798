"""`roundrobin`: all partitions in order, distributed over all members in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.group_json import parse_group
from kafka_assignors.strategies import RebalanceProtocol, Strategy
from kafka_assignors.strategies.range_roundrobin import RoundRobin
from kafka_assignors_cli.group_form import assignment_to_json

_LINES = (Path(__file__).parent / "data" / "java_assignments.jsonl").read_text(encoding="ascii").splitlines()
ANSWERS_OF_JAVA: list[dict[str, Any]] = [json.loads(line) for line in _LINES]


def assign(partitions: dict[str, int], *members: Member) -> dict[str, dict[str, list[int]]]:
    topics = [Topic(name, count) for name, count in partitions.items()]
    return assignment_to_json(RoundRobin().assign(Group.of(topics, members)))


def member(member_id: str, topics: str, instance_id: str | None = None) -> Member:
    return Member(member_id, frozenset(topics.split()), instance_id=instance_id)


def test_the_strategy_has_the_name_of_kafkas_assignor() -> None:
    strategy: Strategy = RoundRobin()
    assert strategy.name == "roundrobin"
    assert strategy.protocols == (RebalanceProtocol.EAGER,)
    assert RoundRobin() == RoundRobin()


@pytest.mark.parametrize("answer", ANSWERS_OF_JAVA)
def test_the_assignment_is_that_of_java(answer: dict[str, Any]) -> None:
    assert assignment_to_json(RoundRobin().assign(parse_group(answer["group"]))) == answer["roundrobin"]


def test_the_order_of_members_and_topics_means_nothing() -> None:
    for answer in ANSWERS_OF_JAVA:
        group = parse_group(answer["group"])
        turned = Group.of(reversed([*group.topics.values()]), reversed([*group.members.values()]))
        assert RoundRobin().assign(turned) == RoundRobin().assign(group)


def test_a_topic_goes_on_where_the_one_before_stopped() -> None:
    assert assign({"b": 3, "a": 4}, member("m2", "a b"), member("m1", "a b"), member("m3", "a b")) == {
        "m1": {"a": [0, 3], "b": [2]},
        "m2": {"a": [1], "b": [0]},
        "m3": {"a": [2], "b": [1]},
    }


def test_members_that_do_not_read_a_topic_are_skipped() -> None:
    assert assign(
        {"a": 1, "b": 2, "c": 3}, member("m1", "a"), member("m2", "a b"), member("m3", "a b c")
    ) == {
        "m1": {"a": [0]},
        "m2": {"b": [0]},
        "m3": {"b": [1], "c": [0, 1, 2]},
    }


def test_the_turn_passes_on_by_the_last_member_that_got_something() -> None:
    # After m3 gets the last partition of `a`, it is m1's turn again, whether or not m1 reads `b`.
    members = [member("m1", "a"), member("m2", "b"), member("m3", "a b"), member("m4", "b")]
    assert assign({"a": 2, "b": 2}, *members) == {
        "m1": {"a": [0]},
        "m2": {"b": [1]},
        "m3": {"a": [1]},
        "m4": {"b": [0]},
    }


def test_loads_differ_by_one_at_most_where_all_read_the_same() -> None:
    partitions = {f"t{number}": number * 7 % 11 for number in range(40)}
    members = [member(f"m{number}", " ".join(partitions)) for number in range(9)]
    loads = {sum(map(len, topics.values())) for topics in assign(partitions, *members).values()}
    assert max(loads) - min(loads) <= 1


def test_static_members_come_first_by_instance_id() -> None:
    members = [member("m1", "a"), member("m3", "a", "y"), member("m2", "a", "z")]
    assert assign({"a": 3}, *members) == {"m3": {"a": [0]}, "m2": {"a": [1]}, "m1": {"a": [2]}}


def test_topics_and_members_sort_by_utf16_code_units() -> None:
    # U+1F600 is above U+FF5A, but Java sees it as U+D83D U+DE00.
    low, high = "\U0001f600", "\uff5a"
    assert assign({high: 1, low: 1}, member(high, f"{low} {high}"), member(low, f"{low} {high}")) == {
        low: {low: [0]},
        high: {high: [0]},
    }


def test_topics_without_metadata_partitions_or_readers_are_left_out() -> None:
    assert assign({"empty": 0, "unread": 4}, member("m1", "empty unknown"), member("m2", "")) == {
        "m1": {},
        "m2": {},
    }
    assert RoundRobin().assign(Group.of([], [])) == Assignment({})
