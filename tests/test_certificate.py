"""Certificates: a proven assignment is optimal; an unproven one improves by the steps that `prove` names."""

from __future__ import annotations

import ast
import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from kafka_assignors.criteria import (
    FEWEST_MOVES,
    MOVES_THEN_RACKS,
    PLAIN,
    RACKS_THEN_MOVES,
    Criteria,
    Criterion,
    Scale,
    Trade,
    traded,
)
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.leader import InvalidAssignmentError
from kafka_assignors.solver import solve
from kafka_assignors.strategies import CooperativeSticky, RackAwareSticky, Range, Sticky
from tests.certificate import (
    Certificate,
    CertificateError,
    HandOver,
    Improvement,
    check,
    prove,
)
from tests.exact_groups import Limits, random_group
from tests.exact_oracle import Oracle
from tests.exact_scales import random_scale
from tests.exact_score import Order, owners_of, score

BALANCE, MOVEMENT, RACKS = Criterion.BALANCE, Criterion.MOVEMENT, Criterion.RACKS

ORDERS = {
    FEWEST_MOVES: ((BALANCE, MOVEMENT), Order.MOVEMENT),
    MOVES_THEN_RACKS: ((BALANCE, MOVEMENT, RACKS), Order.MOVEMENT_RACKS),
    RACKS_THEN_MOVES: ((BALANCE, RACKS, MOVEMENT), Order.RACKS_MOVEMENT),
}
TRADES = (Trade(1, 2), Trade(1, 1), Trade(5, 2), Trade(4, 1))
LARGER = Limits(members=25, topics=20, partitions=15)


@pytest.mark.parametrize("preference", ORDERS)
def test_every_assignment_of_the_solver_is_proven_and_the_proof_holds(preference: Criteria) -> None:
    criteria, _ = ORDERS[preference]
    for number in range(300):
        group = random_group(random.Random(f"proven/{number}"), LARGER if number % 10 == 0 else Limits())
        assignment = solve(group, group.claims, criteria=preference)
        certificate = prove(group, assignment, criteria)
        assert isinstance(certificate, Certificate)
        check(group, assignment, certificate)


@pytest.mark.parametrize("trade", TRADES, ids=lambda trade: trade.value)
def test_an_assignment_that_trades_racks_for_movement_is_proven_optimal(trade: Trade) -> None:
    preference = traded(Fraction(trade.moves, trade.misses))
    for number in range(100):
        group = random_group(random.Random(f"traded/{number}"), LARGER if number % 10 == 0 else Limits())
        assignment = solve(group, group.claims, criteria=preference)
        certificate = prove(group, assignment, (BALANCE, trade, MOVEMENT))
        assert isinstance(certificate, Certificate)
        check(group, assignment, certificate)


@pytest.mark.parametrize("trade", TRADES, ids=lambda trade: trade.value)
def test_an_improvement_of_a_trade_lowers_the_cost_by_exactly_its_figures(trade: Trade) -> None:
    criteria, improved = (BALANCE, trade, MOVEMENT), 0
    for number in range(100):
        group = random_group(random.Random(f"untraded/{number}"))
        oracle = Oracle(group)
        assignment = solve(group, group.claims, criteria=FEWEST_MOVES)
        owners = dict(owners_of(group, assignment))
        reached = score(group, owners, oracle.prior).traded(trade.moves, trade.misses)
        proof = prove(group, assignment, criteria)
        best = oracle.best_traded(trade.moves, trade.misses).traded(trade.moves, trade.misses)
        assert isinstance(proof, Certificate) == (reached == best)
        if isinstance(proof, Certificate):
            check(group, assignment, proof)
            continue
        for step in proof.steps:
            owners[step.topic, step.partition] = step.taker
        better = score(group, owners, oracle.prior).traded(trade.moves, trade.misses)
        assert better < reached
        assert proof.change == tuple(after - before for before, after in zip(reached, better, strict=True))
        improved += 1
    assert improved > 5


@pytest.mark.parametrize("preference", ORDERS)
def test_an_assignment_is_proven_where_members_differ_in_capacity(preference: Criteria) -> None:
    criteria, _ = ORDERS[preference]
    fractions = 0
    for number in range(150):
        rng = random.Random(f"proven on a scale/{number}")
        group = random_group(rng, LARGER if number % 10 == 0 else Limits())
        # Half of the scales have capacities without a common multiple of a reasonable size.
        scale = (
            random_scale(rng, group)
            if number % 2
            else Scale({id: rng.randint(1, 10_000) for id in group.members})
        )
        assignment = solve(group, group.claims, criteria=preference, scale=scale)
        certificate = prove(group, assignment, criteria, scale=scale)
        assert isinstance(certificate, Certificate)
        check(group, assignment, certificate)
        fractions += any(isinstance(price[0], Fraction) for price in certificate.prices.values())
    assert fractions > 50


