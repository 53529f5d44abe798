"""Explanations: every move has one true reason, and the chains account for every load."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest

from kafka_assignors.criteria import Criterion, Trade
from kafka_assignors.explain import Explanation, Reason, explain
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.leader import check_assignment
from kafka_assignors.quality import measure
from kafka_assignors.strategies import (
    CooperativeSticky,
    RackAwareSticky,
    Range,
    RoundRobin,
    Sticky,
    Strategy,
)
from kafka_assignors_cli.assign_text import sentences
from tests.exact_groups import Limits, random_group
from tests.exact_score import Order, owners_of, prior_owners, readers, score

STICKY: tuple[tuple[Strategy, Order], ...] = (
    (Sticky(), Order.MOVEMENT_RACKS),
    (CooperativeSticky(), Order.MOVEMENT_RACKS),
    (RackAwareSticky(), Order.RACKS_MOVEMENT),
)
LARGER = Limits(members=25, topics=20, partitions=15)


class LikeSomebodysOwn(Strategy):
    """A third-party strategy: it assigns each topic to its first subscriber and promises nothing."""

    name, version, protocols = "third-party", 0, Sticky().protocols

    def assign(self, group: Group) -> Assignment:
        given: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
        for topic in group.topics.values():
            readers = sorted(one.id for one in group.members.values() if topic.name in one.topics)
            if readers and topic.partitions:
                given[readers[0]][topic.name] = list(range(topic.partitions))
        return Assignment(given)


def groups(name: str, count: int) -> list[Group]:
    return [
        random_group(random.Random(f"{name}/{number}"), LARGER if number % 10 == 0 else Limits())
        for number in range(count)
    ]


def orders(*owned: tuple[str, list[int]], partitions: int, **members: Mapping[str, object]) -> Group:
    claims = dict(owned)
    return Group.of(
        [Topic("orders", partitions)],
        [
            Member(
                name,
                **{
                    "topics": frozenset({"orders"}),
                    "owned": {"orders": claims[name]} if name in claims else {},
                    "generation": 7 if name in claims else -1,
                    **more,
                },  # type: ignore[arg-type]
            )
            for name, more in members.items()
        ],
    )


def explained(group: Group, strategy: Strategy) -> tuple[Assignment, Explanation]:
    assignment = strategy.assign(group)
    return assignment, explain(group, assignment, strategy.criteria)


# ------------------------------------------------------------------------------------- each kind of reason


def test_a_partition_whose_owner_has_left_has_no_owner() -> None:
    _, explanation = explained(orders(("m1", [0]), partitions=2, m1={}, m2={}), Sticky())
    (move,) = explanation.moves
    assert (move.partition, move.owner, move.member, move.reason) == (1, None, "m2", Reason.NO_OWNER)


def test_a_partition_whose_owner_unsubscribed_says_so() -> None:
    group = orders(("m1", [0, 1]), partitions=2, m1={"topics": frozenset({"pays"})}, m2={})
    _, explanation = explained(group, Sticky())
    assert [(move.owner, move.reason) for move in explanation.moves] == [(None, Reason.UNSUBSCRIBED)] * 2


def test_a_partition_that_two_claimed_in_the_same_generation_has_no_claim_that_counts() -> None:
    group = orders(("m1", [0, 1]), ("m2", [1, 2]), partitions=3, m1={}, m2={}, m3={})
    _, explanation = explained(group, Sticky())
    assert [(move.partition, move.reason) for move in explanation.moves] == [(1, Reason.CLAIM_DROPPED)]


def test_a_newcomer_gets_its_share_for_balance() -> None:
    group = orders(("m1", [0, 1, 2, 3]), partitions=4, m1={}, m2={})
    _, explanation = explained(group, Sticky())
    assert [move.reason for move in explanation.moves] == [Reason.BALANCE] * 2
    assert [chain.members for chain in explanation.chains] == [("m1", "m2")] * 2
    assert [chain.loads for chain in explanation.chains] == [(2, 2)] * 2


def test_a_partition_is_passed_on_where_the_newcomer_does_not_read_what_is_too_much() -> None:
    """m1 has too many partitions of `a`, which only m1 and m2 read; m3 reads only `b`, which m2 has."""
    only_a, only_b = frozenset({"a"}), frozenset({"b"})
    group = Group.of(
        [Topic("a", 4), Topic("b", 2)],
        [
            Member("m1", only_a, owned={"a": [0, 1, 2, 3]}, generation=7),
            Member("m2", only_a | only_b, owned={"b": [0, 1]}, generation=7),
            Member("m3", only_b),
        ],
    )
    assignment, explanation = explained(group, Sticky())
    assert [assignment.load(name) for name in ("m1", "m2", "m3")] == [2, 2, 2]
    assert [chain.members for chain in explanation.chains] == [("m1", "m2", "m3")] * 2
    assert {move.reason for move in explanation.moves} == {Reason.BALANCE}


def test_a_new_partition_may_displace_another_one() -> None:
    """Only m1 reads the new topic, so m1 passes on a partition that m2 reads too."""
    group = Group.of(
        [Topic("a", 4), Topic("new", 2)],
        [
            Member("m1", frozenset({"a", "new"}), owned={"a": [0, 1]}, generation=7),
            Member("m2", frozenset({"a"}), owned={"a": [2, 3]}, generation=7),
        ],
    )
    _, explanation = explained(group, Sticky())
    displacing = [chain for chain in explanation.chains if chain.reason is Reason.BALANCE]
    (chain,) = displacing
    assert chain.members == ("m1", "m2")
    assert [explanation.moves[at].topic for at in chain.moves] == ["new", "a"]


def test_a_partition_goes_to_its_rack_where_racks_come_before_movement() -> None:
    group = Group.of(
        [Topic("orders", 2, (frozenset({"a"}), frozenset({"b"})))],
        [
            Member("m1", frozenset({"orders"}), rack="b", owned={"orders": [0]}, generation=7),
            Member("m2", frozenset({"orders"}), rack="a", owned={"orders": [1]}, generation=7),
        ],
    )
    _, explanation = explained(group, RackAwareSticky())
    (chain,) = explanation.chains
    assert chain.members[0] == chain.members[-1] != chain.members[1]
    assert chain.change == {Criterion.BALANCE: 0, Criterion.RACKS: 2, Criterion.MOVEMENT: -2}
    assert {move.reason for move in explanation.moves} == {Reason.RACKS}
    assert explained(group, CooperativeSticky())[1].moves == ()


def test_where_racks_are_traded_for_movement_the_chain_shows_what_outweighs_what() -> None:
    group = Group.of(
        [Topic("orders", 2, (frozenset({"a"}), frozenset({"b"})))],
        [
            Member("m1", frozenset({"orders"}), rack="b", owned={"orders": [0]}, generation=7),
            Member("m2", frozenset({"orders"}), rack="a", owned={"orders": [1]}, generation=7),
        ],
    )
    trade = Trade(moves=3, misses=2)
    _, explanation = explained(group, RackAwareSticky(1.5))
    (chain,) = explanation.chains
    # Two misses with weight 3, minus two moves with weight 2.
    assert chain.change == {Criterion.BALANCE: 0, trade: 2, Criterion.MOVEMENT: -2}
    assert chain.reason is Reason.RACKS
    (sentence,) = sentences(explanation, "rack-aware-sticky")
    assert sentence.endswith(
        "for racks: 2 more would be without a replica in the rack of their member, "
        "and each is worth 3/2 moves"
    )
    assert explained(group, RackAwareSticky(1))[1].moves == ()


@pytest.mark.parametrize("strategy", [Range(), RoundRobin(), LikeSomebodysOwn()], ids=lambda one: one.name)
def test_a_strategy_that_keeps_no_owners_is_explained_by_that(strategy: Strategy) -> None:
    """The reason NOT_KEPT covers every partition that had an owner and moved."""
    moved = 0
    for group in groups("not-kept", 30):
        _, explanation = explained(group, strategy)
        assert not explanation.chains
        moved += sum(move.owner is not None for move in explanation.moves)
        assert all((move.owner is None) == (move.reason in FORCED) for move in explanation.moves)
        assert all(move.reason is Reason.NOT_KEPT for move in explanation.moves if move.owner is not None)
    assert moved


FORCED = {Reason.NO_OWNER, Reason.UNSUBSCRIBED, Reason.CLAIM_DROPPED}

# ------------------------------------------------------------------------------------- what always holds


@pytest.mark.parametrize("strategy", [*(one for one, _ in STICKY), Range(), LikeSomebodysOwn()], ids=str)
def test_every_moved_partition_is_explained_once_and_no_other(strategy: Strategy) -> None:
    for group in groups("once", 100):
        assignment, explanation = explained(group, strategy)
        quality = measure(group, assignment)
        owned, now = prior_owners(group), owners_of(group, assignment)
        moved = {one for one, holder in now.items() if owned.get(one) != holder}
        assert Counter((move.topic, move.partition) for move in explanation.moves) == Counter(moved)
        assert sum(move.owner is None for move in explanation.moves) == quality.forced
        assert sum(move.owner is not None for move in explanation.moves) == quality.moved
        for move in explanation.moves:
            assert move.owner == owned.get((move.topic, move.partition))
            assert move.member == now[move.topic, move.partition]


@pytest.mark.parametrize(("strategy", "order"), STICKY, ids=lambda one: getattr(one, "name", None))
def test_chains_turn_what_was_owned_into_what_is_had(strategy: Strategy, order: Order) -> None:
    for group in groups("chains", 100):
        assignment, explanation = explained(group, strategy)
        assert sorted(at for chain in explanation.chains for at in chain.moves) == list(
            range(len(explanation.moves))
        )
        loads = Counter(dict.fromkeys(group.members, 0))
        loads.update(prior_owners(group).values())
        for chain in explanation.chains:
            moves = [explanation.moves[at] for at in chain.moves]
            handed_on = [move for move in moves if move.owner is not None]
            assert [move.owner for move in handed_on] == list(chain.members[:-1])
            assert [move.member for move in handed_on] == list(chain.members[1:])
            if len(handed_on) < len(moves):
                assert moves[0].owner is None
                assert moves[0].member == chain.members[0]
                loads[chain.members[0]] += 1
            loads[chain.members[0]] -= 1
            loads[chain.members[-1]] += 1
            assert len(set(chain.members[:-1])) == len(chain.members) - 1
        assert loads == Counter({member_id: assignment.load(member_id) for member_id in group.members})


@pytest.mark.parametrize(("strategy", "order"), STICKY, ids=lambda one: getattr(one, "name", None))
def test_no_chain_of_a_strategy_that_keeps_its_word_is_unneeded(strategy: Strategy, order: Order) -> None:
    reasons: Counter[Reason | None] = Counter()
    for group in groups("needed", 150):
        _, explanation = explained(group, strategy)
        reasons.update(chain.reason for chain in explanation.chains)
    assert not reasons[Reason.UNNEEDED]
    assert reasons[Reason.BALANCE] > 100
    assert bool(reasons[Reason.RACKS]) == (order is Order.RACKS_MOVEMENT)


@pytest.mark.parametrize(("strategy", "order"), STICKY, ids=lambda one: getattr(one, "name", None))
def test_taking_a_chain_back_changes_what_the_explanation_says(strategy: Strategy, order: Order) -> None:
    """The assignments are arbitrary, so some chains are unneeded. The independent score agrees on each."""
    criteria = strategy.criteria
    assert criteria is not None
    unneeded = 0
    for number, group in enumerate(groups("taken-back", 60)):
        rng = random.Random(f"any/{number}")
        holders = {one: rng.choice(able) for one, able in readers(group).items()}
        prior = prior_owners(group)
        assignment = _assignment(group, holders)
        explanation = explain(group, assignment, criteria)
        before = score(group, holders, prior).in_order(order)
        for chain in explanation.chains:
            back = dict(holders)
            for at in chain.moves:
                move = explanation.moves[at]
                if move.owner is not None:
                    back[move.topic, move.partition] = move.owner
            check_assignment(group, _assignment(group, back))
            after = score(group, back, prior).in_order(order)
            if chain.reason is Reason.UNNEEDED:
                unneeded += 1
                assert after < before
            else:
                assert (after > before) == (chain.reason is not None)
    assert unneeded


def _assignment(group: Group, holders: Mapping[tuple[str, int], str]) -> Assignment:
    members: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
    for (topic, partition), member_id in sorted(holders.items()):
        members[member_id].setdefault(topic, []).append(partition)
    return Assignment(members)
