"""The solver's parts, each by itself: dealing in rounds, levels, and the flow network."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from kafka_assignors.criteria import Scale
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.solver.classes import Classes, classify
from kafka_assignors.solver.distribution import deal
from kafka_assignors.solver.levels import apportion, find_levels
from kafka_assignors.solver.network import Network
from tests.exact_groups import Limits, random_group
from tests.exact_scales import random_scale

heaps = st.lists(st.integers(0, 12), max_size=6).map(
    lambda counts: [(kind, range(100 * kind, 100 * kind + count)) for kind, count in enumerate(counts)]
)


def dealt(
    heap: Sequence[tuple[int, Sequence[int]]], demands: Sequence[tuple[int, int]]
) -> dict[int, list[int]]:
    hands: dict[int, list[int]] = {receiver: [] for receiver, _ in demands}
    for kind, parts in deal(heap, demands):
        for receiver, things in parts:
            assert all(thing // 100 == kind for thing in things)
            hands[receiver] += things
    return hands


class TestDealing:
    @given(heaps, st.lists(st.integers(0, 8), max_size=8))
    def test_every_receiver_gets_as_many_as_wanted_and_no_item_is_dealt_twice(
        self, heap: Sequence[tuple[int, Sequence[int]]], wanted: list[int]
    ) -> None:
        total = sum(len(things) for _, things in heap)
        while sum(wanted) > total:
            wanted.pop()
        hands = dealt(heap, list(enumerate(wanted)))
        assert [len(hands[receiver]) for receiver in range(len(wanted))] == wanted
        assert len({thing for hand in hands.values() for thing in hand}) == sum(wanted)

    @given(heaps, st.integers(1, 5))
    def test_equal_demands_get_the_same_of_every_kind_to_within_one(
        self, heap: Sequence[tuple[int, Sequence[int]]], receivers: int
    ) -> None:
        each = sum(len(things) for _, things in heap) // receivers
        hands = dealt(heap, [(receiver, each) for receiver in range(receivers)])
        for kind, _ in heap:
            counts = [sum(thing // 100 == kind for thing in hand) for hand in hands.values()]
            assert max(counts) - min(counts) <= 1

    def test_receivers_that_want_more_go_on_when_others_are_done(self) -> None:
        heap = [(0, range(3)), (1, range(100, 103))]
        assert dealt(heap, [(1, 1), (2, 3), (3, 2)]) == {1: [0], 2: [1, 100, 102], 3: [2, 101]}

    def test_of_a_single_kind_every_receiver_gets_consecutive_items(self) -> None:
        assert dealt([(0, range(7))], [(1, 1), (2, 3), (3, 2)]) == {1: [0], 2: [1, 2, 3], 3: [4, 5]}


class TestLevels:
    def classes(self, number: int) -> Classes:
        group = random_group(random.Random(f"levels/{number}"), Limits(members=20, topics=15))
        return classify(group, group.claims)

    @pytest.mark.parametrize("number", range(100))
    def test_levels_divide_the_group_and_none_can_help_a_lower_one(self, number: int) -> None:
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
                # If a lower level could take a partition of this class, it would take it.
                assert min(level_of_cohort[c].loads[c] for c in subscribers) == level.loads[level.cohorts[0]]

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
                load, more = level.loads[cohort], cohort in level.optional
                assert load * size <= received[cohort] <= (load + more) * size
            sizes = {cohort: len(classes.cohorts[cohort]) for cohort in level.cohorts}
            surely = sum(load * sizes[cohort] for cohort, load in level.loads.items())
            assert sum(received.values()) == surely + level.extra
            assert level.extra < sum(sizes[cohort] for cohort in level.optional)


class TestLevelsOnScales(TestLevels):
    def classes(self, number: int) -> Classes:
        rng = random.Random(f"levels on scales/{number}")
        group = random_group(rng, Limits(members=20, topics=15))
        return classify(group, group.claims, random_scale(rng, group))

    @pytest.mark.parametrize("number", range(100))
    def test_levels_divide_the_group_and_none_can_help_a_lower_one(self, number: int) -> None:
        classes = self.classes(number)
        level_of_cohort = {cohort: level for level in find_levels(classes) for cohort in level.cohorts}
        for serving, level in level_of_cohort.items():
            has_some = level.loads[serving] + (serving in level.optional and level.extra > 0)
            dearest = step_cost(classes, serving, has_some) if has_some else 0
            for number_of_class in level.topic_classes:
                for cohort in classes.topic_classes[number_of_class].cohorts:
                    if cohort not in level.cohorts:
                        load = level_of_cohort[cohort].loads[cohort]
                        assert step_cost(classes, cohort, load + 1) >= dearest


def step_cost(classes: Classes, cohort: int, nth: int) -> Fraction:
    """The increase of the weighted sum of squares by a member's n-th partition, computed from the rule."""
    before, after = (Fraction((load + classes.already[cohort]) ** 2) for load in (nth - 1, nth))
    return (after - before) / classes.capacities[cohort]


