"""`sticky` and `cooperative-sticky` compared with Java's, which may share a group with ours and lead it.

Java's assignments are heuristic, ours are optimal: better balanced or with fewer moves, never the other way
round. Without racks, a change of the leader between the two moves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from compat_tests.java.oracle import JavaOracle
from compat_tests.java.random_groups import misread_by_java, random_group, without_racks
from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import check_assignment
from kafka_assignors.quality import measure
from kafka_assignors.strategies.sticky import Sticky

GROUPS = 1500


@pytest.fixture(scope="module")
def java() -> Iterator[JavaOracle]:
    with JavaOracle("sticky", "cooperative-sticky") as oracle:
        yield oracle


def groups(*, racks: bool) -> Iterator[tuple[str, Group]]:
    for seed in range(GROUPS):
        group = random_group(seed)
        yield f"random_group({seed})", group if racks else without_racks(group)


def answer(java: JavaOracle, name: str, group: Group) -> Assignment:
    told = java.assign(group)[name]
    assert told.assignment is not None, f"Java's {name} threw {told.error}"
    return Assignment(told.assignment)


def imbalance(assignment: Assignment) -> int:
    return sum(assignment.load(member_id) ** 2 for member_id in assignment.members)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("racks", [False, True], ids=["without racks", "with racks"])
def test_java_is_never_better_balanced_nor_as_well_with_fewer_moves(
    java: JavaOracle, racks: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: Counter[str] = Counter()
    for what, group in groups(racks=racks):
        ours, javas = Sticky().assign(group), answer(java, "sticky", group)
        if misread_by_java(group):
            seen["left out"] += 1
            continue
        check_assignment(group, javas)
        moved, java_moved = measure(group, ours).moved, measure(group, javas).moved
        assert (imbalance(ours), moved) <= (imbalance(javas), java_moved), what
        if imbalance(ours) < imbalance(javas):
            seen["Java's balance is worse"] += 1
        else:
            seen["Java moves more at the same balance" if moved < java_moved else "as good as Java's"] += 1
    with capsys.disabled():
        print(f"\nof {GROUPS} groups {'with' if racks else 'without'} racks: {dict(seen)}")
