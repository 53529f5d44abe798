"""`range`: contiguous ranges per topic, co-partitioned topics together, racks within the shares."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.group_json import parse_group
from kafka_assignors.strategies import RebalanceProtocol, Strategy
from kafka_assignors.strategies.range_roundrobin import Range
from kafka_assignors_cli.group_form import assignment_to_json

_LINES = (Path(__file__).parent / "data" / "java_assignments.jsonl").read_text(encoding="ascii").splitlines()
ANSWERS_OF_JAVA: list[dict[str, Any]] = [json.loads(line) for line in _LINES]


def topic(name: str, *replica_racks: str) -> Topic:
    """A topic with one partition for each string; its letters are the racks of the replicas."""
    return Topic(name, len(replica_racks), tuple(frozenset(racks) for racks in replica_racks))


def member(member_id: str, topics: str, rack: str | None = None, instance_id: str | None = None) -> Member:
    return Member(member_id, frozenset(topics.split()), rack=rack, instance_id=instance_id)


def assign(topics: Sequence[Topic], *members: Member) -> dict[str, dict[str, list[int]]]:
    return assignment_to_json(Range().assign(Group.of(topics, members)))


def test_the_strategy_has_the_name_of_kafkas_assignor() -> None:
    strategy: Strategy = Range()
    assert (strategy.name, strategy.protocols) == ("range", (RebalanceProtocol.EAGER,))
    assert Range() == Range()


@pytest.mark.parametrize("answer", ANSWERS_OF_JAVA)
def test_the_assignment_is_that_of_java(answer: dict[str, Any]) -> None:
    assert assignment_to_json(Range().assign(parse_group(answer["group"]))) == answer["range"]


def test_the_order_of_members_and_topics_means_nothing() -> None:
    for answer in ANSWERS_OF_JAVA:
        group = parse_group(answer["group"])
        turned = Group.of(reversed([*group.topics.values()]), reversed([*group.members.values()]))
        assert Range().assign(turned) == Range().assign(group)


def test_each_topic_is_cut_into_ranges_and_the_first_members_get_the_rest() -> None:
    topics = [Topic("a", 7), Topic("b", 3)]
    assert assign(topics, member("m2", "a b"), member("m1", "a b"), member("m3", "a")) == {
        "m1": {"a": [0, 1, 2], "b": [0, 1]},
        "m2": {"a": [3, 4], "b": [2]},
        "m3": {"a": [5, 6]},
    }


def test_members_beyond_the_last_partition_get_nothing() -> None:
    assert assign([Topic("a", 1)], member("m1", "a"), member("m2", "a"), member("m3", "")) == {
        "m1": {"a": [0]},
        "m2": {},
        "m3": {},
    }


def test_topics_without_metadata_partitions_or_readers_are_left_out() -> None:
    assert assign([Topic("empty", 0), Topic("unread", 4)], member("m1", "empty unknown")) == {"m1": {}}
    assert Range().assign(Group.of([], [])) == Assignment({})


def test_static_members_come_first_by_instance_id() -> None:
    shares = assign(
        [Topic("a", 3)],
        member("m1", "a"),
        member("m3", "a", instance_id="y"),
        member("m2", "a", instance_id="z"),
    )
    assert shares == {"m3": {"a": [0]}, "m2": {"a": [1]}, "m1": {"a": [2]}}


def test_members_sort_by_utf16_code_units() -> None:
    # U+1F600 is above U+FF5A, but Java sees it as U+D83D U+DE00.
    assert assign([Topic("a", 2)], member("\uff5a", "a"), member("\U0001f600", "a")) == {
        "\U0001f600": {"a": [0]},
        "\uff5a": {"a": [1]},
    }


def test_partitions_go_to_members_in_a_rack_of_theirs() -> None:
    topics = [topic("a", "y", "x", "y", "x")]
    assert assign(topics, member("m1", "a", "x"), member("m2", "a", "y")) == {
        "m1": {"a": [1, 3]},
        "m2": {"a": [0, 2]},
    }


def test_racks_give_no_member_more_than_its_share() -> None:
    topics = [topic("a", "x", "x", "x", "y")]
    assert assign(topics, member("m1", "a", "x"), member("m2", "a", "y")) == {
        "m1": {"a": [0, 1]},
        "m2": {"a": [2, 3]},
    }


def test_an_extra_partition_goes_to_the_first_that_can_fill_it_from_its_rack() -> None:
    topics = [topic("a", "y", "y", "x")]
    assert assign(topics, member("m1", "a", "x"), member("m2", "a", "y")) == {
        "m1": {"a": [2]},
        "m2": {"a": [0, 1]},
    }


def test_a_member_without_a_rack_matches_everything() -> None:
    topics = [topic("a", "x", "y", "x", "y")]
    for no_rack in (None, ""):
        assert assign(topics, member("m1", "a", no_rack), member("m2", "a", "x")) == {
            "m1": {"a": [0, 1]},
            "m2": {"a": [2, 3]},
        }


@pytest.mark.parametrize(
    "racks",
    [
        pytest.param(["xy", "xy", "xy", "xy"], id="every partition is in every rack"),
        pytest.param(["z", "y", "z", "y"], id="no member is in a rack of the topic"),
        pytest.param(["", "", "", ""], id="no rack of the topic is known"),
    ],
)
def test_ranges_stay_whole_where_racks_make_no_difference(racks: list[str]) -> None:
    members = [member("m1", "a", "w"), member("m2", "a", "x")]
    assert assign([topic("a", *racks)], *members) == {"m1": {"a": [0, 1]}, "m2": {"a": [2, 3]}}
    assert assign([Topic("a", 4)], *members) == {"m1": {"a": [0, 1]}, "m2": {"a": [2, 3]}}


def test_co_partitioned_topics_stay_together_and_match_only_where_all_of_them_do() -> None:
    topics = [topic("a", "y", "xy", "x", "x"), topic("b", "y", "x", "x", "y")]
    shares = assign(topics, member("m1", "a b", "x"), member("m2", "a b", "y"))
    # Partition 0 of both topics is in y, 1 and 2 are in x. 3 has no common rack and goes where there is room.
    assert shares == {"m1": {"a": [1, 2], "b": [1, 2]}, "m2": {"a": [0, 3], "b": [0, 3]}}


def test_racks_of_any_topic_switch_matching_on_for_all_that_are_co_partitioned() -> None:
    everywhere = [topic("a", "xy", "xy"), topic("b", "xy", "xy")]
    members = [member("m1", "a b", "elsewhere"), member("m2", "a b", "x"), member("m3", "c", "x")]
    matter, do_not = topic("c", "x", "y"), topic("c", "x", "x")
    assert assign([*everywhere, do_not], *members)["m1"] == {"a": [0], "b": [0]}
    assert assign([*everywhere, matter], *members)["m1"] == {"a": [1], "b": [1]}


def test_topics_with_other_readers_are_not_co_partitioned() -> None:
    topics = [topic("a", "y", "x"), topic("b", "xy", "xy")]
    members = [member("m1", "a b", "x"), member("m2", "a b", "y"), member("m3", "b", "y")]
    shares = assign(topics, *members)
    assert [shares[name].get("a") for name in ("m1", "m2")] == [[1], [0]]
    assert [shares[name].get("b") for name in ("m1", "m2", "m3")] == [[0], [1], None]


def test_a_million_partitions_cost_no_object_each() -> None:
    topics = [Topic(f"t{number}", 1000) for number in range(1000)]
    names = frozenset(topic.name for topic in topics)
    group = Group.of(topics, [Member(f"m{number:04}", names) for number in range(100)])
    shares = Range().assign(group).members
    assert {id(share) for share in shares["m0000"].values()} == {id(shares["m0000"]["t0"])}
    assert all(share == range(990, 1000) for share in shares["m0099"].values())
