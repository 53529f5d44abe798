"""`range` and `roundrobin` assign the same partitions as Java's assignors, for thousands of groups."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest

from compat_tests.java.oracle import JavaOracle
from compat_tests.java.random_groups import features, random_group, without_racks
from kafka_assignors.group import Group
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


@pytest.mark.timeout(600)
def test_random_groups_are_assigned_as_java_assigns_them(
    java: JavaOracle, groups: list[Group], capsys: pytest.CaptureFixture[str]
) -> None:
    for seed, group in enumerate(groups):
        answers = java.assign(group)
        strategies: tuple[Strategy, ...] = (Range(), RoundRobin())
        for strategy in strategies:
            answer = answers[strategy.name]
            assert answer.error is None, f"random_group({seed}): Java's {strategy.name} threw {answer.error}"
            assert assignment_to_json(strategy.assign(group)) == answer.assignment, (
                f"random_group({seed}): {strategy.name} differs from Java's for\n"
                f"{json.dumps(group_to_json(group))}"
            )
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
