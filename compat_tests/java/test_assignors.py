"""`range` and `roundrobin` assign the same partitions as Java's assignors, for thousands of groups."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from compat_tests.java.oracle import JavaOracle
from compat_tests.java.random_groups import features, random_group, without_racks
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies import Strategy
from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
from kafka_assignors_cli.group_form import assignment_to_json, group_to_json

GROUPS = 4000


@pytest.fixture(scope="module")
def java() -> Iterator[JavaOracle]:
    with JavaOracle("range", "roundrobin") as oracle:
        yield oracle


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    return [random_group(seed) for seed in range(GROUPS)]


def assert_equal_to_java(java: JavaOracle, group: Group, what: object) -> None:
    answers = java.assign(group)
    strategies: tuple[Strategy, ...] = (Range(), RoundRobin())
    for strategy in strategies:
        ours = assignment_to_json(strategy.assign(group))
        answer = answers[strategy.name]
        assert answer.error is None, f"{what}: Java's {strategy.name} threw {answer.error}"
        assert ours == answer.assignment, (
            f"{what}: {strategy.name} differs from Java's for\n{json.dumps(group_to_json(group))}"
        )


@pytest.mark.timeout(600)
def test_random_groups_are_assigned_as_java_assigns_them(
    java: JavaOracle, groups: list[Group], capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, group in enumerate(groups):
        assert_equal_to_java(java, group, f"random_group({seed})")
    with capsys.disabled():
        print(f"\n{len(groups)} random groups: range and roundrobin equal to Java's in all of them")


def test_the_random_groups_have_everything_that_makes_a_difference(
    groups: list[Group], capsys: pytest.CaptureFixture[str]
) -> None:
    seen = Counter(feature for group in groups for feature in features(group))
    seen["racks that change the answer of range"] = sum(
        Range().assign(group) != Range().assign(without_racks(group)) for group in groups
    )
    with capsys.disabled():
        print()
        for feature, count in sorted(seen.items()):
            print(f"{count:6} {feature}")
    assert len(seen) == 17
    rare = [feature for feature, count in seen.items() if count < GROUPS // 50]
    assert not rare, f"fewer than one group in fifty has: {', '.join(rare)}"


def test_names_sort_by_utf16_code_units_as_in_java(java: JavaOracle) -> None:
    names = ["｡", "😀", "\ue000", "\U0010ffff", "z", "\ud7ff", "\ud83d", "zz", ""]
    topics = [Topic(f"t{name}", 4) for name in names]
    subscription = frozenset(topic.name for topic in topics)
    members = [Member(f"m{name}", subscription) for name in names]
    assert_equal_to_java(java, Group.of(topics, members), "dynamic members")
    statics = [
        replace(member, instance_id=name) for member, name in zip(members, reversed(names), strict=True)
    ]
    assert_equal_to_java(java, Group.of(topics, statics), "static members")


@pytest.mark.parametrize("needy", [0, 1])
def test_racks_of_any_topic_switch_matching_on_for_co_partitioned_topics(
    java: JavaOracle, needy: int
) -> None:
    everywhere = (frozenset("ab"),) * 6
    somewhere = (frozenset("a"), frozenset("b"), frozenset("b"))
    topics = [Topic("orders", 6, everywhere), Topic("payments", 6, everywhere)]
    alone = Topic("clicks", 3, somewhere if needy else everywhere[:3])
    both = frozenset({"orders", "payments"})
    members = [
        Member("m1", both, rack="c"),
        Member("m2", both, rack="b"),
        Member("m3", frozenset({"clicks"}), rack="b"),
    ]
    group = Group.of([*topics, alone], members)
    assert_equal_to_java(java, group, "a topic of others decides")
    matched = Range().assign(group).members["m1"]["orders"]
    assert list(matched) == ([3, 4, 5] if needy else [0, 1, 2])


def test_a_large_group_in_racks_is_assigned_as_java_assigns_it(java: JavaOracle) -> None:
    racks = [frozenset({f"r{p % 3}", f"r{(p + 1) % 3}"}) for p in range(1200)]
    topics = [
        Topic(f"t{number}", 300 * (1 + number % 4), tuple(racks[: 300 * (1 + number % 4)]))
        for number in range(20)
    ]
    names = [topic.name for topic in topics]
    members = [
        Member(f"m{number}", frozenset(names[number % 2 :]), rack=f"r{number % 4}") for number in range(250)
    ]
    assert_equal_to_java(java, Group.of(topics, members), "250 members, 15000 partitions")