@pytest.mark.parametrize("on_a_scale", [False, True], ids=["plain", "on a scale"])
@pytest.mark.parametrize("preference", ORDERS)
def test_any_assignment_is_either_the_best_or_improved_by_exactly_what_is_said(
    preference: Criteria, on_a_scale: bool
) -> None:
    criteria, order = ORDERS[preference]
    improved = 0
    for number in range(200):
        rng = random.Random(f"any/{number}")
        group = random_group(rng)
        scale = random_scale(random.Random(f"scale/{number}"), group) if on_a_scale else PLAIN
        oracle = Oracle(group, scale)
        owners = {one: rng.choice(list(readers)) for one, readers in oracle.readers.items()}
        assignment = (Range().assign(group), _assignment(group, owners))[number % 2]
        owners = dict(owners_of(group, assignment))
        reached = score(group, owners, oracle.prior, scale).in_order(order)
        proof = prove(group, assignment, criteria, scale=scale)
        if isinstance(proof, Certificate):
            check(group, assignment, proof)
            assert reached == oracle.best(order).in_order(order)
            continue
        for step in proof.steps:
            assert owners[step.topic, step.partition] == step.giver
            owners[step.topic, step.partition] = step.taker
        better = score(group, owners, oracle.prior, scale).in_order(order)
        assert better < reached
        assert proof.change == tuple(after - before for before, after in zip(reached, better, strict=True))
        improved += 1
    assert improved > 100


def test_following_the_improvements_leads_to_the_best() -> None:
    group = random_group(random.Random("improvements"), LARGER)
    criteria = (BALANCE, MOVEMENT, RACKS)
    assignment, steps = Range().assign(group), 0
    while isinstance(proof := prove(group, assignment, criteria), Improvement):
        owners = dict(owners_of(group, assignment))
        owners.update({(step.topic, step.partition): step.taker for step in proof.steps})
        assignment, steps = _assignment(group, owners), steps + 1
        assert steps < 1000
    check(group, assignment, proof)
    assert steps > 5


def _assignment(group: Group, owners: dict[tuple[str, int], str]) -> Assignment:
    members: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
    for (topic, partition), member_id in sorted(owners.items()):
        members[member_id].setdefault(topic, []).append(partition)
    return Assignment(members)


# ---- three members, of whom the first and the last share no topic

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
PROOF = Certificate((BALANCE, MOVEMENT, RACKS), dict.fromkeys(("m1", "m2", "m3"), (5, 0, 0)))


def test_an_improvement_lists_each_step_between_members() -> None:
    assert prove(CHAIN, FAIR, PROOF.criteria) == PROOF
    assert prove(CHAIN, LOPSIDED, PROOF.criteria) == Improvement(
        PROOF.criteria,
        (HandOver("orders", 0, "m1", "m2"), HandOver("payments", 0, "m2", "m3")),
        (-2, 0, 0),
    )


def test_a_move_that_balance_did_not_need_is_shown_as_an_exchange() -> None:
    owned = {"m1": {"orders": [0, 1]}, "m2": {"orders": [2, 3]}}
    group = replace(
        CHAIN,
        members={
            id: replace(member, owned=owned.get(id, {}), generation=3) for id, member in CHAIN.members.items()
        },
    )
    crossed = Assignment({**FAIR.members, "m1": {"orders": [0, 2]}, "m2": {"orders": [1, 3]}})
    proof = prove(group, crossed, (BALANCE, MOVEMENT))
    assert isinstance(proof, Improvement)
    assert set(proof.steps) == {HandOver("orders", 2, "m1", "m2"), HandOver("orders", 1, "m2", "m1")}
    assert proof.change == (0, -2)


@pytest.mark.parametrize(
    ("prices", "why"),
    [
        (
            {"m1": (6, 0, 0)},
            "the price of 'm1' is 6/0/0, and with 2 partitions it must lie between 3/0/0 and",
        ),
        ({"m1": (3, -1, 0)}, "the price of 'm1' is 3/-1/0, and with 2 partitions it must lie between 3/0/0"),
        ({"m1": (5, 0, 1)}, "the price of 'm1' is 5/0/1"),
        ({"m2": (4, 0, 0)}, "partition 0 of 'orders' costs 5/0/0 at 'm1', where it is, and 4/0/0 at 'm2'"),
        ({"m1": (5, 0)}, "the price of 'm1' has 2 numbers and there are 3 criteria"),
        ({"m1": None}, "there is no price of member 'm1'"),
        ({"m4": (5, 0, 0)}, "there is a price of 'm4', who is not a member"),
    ],
)
def test_a_certificate_that_was_tampered_with_is_refused_with_the_rule_it_breaks(
    prices: dict[str, tuple[int, ...] | None], why: str
) -> None:
    check(CHAIN, FAIR, PROOF)
    tampered = {id: price for id, price in {**PROOF.prices, **prices}.items() if price is not None}
    with pytest.raises(CertificateError, match=why.replace("(", r"\(")):
        check(CHAIN, FAIR, replace(PROOF, prices=tampered))


