"""The second judge of the solver: prices that prove an assignment, also of groups too large for the first."""

from __future__ import annotations

import ast
import contextlib
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from kafka_assignors.criteria import PLAIN, Criteria, Criterion, traded
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.solver import solve
from kafka_assignors.strategies.range_roundrobin import Range
from tests.certificate import Certificate, CertificateError, check, prices_of
from tests.exact_comparison import ORDERS
from tests.exact_groups import Limits, random_group
from tests.exact_oracle import Oracle
from tests.exact_scales import random_scale
from tests.exact_score import owners_of, score

LARGER = Limits(members=25, topics=20, partitions=15)
HUGE = Limits(members=100, topics=60, partitions=60)
CRITERIA = (*ORDERS, *map(traded, (Fraction(1, 2), Fraction(5, 2), Fraction(4))))


@pytest.mark.parametrize("limits", [Limits(), LARGER, HUGE], ids=["small", "larger", "huge"])
@pytest.mark.parametrize("criteria", CRITERIA, ids=str)
def test_the_assignments_of_the_solver_are_proven(criteria: Criteria, limits: Limits) -> None:
    for number in range({Limits(): 150, LARGER: 20, HUGE: 2}[limits]):
        rng = random.Random(f"proven/{number}")
        group = random_group(rng, limits)
        scale = random_scale(rng, group) if number % 2 else PLAIN
        assignment = solve(group, group.claims, criteria=criteria, scale=scale)
        check(group, assignment, prices_of(group, assignment, criteria, scale=scale))


@pytest.mark.parametrize("criteria", CRITERIA, ids=str)
def test_an_assignment_is_proven_if_the_exact_solver_finds_no_better_one_and_else_refused(
    criteria: Criteria,
) -> None:
    outcomes: Counter[bool] = Counter()
    for number in range(150):
        rng = random.Random(f"any/{number}")
        group = random_group(rng)
        scale = random_scale(rng, group) if number % 3 == 0 else PLAIN
        oracle = Oracle(group, scale)
        assignment = Range().assign(group)
        reached = score(group, owners_of(group, assignment), oracle.prior, scale).by(criteria)
        is_best = reached == oracle.best(criteria).by(criteria)
        with contextlib.nullcontext() if is_best else pytest.raises(CertificateError):
            check(group, assignment, prices_of(group, assignment, criteria, scale=scale))
        outcomes[is_best] += 1
    assert outcomes[True]
    assert outcomes[False] > 50


# Three members, of whom the first and the last share no topic

CHAIN = Group.of(
    [Topic("orders", 4), Topic("payments", 2)],
    [
        Member("m1", frozenset({"orders"})),
        Member("m2", frozenset({"orders", "payments"})),
        Member("m3", frozenset({"payments"})),
    ],
)
FAIR = Assignment({"m1": {"orders": [0, 1]}, "m2": {"orders": [2, 3]}, "m3": {"payments": [0, 1]}})
LOPSIDED = Assignment(
    {"m1": {"orders": [0, 1, 2]}, "m2": {"orders": [3], "payments": [0]}, "m3": {"payments": [1]}}
)
BY_ALL = (Criterion.BALANCE, Criterion.MOVEMENT, Criterion.RACKS)
PROOF = Certificate(BY_ALL, dict.fromkeys(("m1", "m2", "m3"), (5, 0, 0)))


@pytest.mark.parametrize(
    ("prices", "why"),
    [
        ({"m1": (6, 0, 0)}, "the price of 'm1' is 6, 0, 0, and it must lie between 3, 0, 0 and 5"),
        ({"m1": (3, -1, 0)}, "the price of 'm1' is 3, -1, 0"),
        ({"m2": (4, 0, 0)}, "costs 5, 0, 0 at 'm1', where it is, and 4, 0, 0 at 'm2'"),
        ({"m1": (5, 0)}, "the price of 'm1' is 5, 0, and"),
        ({"m4": (5, 0, 0)}, "prices of .*'m4'"),
    ],
)
def test_wrong_prices_prove_nothing(prices: dict[str, tuple[int, ...]], why: str) -> None:
    check(CHAIN, FAIR, PROOF)
    with pytest.raises(CertificateError, match=why):
        check(CHAIN, FAIR, replace(PROOF, prices={**PROOF.prices, **prices}))
    with pytest.raises(CertificateError):
        check(CHAIN, LOPSIDED, PROOF)


def test_the_judge_shares_no_code_with_the_solver() -> None:
    for name in ("certificate.py", "exact_score.py"):
        tree = ast.parse((Path(__file__).parent / name).read_text(encoding="utf-8"))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not [one for one in imported if one.startswith("kafka_assignors.solver")], name