class TestApportionment:
    """The cheapest steps, if every member could get any of them."""

    def classes(self, members: Sequence[tuple[int, int]]) -> Classes:
        names = [f"m{number:02}" for number in range(len(members))]
        scale = Scale(
            {name: capacity for name, (capacity, _) in zip(names, members, strict=True)},
            {name: already for name, (_, already) in zip(names, members, strict=True)},
        )
        group = Group.of([Topic("t", 1)], [Member(name, frozenset({"t"})) for name in names])
        return classify(group, group.claims, scale)

    def test_apportionment_is_the_method_of_sainte_lague(self) -> None:
        # Divided by 1, 3, 5 …: 53, 24, 23, 17 2/3, 10 3/5, 8 and 7 2/3 are the seven greatest quotients.
        classes = self.classes([(53, 0), (24, 0), (23, 0)])
        assert apportion(classes, (0, 1, 2), 7) == ({0: 3, 1: 2, 2: 2}, {0}, 0)
        assert apportion(classes, (0, 1, 2), 6)[0] == {0: 3, 1: 2, 2: 1}

    def test_steps_of_equal_cost_are_left_open(self) -> None:
        # The second partition of a member of capacity 3 costs as much as the first one at capacity 1.
        classes = self.classes([(1, 0), (3, 0), (1, 0)])
        loads, optional, extra = apportion(classes, (0, 1), 3)
        assert (loads, optional, extra) == ({0: 0, 1: 1}, {0, 1}, 2)

    def test_a_quota_may_be_left_where_that_is_better(self) -> None:
        # The quotas are 95.24 and 0.95 each: if all five get 1, 95 are left for the large member.
        loads, _, extra = apportion(self.classes([(100, 0), *[(1, 0)] * 5]), (0, 1), 100)
        assert (loads, extra) == ({0: 95, 1: 1}, 0)
        # The quotas are 49 and 0.98 each: every small member gets 1, since 1 is nearer than 0.
        loads, _, extra = apportion(self.classes([(50, 0), *[(1, 0)] * 50]), (0, 1), 98)
        assert (loads, extra) == ({0: 48, 1: 1}, 0)

    @given(
        st.lists(st.tuples(st.integers(1, 12), st.integers(0, 9)), min_size=1, max_size=8),
        st.integers(0, 120),
    )
    def test_apportioned_steps_are_the_cheapest_of_all_steps(
        self, members: list[tuple[int, int]], total: int
    ) -> None:
        classes = self.classes(members)
        cohorts = range(len(classes.cohorts))
        loads, optional, extra = apportion(classes, cohorts, total)
        sizes = [len(cohort) for cohort in classes.cohorts]
        assert sum(load * sizes[cohort] for cohort, load in loads.items()) + extra == total
        assert 0 <= extra < sum(sizes[cohort] for cohort in optional)
        taken = [step_cost(classes, cohort, load) for cohort, load in loads.items() if load]
        following = {cohort: step_cost(classes, cohort, load + 1) for cohort, load in loads.items()}
        cheapest = min(following.values())
        assert optional == {cohort for cohort, cost in following.items() if cost == cheapest}
        assert max(taken, default=cheapest) <= cheapest


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
        balances = [0] * nodes  # the balances of a random flow, so a solution exists
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
    def test_a_network_that_cannot_send_all_its_supply_raises_an_error(self, lacking: int) -> None:
        network = Network()
        giver = network.node(2)
        takers = [network.node(-2 // lacking) for _ in range(lacking)]
        network.edge(giver, takers[0], 1)
        with pytest.raises(ValueError, match="not everything can be sent"):
            network.settle()


def least_cost(balances: Sequence[int], arcs: Sequence[tuple[int, int, int, int]]) -> int:
    """The least cost of moving the supply of nodes to those with demand."""
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