PROPORTIONAL = Assignment(
    {"m1": {"orders": [0, 1, 2]}, "m2": {"orders": [3], "payments": [0]}, "m3": {"payments": [1]}}
)
SCALE = Scale({"m1": 4, "m2": 2}, {"m1": 1})
ON_SCALE = Certificate((BALANCE,), dict.fromkeys(("m1", "m2", "m3"), (Fraction(9, 4),)), SCALE)


@pytest.mark.parametrize(
    ("tampered", "why"),
    [
        (
            replace(ON_SCALE, prices={**ON_SCALE.prices, "m1": (Fraction(8, 3),)}),
            "the price of 'm1' is 8/3, and with 3 partitions, 1 from before and a capacity of 4 it must lie "
            "between 7/4 and 9/4",
        ),
        (
            replace(ON_SCALE, prices={**ON_SCALE.prices, "m3": (Fraction(6),)}),
            "the price of 'm3' is 6, and with 1 partitions it must lie between 1 and 3",
        ),
        (replace(ON_SCALE, scale=PLAIN), "with 3 partitions it must lie between 5 and 7"),
        (
            replace(ON_SCALE, scale=replace(SCALE, capacities={**SCALE.capacities, "m4": 2})),
            "there is a capacity of 'm4', who is not a member of the group",
        ),
        (
            replace(ON_SCALE, scale=replace(SCALE, already={"m1": 1, "m4": 2})),
            "there is a load from before of 'm4', who is not a member of the group",
        ),
    ],
)
def test_a_certificate_on_a_scale_that_was_tampered_with_is_refused(tampered: Certificate, why: str) -> None:
    with pytest.raises(CertificateError, match=why):
        check(CHAIN, PROPORTIONAL, tampered)


def test_a_scale_makes_another_assignment_the_best() -> None:
    check(CHAIN, PROPORTIONAL, ON_SCALE)
    assert prove(CHAIN, PROPORTIONAL, [BALANCE], scale=SCALE) == ON_SCALE
    better = prove(CHAIN, FAIR, [BALANCE], scale=SCALE)
    assert isinstance(better, Improvement)
    # 16/4 + 4/2 + 1 instead of 9/4 + 4/2 + 4
    assert better.change == (Fraction(-5, 4),)


def test_the_certificate_of_one_assignment_does_not_prove_another() -> None:
    with pytest.raises(CertificateError):
        check(CHAIN, LOPSIDED, PROOF)
    with pytest.raises(InvalidAssignmentError, match="without an owner"):
        check(CHAIN, Assignment({**FAIR.members, "m3": {}}), PROOF)


def test_no_prices_at_all_can_prove_what_is_not_the_best() -> None:
    """Every price within the bounds of a lopsided assignment breaks the rule of some partition."""
    for m1 in range(5, 8):
        for m2 in range(3, 6):
            for m3 in range(1, 4):
                prices = {"m1": (m1,), "m2": (m2,), "m3": (m3,)}
                with pytest.raises(CertificateError):
                    check(CHAIN, LOPSIDED, Certificate((BALANCE,), prices))


def test_members_that_can_get_nothing_need_no_price() -> None:
    group = replace(CHAIN, members={**CHAIN.members, "idle": Member("idle", frozenset({"unknown"}))})
    assignment = Assignment({**FAIR.members, "idle": {}})
    check(group, assignment, PROOF)
    assert prove(group, assignment, PROOF.criteria) == PROOF
    empty = Group.of([], [])
    assert prove(empty, Assignment({}), [BALANCE]) == Certificate((BALANCE,), {})


@pytest.mark.parametrize("criteria", [(), (MOVEMENT,), (MOVEMENT, BALANCE), (BALANCE, RACKS, RACKS)])
def test_balance_comes_first_and_nothing_twice(criteria: tuple[Criterion, ...]) -> None:
    with pytest.raises(ValueError, match="criteria must begin with balance"):
        prove(CHAIN, FAIR, criteria)


def test_strategies_say_what_they_promise() -> None:
    assert Sticky().criteria == CooperativeSticky().criteria == (BALANCE, MOVEMENT, RACKS)
    assert RackAwareSticky().criteria == (BALANCE, RACKS, MOVEMENT)
    assert RackAwareSticky(1.5).criteria == (BALANCE, Trade(moves=3, misses=2), MOVEMENT)


def test_the_judge_shares_no_code_with_the_solver() -> None:
    folder = Path(__file__).parent / "certificate"
    judged = {"kafka_assignors.solver", "kafka_assignors.quality", "kafka_assignors_strategies.makespan"}
    for name in ("__init__.py", "check.py", "prove.py"):
        tree = ast.parse((folder / name).read_text(encoding="utf-8"))
        imported = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not [one for one in imported for other in judged if one.startswith(other)], name
