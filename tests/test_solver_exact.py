"""Nothing better exists: the solver against an exact one of another kind, over thousands of random groups."""

from __future__ import annotations

import random
from itertools import product

import pytest

from kafka_assignors.group import Group
from kafka_assignors.strategies.range import Range
from tests.exact_comparison import compare, main
from tests.exact_groups import Limits, random_group
from tests.exact_oracle import Oracle, Order, Score, owners_of, score

TINY = Limits(members=4, topics=3, partitions=3)
LARGER = Limits(members=30, topics=25, partitions=15)


@pytest.mark.timeout(1200)  # some ten seconds of CPU time, on whatever share of a machine
@pytest.mark.parametrize(
    ("groups", "seed", "limits"),
    [(5000, 1, Limits()), (150, 2, LARGER)],
    ids=["5000 small groups", "150 larger groups"],
)
def test_no_assignment_is_better_balanced_or_moves_less_or_matches_more_racks(
    groups: int, seed: int, limits: Limits, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = compare(groups, seed, limits)
    with capsys.disabled():
        print(f"\n{comparison.table()}")
    assert comparison.groups == groups
    assert not comparison.failures


def best_of_all(group: Group, order: Order) -> Score:
    """The best score, by trying every assignment there is."""
    oracle = Oracle(group)
    assignments = product(*oracle.readers.values())
    scores = (
        score(group, dict(zip(oracle.readers, members, strict=True)), oracle.prior) for members in assignments
    )
    return min(scores, key=lambda reached: reached.in_order(order))


def test_the_exact_solver_of_the_comparison_finds_what_trying_everything_finds() -> None:
    tried = 0
    for number in range(300):
        group = random_group(random.Random(f"tiny/{number}"), TINY)
        oracle = Oracle(group)
        if 4 ** len(oracle.partitions) <= 4**5:
            tried += 1
            for order in Order:
                assert oracle.best(order).in_order(order) == best_of_all(group, order).in_order(order)
    assert tried > 100


def test_the_comparison_sees_that_range_is_not_optimal() -> None:
    worse = 0
    for number in range(50):
        group = random_group(random.Random(f"range/{number}"))
        oracle = Oracle(group)
        reached = score(group, owners_of(group, Range().assign(group)), oracle.prior)
        best = oracle.best(Order.MOVEMENT)
        assert reached.in_order(Order.MOVEMENT) >= best.in_order(Order.MOVEMENT)
        worse += reached.in_order(Order.MOVEMENT) > best.in_order(Order.MOVEMENT)
    assert worse > 25


def test_the_comparison_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--groups", "20", "--seed", "3", "--members", "3"]) == 0
    assert "20 solved, 0 not optimal" in capsys.readouterr().out
