"""The solver's tools, each on its own: dealing in rounds, levels, and the flow network."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from kafka_assignors.claims import judge_claims
from kafka_assignors.solver.classes import Classes, classify
from kafka_assignors.solver.costs import RackPreference
from kafka_assignors.solver.levels import find_levels
from kafka_assignors.solver.network import Network
from kafka_assignors.solver.rounds import deal
from tests.exact_groups import Limits, random_group

heaps = st.lists(st.integers(0, 12), max_size=6).map(
    lambda counts: [(kind, range(100 * kind, 100 * kind + count)) for kind, count in enumerate(counts)]
)


def dealt(
    heap: Sequence[tuple[int, Sequence[int]]], wishes: Sequence[tuple[int, int]]
) -> dict[int, list[int]]:
    hands: dict[int, list[int]] = {receiver: [] for receiver, _ in wishes}
    for kind, parts in deal(heap, wishes):
        for receiver, things in parts:
            assert all(thing // 100 == kind for thing in things)
            hands[receiver] += things
    return hands


class TestDealing:
    @given(heaps, st.lists(st.integers(0, 8), max_size=8))
    def test_everybody_gets_as_many_as_wanted_and_nothing_is_dealt_twice(
        self, heap: Sequence[tuple[int, Sequence[int]]], wanted: list[int]
    ) -> None:
        total = sum(len(things) for _, things in heap)
        while sum(wanted) > total:
            wanted.pop()
        hands = dealt(heap, list(enumerate(wanted)))
        assert [len(hands[receiver]) for receiver in range(len(wanted))] == wanted
        assert len({thing for hand in hands.values() for thing in hand}) == sum(wanted)

    @given(heaps, st.integers(1, 5))
    def test_equal_wishes_get_the_same_of_every_kind_to_within_one(
        self, heap: Sequence[tuple[int, Sequence[int]]], receivers: int
    ) -> None:
        each = sum(len(things) for _, things in heap) // receivers
        hands = dealt(heap, [(receiver, each) for receiver in range(receivers)])
        for kind, _ in heap:
            counts = [sum(thing // 100 == kind for thing in hand) for hand in hands.values()]
            assert max(counts) - min(counts) <= 1

    def test_those_who_want_more_go_on_when_others_are_done(self) -> None:
        assert dealt([(0, range(6))], [(1, 1), (2, 3), (3, 2)]) == {1: [0], 2: [1, 3, 5], 3: [2, 4]}


class TestLevels:
    def classes(self, number: int) -> Classes:
        group = random_group(random.Random(f"levels/{number}"), Limits(members=20, topics=15))
        return classify(group, judge_claims(group), RackPreference.NONE)

    @pytest.mark.parametrize("number", range(100))
    def test_they_divide_the_group_and_none_can_help_a_lower_one(self, number: int) -> None:
        classes = self.classes(number)
        levels = find_levels(classes)
        level_of_cohort = {cohort: level for level in levels for cohort in level.cohorts}
        assert Counter(c for level in levels for c in level.cohorts) == Counter(range(len(classes.cohorts)))
        assert Counter(t for level in levels for t in level.topic_classes) == Counter(
            range(len(classes.topic_classes))
        )
        for level in levels:
            for number_of_class in level.topic_classes:
                subscribers = classes.topic_classes[number_of_class].cohorts
                # A partition that a lower level could take would be taken by it.
                assert min(level_of_cohort[cohort].load for cohort in subscribers) == level.load

    @pytest.mark.parametrize("number", range(100))
    def test_the_shares_give_every_member_of_a_level_its_load_or_one_more(self, number: int) -> None:
        classes = self.classes(number)
        for level in find_levels(classes):
            received = Counter({cohort: sum(shares.values()) for cohort, shares in level.shares.items()})
            given: Counter[int] = Counter()
            for cohort, shares in level.shares.items():
                given.update(shares)
                assert all(cohort in classes.topic_classes[number].cohorts for number in shares)
            assert given == {n: classes.topic_classes[n].partitions for n in level.topic_classes}
            assert received.keys() <= set(level.cohorts)
            for cohort in level.cohorts:
                size = len(classes.cohorts[cohort])
                assert level.load * size <= received[cohort] <= (level.load + 1) * size
            assert (
                sum(received.values())
                == level.load * sum(len(classes.cohorts[cohort]) for cohort in level.cohorts) + level.extra
            )


class TestNetwork:
    @pytest.mark.parametrize("seed", range(200))
    def test_everything_is_sent_as_cheaply_as_a_linear_program_finds_it(self, seed: int) -> None:
        rng = random.Random(seed)
        nodes = rng.randint(2, 9)
        arcs = [
            (tail, head, rng.randint(0, 6), rng.choice((0, 0, 1, 1, 2, 7)))
            for tail in range(nodes)
            for head in range(nodes)
            if tail != head and rng.random() < 0.5
        ]
        balances = [0] * nodes  # those of some flow, so that there is one
        for tail, head, capacity, _ in arcs:
            amount = rng.randint(0, capacity)
            balances[tail] += amount
            balances[head] -= amount
        network = Network()
        for balance in balances:
            network.node(balance)
        edges = [
            network.edge(*arc, carries=0 if arc[3] or rng.random() < 0.5 else rng.randint(0, arc[2]))
            for arc in arcs
        ]
        network.settle()
        flows = [network.flow(edge) for edge in edges]
        assert all(0 <= flow <= capacity for flow, (_, _, capacity, _) in zip(flows, arcs, strict=True))
        for (tail, head, _, _), flow in zip(arcs, flows, strict=True):
            balances[tail] -= flow
            balances[head] += flow
        assert not any(balances)
        for (tail, head, _, _), flow in zip(arcs, flows, strict=True):
            balances[tail] += flow
            balances[head] -= flow
        cost = sum(flow * price for flow, (_, _, _, price) in zip(flows, arcs, strict=True))
        assert cost == least_cost(balances, arcs)

    def test_a_fan_is_so_many_edges(self) -> None:
        network = Network()
        tail, near, far = network.node(5), network.node(-2), network.node(-3)
        first, second = network.fan(tail, [near, far], 1)
        network.settle()
        assert (network.flow(first), network.flow(second)) == (2, 3)

    @pytest.mark.parametrize("lacking", [1, 2])
    def test_what_cannot_be_sent_is_an_error(self, lacking: int) -> None:
        network = Network()
        giver = network.node(2)
        takers = [network.node(-2 // lacking) for _ in range(lacking)]
        network.edge(giver, takers[0], 1)
        with pytest.raises(ValueError, match="not everything can be sent"):
            network.settle()


def least_cost(balances: Sequence[int], arcs: Sequence[tuple[int, int, int, int]]) -> int:
    """What it costs at least to bring what lies at nodes to where it lacks."""
    if not arcs:
        return 0
    leaving = np.zeros((len(balances), len(arcs)))
    for column, (tail, head, _, _) in enumerate(arcs):
        leaving[tail, column] += 1
        leaving[head, column] -= 1
    solution = linprog(
        [price for _, _, _, price in arcs],
        A_eq=leaving,
        b_eq=balances,
        bounds=[(0, capacity) for _, _, capacity, _ in arcs],
        method="highs-ds",
    )
    return round(solution.fun)
