"""`range` and `roundrobin` assign the same partitions as Java's assignors, for thousands of groups.

Java's `sticky` is heuristic, ours is optimal: better balanced or with fewer moves, never the other way round.
Members of both may share a group and lead it.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest

from compat_tests.java.oracle import JavaOracle
from compat_tests.java.random_groups import features, misread_by_java, random_group, without_racks
from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import check_assignment
from kafka_assignors.quality import measure
from kafka_assignors.strategies import Strategy
from kafka_assignors.strategies.range_roundrobin import Range, RoundRobin
from kafka_assignors.strategies.sticky import Sticky
from kafka_assignors_cli.group_form import assignment_to_json, group_to_json

GROUPS = 4000
STICKY_GROUPS = 1500


@pytest.fixture(scope="module")
def groups() -> list[Group]:
    return [random_group(seed) for seed in range(GROUPS)]


@pytest.mark.timeout(600)
def test_random_groups_are_assigned_as_java_assigns_them(groups: list[Group]) -> None:
    strategies: tuple[Strategy, ...] = (Range(), RoundRobin())
    with JavaOracle("range", "roundrobin") as java:
        for seed, group in enumerate(groups):
            answers = java.assign(group)
            for strategy in strategies:
                assert assignment_to_json(strategy.assign(group)) == assignment_to_json(
                    answers[strategy.name]
                ), f"random_group({seed}): {strategy.name} for {json.dumps(group_to_json(group))}"


def test_the_random_groups_have_everything_that_makes_a_difference(groups: list[Group]) -> None:
    seen = Counter(feature for group in groups for feature in features(group))
    seen["racks that change the answer of range"] = sum(
        Range().assign(group) != Range().assign(without_racks(group)) for group in groups
    )
    assert len(seen) == 17
    rare = [feature for feature, count in seen.items() if count < GROUPS // 50]
    assert not rare, f"fewer than one group in fifty has: {', '.join(rare)}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("racks", [False, True], ids=["without racks", "with racks"])
def test_java_is_never_better_balanced_nor_as_well_with_fewer_moves(
    groups: list[Group], racks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def imbalance(assignment: Assignment) -> int:
        return sum(assignment.load(member_id) ** 2 for member_id in assignment.members)

    seen: Counter[str] = Counter()
    with JavaOracle("sticky") as java:
        for seed, drawn in enumerate(groups[:STICKY_GROUPS]):
            group = drawn if racks else without_racks(drawn)
            ours, javas = Sticky().assign(group), java.assign(group)["sticky"]
            if misread_by_java(group):
                seen["left out"] += 1
                continue
            check_assignment(group, javas)
            moved, java_moved = measure(group, ours).moved, measure(group, javas).moved
            assert (imbalance(ours), moved) <= (imbalance(javas), java_moved), f"random_group({seed})"
            if imbalance(ours) < imbalance(javas):
                seen["Java's balance is worse"] += 1
            else:
                seen["Java moves more at the same balance" if moved < java_moved else "as good"] += 1
    with capsys.disabled():
        print(f"\nof {STICKY_GROUPS} groups {'with' if racks else 'without'} racks: {dict(seen)}")
