"""No better assignment exists: the solver against an independent exact one, for random groups."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

import pytest

from kafka_assignors.claims import Claims
from kafka_assignors.criteria import PLAIN, Criteria, Scale
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies.range_roundrobin import Range
from tests import exact_comparison
from tests.exact_comparison import ORDERS, drawn, faults
from tests.exact_groups import Limits, random_group
from tests.exact_oracle import Oracle
from tests.exact_scales import random_scale
from tests.exact_score import Score, readers, score

pytestmark = pytest.mark.exhaustive

TINY = Limits(members=4, topics=3, partitions=9)
LARGE = Limits(members=100, topics=60, partitions=3_600)


@pytest.mark.parametrize("capacities", [False, True], ids=["alike", "capacities"])
def test_no_assignment_is_better_balanced_or_moves_less_or_matches_more_racks(capacities: bool) -> None:
    found = [fault for case in drawn(200, seed=1, capacities=capacities) for fault in faults(*case)]
    assert not found


def test_small_and_large_groups_with_difficult_claims_are_solved_exactly() -> None:
    for number in range(400):
        rng = random.Random(f"difficult/{number}")
        is_large = number % 200 == 0
        group = random_group(rng, LARGE if is_large else Limits())
        # With capacities, the costs of a large group are too large for the exact solver.
        scale = random_scale(rng, group) if number % 3 == 0 and not is_large else PLAIN
        assert not list(faults(f"difficult/{number}", group, scale))


def best_of_all(group: Group, criteria: Criteria, scale: Scale) -> Score:
    """The best score, found by trying every assignment."""
    oracle = Oracle(group)
    assignments = product(*oracle.readers.values())
    scores = (
        score(group, dict(zip(oracle.readers, members, strict=True)), oracle.prior, scale)
        for members in assignments
    )
    return min(scores, key=lambda reached: reached.by(criteria))


def test_the_exact_solver_of_the_comparison_finds_what_trying_everything_finds() -> None:
    tried = 0
    for number in range(300):
        rng = random.Random(f"tiny/{number}")
        group = random_group(rng, TINY)
        scale = random_scale(rng, group) if number % 2 else PLAIN
        oracle = Oracle(group, scale)
        if len(oracle.partitions) <= 5:
            tried += 1
            for criteria in ORDERS:
                assert oracle.best(criteria).by(criteria) == best_of_all(group, criteria, scale).by(criteria)
    assert tried > 100


def by_order(group: Group, claims: Claims, *, criteria: Criteria, scale: Scale) -> Assignment:
    """Assign every partition to its first subscriber."""
    shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
    for (topic, partition), members in readers(group).items():
        shares[members[0]].setdefault(topic, []).append(partition)
    return Assignment(shares)


def nothing(group: Group, claims: Claims, *, criteria: Criteria, scale: Scale) -> Assignment:
    return Assignment({member_id: {} for member_id in group.members})


@pytest.mark.parametrize(
    ("wrong_solver", "what"),
    [
        (lambda group, _, **settings: Range().assign(group), "is possible"),
        (by_order, "the order of members or topics matters"),
        (nothing, "a partition is assigned to no member"),
    ],
)
def test_the_comparison_sees_what_a_wrong_solver_does(
    wrong_solver: Callable[..., Assignment], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact_comparison, "solve", wrong_solver)
    groups = [random_group(random.Random(f"wrong/{number}")) for number in range(50)]
    assert sum(any(what in fault for fault in faults("wrong", group)) for group in groups) > 25
