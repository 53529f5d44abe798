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
            received: Counter[int] = Counter()
            for topic_class, shares in level.shares.items():
                assert sum(shares.values()) == classes.topic_classes[topic_class].partitions
                received.update({cohort: share for cohort, share in shares.items() if share})
            assert received.keys() <= set(level.cohorts)
            for cohort in level.cohorts:
                size = len(classes.cohorts[cohort])
                assert level.load * size <= received[cohort] <= (level.load + 1) * size
            assert (
                sum(received.values())
                == level.load * sum(len(classes.cohorts[cohort]) for cohort in level.cohorts) + level.extra
            )


class TestNetwork:
    @pytest.mark.parametrize("seed", range(100))
    def test_the_flow_is_as_large_and_as_cheap_as_a_linear_program_finds_it(self, seed: int) -> None:
        rng = random.Random(seed)
        nodes = rng.randint(2, 8)
        network = Network()
        numbers = [network.node() for _ in range(nodes)]
        source, sink = numbers[0], numbers[-1]
        arcs = [
            (tail, head, rng.randint(0, 6), rng.choice((0, 0, 1, 1, 2, 7)))
            for tail in numbers
            for head in numbers
            if tail != head and head != source and tail != sink and rng.random() < 0.5
        ]
        edges = [network.edge(*arc) for arc in arcs]
        network.send(source, sink)
        flows = [network.flow(edge) for edge in edges]
        for node in numbers[1:-1]:
            into = sum(flow for flow, (_, head, _, _) in zip(flows, arcs, strict=True) if head == node)
            out = sum(flow for flow, (tail, _, _, _) in zip(flows, arcs, strict=True) if tail == node)
            assert into == out
        value = sum(flow for flow, (_, head, _, _) in zip(flows, arcs, strict=True) if head == sink)
        cost = sum(flow * price for flow, (_, _, _, price) in zip(flows, arcs, strict=True))
        assert (value, cost) == largest_and_cheapest(nodes, arcs)

    def test_a_flow_that_is_there_is_gone_on_from(self) -> None:
        network = Network()
        source, left, right, sink = (network.node() for _ in range(4))
        network.edge(source, left, 2, carries=1)
        over = network.edge(left, right, 1, carries=1)
        network.edge(right, sink, 1, carries=1)
        network.edge(source, right, 1)
        around = network.edge(left, sink, 2, 5)
        network.send(source, sink)
        assert network.flow(around) == 2
        assert network.flow(over) == 0


def largest_and_cheapest(nodes: int, arcs: Sequence[tuple[int, int, int, int]]) -> tuple[int, int]:
    """The value and the cost of a cheapest largest flow from the first node to the last."""
    if not arcs:
        return 0, 0
    # A unit that arrives outweighs any path's cost.
    costs = [price - (1000 if head == nodes - 1 else 0) for _, head, _, price in arcs]
    balance = np.zeros((nodes - 2, len(arcs)))
    for column, (tail, head, _, _) in enumerate(arcs):
        if 0 < tail < nodes - 1:
            balance[tail - 1, column] = 1
        if 0 < head < nodes - 1:
            balance[head - 1, column] = -1
    equal = {"A_eq": balance, "b_eq": np.zeros(nodes - 2)} if nodes > 2 else {}
    solution = linprog(
        costs, bounds=[(0, capacity) for _, _, capacity, _ in arcs], method="highs-ds", **equal
    )
    flows = np.rint(solution.x).astype(int)
    value = sum(int(flow) for flow, (_, head, _, _) in zip(flows, arcs, strict=True) if head == nodes - 1)
    return value, sum(int(flow) * price for flow, (_, _, _, price) in zip(flows, arcs, strict=True))
