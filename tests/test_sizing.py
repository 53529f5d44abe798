"""The number of members that a group needs: brute force, certificates, scale and hostile input."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.certificate import CertificateError
from kafka_assignors.certificate.size import SizeBound, SizeCertificate, check_size, members_by
from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.makespan.jobs import NO_OWNER
from kafka_assignors.sizing import Look, SizeError, of_kind, rates_from, size_group
from kafka_assignors.sizing.moves import Present, fewest_moves
from kafka_assignors.sizing.packing import Packing, pack

ROUNDS = 2_000


def instances(seed: int, most: int) -> Iterator[tuple[list[int], int]]:
    """Costs in descending order, none above the limit, with the limit."""
    rng = random.Random(seed)
    for _ in range(ROUNDS):
        limit = rng.choice([5, 10, 20, 50, 100, 1000, 10**18])
        heavy = rng.random()
        costs = [
            rng.randint(1, limit if rng.random() < heavy else max(1, limit // 2))
            for _ in range(rng.randint(1, most))
        ]
        yield sorted(costs, reverse=True), limit


def fewest_by_trying(costs: Sequence[int], limit: int) -> int:
    """The fewest members, by trying all assignments except permutations of the members."""

    def least(at: int, loads: list[int], best: int) -> int:
        if len(loads) >= best or at == len(costs):
            return min(best, len(loads))
        for place in range(len(loads)):
            if loads[place] + costs[at] <= limit and loads[place] not in loads[:place]:
                loads[place] += costs[at]
                best = least(at + 1, loads, best)
                loads[place] -= costs[at]
        loads.append(costs[at])
        best = least(at + 1, loads, best)
        loads.pop()
        return best

    return least(0, [], len(costs))


def fewest_moves_by_trying(present: Present, members: int, limit: int) -> int:
    best = len(present.costs) + 1

    def place(at: int, rooms: dict[int, int], moved: int) -> None:
        nonlocal best
        if moved >= best:
            return
        if at == len(present.costs):
            best = moved
            return
        for member in rooms:
            if rooms[member] >= present.costs[at]:
                rooms[member] -= present.costs[at]
                place(at + 1, rooms, moved + (present.owners[at] not in (NO_OWNER, member)))
                rooms[member] += present.costs[at]

    for leaving in combinations(range(present.members), max(0, present.members - members)):
        staying = [member for member in range(present.members) if member not in leaving]
        new = range(present.members, present.members + members - len(staying))
        place(0, dict.fromkeys([*staying, *new], limit), 0)
    return best


def certificate_of(packing: Packing, limit: int) -> SizeCertificate:
    return SizeCertificate(limit, [{"orders": each} for each in packing.bins], packing.least, packing.bound)


def group_of(weights: Sequence[int | None], members: int = 0) -> Group:
    """Members that own the partitions of one topic in turn."""
    owned = {f"m{number}": [*range(number, len(weights), members)] for number in range(members)}
    return Group.of(
        [Topic("orders", len(weights), weights=tuple(weights))],
        [Member(name, {"orders"}, owned={"orders": each}, generation=1) for name, each in owned.items()],
        2,
    )


class TestSize:
    def test_it_is_the_fewest_and_an_independent_check_confirms_it(self) -> None:
        searched = 0
        for costs, limit in instances(1, 9):
            packing = pack(costs, limit)
            assert len(packing.bins) == packing.least == fewest_by_trying(costs, limit), (costs, limit)
            check_size({"orders": costs}, certificate_of(packing, limit))
            searched += packing.bound is None
        assert searched > 5  # The bounds do not decide every case.

    def test_without_a_search_the_gap_is_told_and_at_most_one(self) -> None:
        gaps = 0
        for costs, limit in instances(2, 9):
            packing = pack(costs, limit, nodes=0)
            fewest = fewest_by_trying(costs, limit)
            assert packing.least <= fewest <= len(packing.bins) <= packing.least + 1
            gaps += len(packing.bins) > packing.least
        assert gaps

    @given(st.lists(st.integers(1, 10**18), min_size=1, max_size=200), st.randoms(use_true_random=False))
    def test_the_order_of_the_costs_changes_nothing(self, costs: list[int], rng: random.Random) -> None:
        limit = max(costs)
        shuffled = rng.sample(costs, len(costs))
        one, other = pack(costs, limit, nodes=500), pack(shuffled, limit, nodes=500)
        assert (len(one.bins), one.least, one.bound) == (len(other.bins), other.least, other.bound)
        assert sorted(number for each in one.bins for number in each) == list(range(len(costs)))
        assert all(sum(costs[number] for number in each) <= limit for each in one.bins)

    @pytest.mark.parametrize("shape", ["pareto", "uniform", "few"])
    def test_twelve_members_and_two_hundred_partitions_are_decided(self, shape: str) -> None:
        rng = random.Random(shape)
        for _ in range(10):
            costs = costs_of(rng, shape, 200)
            packing = pack(costs, max(*costs, int(sum(costs) / (12 - rng.random()))))
            assert len(packing.bins) == packing.least

    @pytest.mark.parametrize("shape", ["pareto", "few"])
    def test_two_hundred_members_are_at_most_one_above_the_bound(self, shape: str) -> None:
        costs = costs_of(random.Random(3), shape, 2_000)
        limit = int(sum(costs) / 199.5)
        packing = pack(costs, limit)
        assert len(packing.bins) - packing.least <= 1
        check_size({"orders": costs}, certificate_of(packing, limit))


def costs_of(rng: random.Random, shape: str, count: int) -> list[int]:
    if shape == "pareto":
        return [int(1000 * min(15.0, rng.paretovariate(2))) for _ in range(count)]
    return [
        rng.randint(1, 1000) if shape == "uniform" else rng.choice([100, 130, 210, 370]) for _ in range(count)
    ]


class TestCertificate:
    COSTS = {"orders": [6, 5, 5, 4, 3], "clicks": [7, 0]}  # noqa: RUF012
    GOOD = SizeCertificate(
        10,
        [{"orders": [0, 3], "clicks": [1]}, {"orders": [1, 2]}, {"orders": [4], "clicks": [0]}],
        3,
        SizeBound(),
    )

    def test_it_holds(self) -> None:
        check_size(self.COSTS, self.GOOD)
        check_size(self.COSTS, replace(self.GOOD, bound=None))
        check_size({}, SizeCertificate(10, [], 0, SizeBound()))

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"limit": 9}, "above the limit"),
            ({"members": [{"orders": [0, 1, 2]}, {"orders": [3, 4]}, {"clicks": [0, 1]}]}, "above the limit"),
            ({"members": GOOD.members[:2]}, "with no member"),
            ({"members": [*GOOD.members, {"orders": [0]}]}, "with two members"),
            ({"members": [*GOOD.members, {"orders": [5]}]}, "has no cost"),
            ({"members": [*GOOD.members, {"orders": [-1]}]}, "has no cost"),
            ({"members": [*GOOD.members, {"audit": [0]}]}, "has no cost"),
            ({"least": 4}, "shows that 3 members are needed, and not 4"),
            ({"least": 4, "bound": None}, "3 members suffice"),
            ({"bound": SizeBound(divisor=2)}, "multiples of 2"),
            ({"bound": SizeBound(divisor=0)}, "multiples of 0"),
            ({"bound": SizeBound(threshold=6)}, "is no bound"),
            ({"bound": SizeBound(threshold=-1)}, "is no bound"),
            ({"bound": SizeBound(parts=-1)}, "is no bound"),
        ],
    )
    def test_a_change_is_refused(self, change: dict[str, object], said: str) -> None:
        with pytest.raises(CertificateError, match=said):
            check_size(self.COSTS, replace(self.GOOD, **change))  # type: ignore[arg-type]

    def test_a_search_that_is_too_long_confirms_nothing(self) -> None:
        costs, limit, packing = next(
            (costs, limit, packing)
            for costs, limit in instances(1, 9)
            if (packing := pack(costs, limit)).bound is None
        )
        with pytest.raises(CertificateError, match="cannot confirm within 1 steps"):
            check_size({"orders": costs}, certificate_of(packing, limit), nodes=1)

    def test_every_bound_of_the_family_is_one(self) -> None:
        for costs, limit in instances(4, 8):
            fewest = fewest_by_trying(costs, limit)
            for parts in range(6):
                for threshold in {0, *(cost for cost in costs if 2 * cost <= limit)}:
                    assert members_by(costs, limit, SizeBound(1, threshold, parts)) <= fewest


class TestMoves:
    def test_they_are_the_fewest(self) -> None:
        rng = random.Random(5)
        for costs, limit in list(instances(6, 7))[:600]:
            members = rng.randint(0, 4)
            owners = [rng.randint(-1, members - 1) for _ in costs]
            present, bins = Present(costs, owners, members), pack(costs, limit).bins
            fewest = fewest_moves_by_trying(present, len(bins), limit)
            searched, quick = (fewest_moves(present, bins, limit, nodes) for nodes in (200_000, 0))
            assert searched.moved == searched.least == fewest
            assert quick.least <= fewest <= quick.moved
            for moves in (searched, quick):
                loads: dict[int, int] = {}
                for holder, cost in zip(moves.holders, costs, strict=True):
                    loads[holder] = loads.get(holder, 0) + cost
                assert max(loads.values()) <= limit
                assert len(loads) <= len(bins)
                assert not set(loads) & set(moves.leaving)

    def test_nothing_moves_where_the_present_assignment_is_right(self) -> None:
        change = size_group(group_of([4, 4, 4, 4], 2), 8).change
        assert change is not None
        assert (change.moved, change.added, change.removed) == (0, (), ())

    def test_members_come_with_names_that_are_free(self) -> None:
        group = group_of([9, 9, 9])
        member = Member("new-1", {"orders"}, owned={"orders": [0]}, generation=1)
        change = size_group(Group(group.topics, {"new-1": member}, 2), 10).change
        assert change is not None
        assert change.added == ("new-2", "new-3")
        assert change.assignment.members["new-1"] == {"orders": [0]}


class TestGroup:
    def test_one_member_less_has_a_price(self) -> None:
        size = size_group(group_of([6, 6, 6, 6], 2), 12)
        assert (size.members, size.greatest_now) == (2, 12)
        down = size.step_down
        assert down is not None
        assert (down.members, down.greatest, down.least_greatest) == (1, 24, 24)
        assert (down.could_stay, down.moved, down.vacated) == (2, 0, 2)

    def test_a_partition_that_is_too_heavy_is_named_and_alone(self) -> None:
        size = size_group(group_of([30, 4, 4, 50], 1), 10)
        assert [(one.partition, one.cost) for one in size.too_heavy] == [(3, 50), (0, 30)]
        assert (size.members, size.least, size.change, size.step_down) == (3, 3, None, None)

    @pytest.mark.parametrize(
        ("weights", "members"), [([], 0), ([0], 1), ([0] * 50, 1), ([10**18] * 3, 3), ([None, 10, None], 3)]
    )
    def test_odd_costs(self, weights: list[int | None], members: int) -> None:
        limit = 10**18 if weights[:1] == [10**18] else 10
        size = size_group(group_of(weights), limit)
        assert (size.members, size.least) == (members, members)
        check_size(size.costs, size.certificate)

    def test_partitions_without_cost_are_shared_out(self) -> None:
        size = size_group(group_of([10, 10, *[0] * 40]), 10)
        assert sorted(len(each["orders"]) for each in size.certificate.members) == [21, 21]

    def test_without_any_cost_or_room_there_is_no_size(self) -> None:
        with pytest.raises(SizeError, match="no cost of the 2 partitions is known"):
            size_group(group_of([None, None]), 10)
        with pytest.raises(SizeError, match="at least 1, not 0"):
            size_group(group_of([1]), 0)

    def test_kinds_of_members_are_sized_apart(self) -> None:
        topics = [Topic("a", 2, weights=(5, 5)), Topic("b", 1, weights=(9,)), Topic("empty", 0, weights=())]
        members = [Member("x", {"a", "empty"}), Member("y", {"a", "b"}), Member("z", {"gone"})]
        group = Group.of(topics, members)
        with pytest.raises(SizeError, match=r"2 different subscriptions.* of a, a,b"):
            of_kind(group)
        assert size_group(of_kind(group, frozenset({"a"})), 10).members == 1
        both = of_kind(group, frozenset({"a", "b"}))
        assert set(both.members) == {"y"}
        assert size_group(both, 10).members == 2
        with pytest.raises(SizeError, match="no member subscribes to exactly these"):
            of_kind(group, frozenset({"b"}))
        with pytest.raises(SizeError, match="there is no topic 'c'"):
            of_kind(group, frozenset({"c"}))


class TestRates:
    TOPICS = {"orders": 4}  # noqa: RUF012

    def test_growth_and_lag(self) -> None:
        first = Look(100.0, {"orders": {0: 10, 1: 10, 2: 500}}, {"orders": {0: 5, 1: 10}})
        second = Look(110.0, {"orders": {0: 60, 1: 11, 2: 0, 3: 9}}, {"orders": {0: 40, 1: 4}})
        rates = rates_from(first, second, self.TOPICS)
        assert rates.costs == {"orders": [5_000, 100, None, None]}
        assert (rates.lag, rates.without_commit) == (27, 2)
        assert rates.most_consumed({"a": {"orders": [0, 1]}, "b": {"orders": [2, 3]}}) == 3_500
        assert rates.most_consumed({}) == 0
        assert rates_from(first, second, self.TOPICS, 20.0).costs["orders"][:2] == [6_000, 450]

    def test_a_slow_partition_does_not_count_as_none(self) -> None:
        first, second = Look(0.0, {"orders": {0: 0}}, {}), Look(86_400.0, {"orders": {0: 1}}, {})
        assert rates_from(first, second, {"orders": 1}).costs == {"orders": [1]}

    @pytest.mark.parametrize("at_s", [0.0, -1.0, float("nan"), float("inf")])
    def test_looks_in_the_wrong_order_are_refused(self, at_s: float) -> None:
        with pytest.raises(ValueError, match="has to be after the first"):
            rates_from(Look(0.0, {}, {}), Look(at_s, {}, {}), self.TOPICS)

    @pytest.mark.parametrize("drain_s", [0.0, -1.0, float("nan"), float("inf")])
    def test_a_time_to_drain_that_makes_no_sense_is_refused(self, drain_s: float) -> None:
        with pytest.raises(ValueError, match="time to drain"):
            rates_from(Look(0.0, {}, {}), Look(1.0, {}, {}), self.TOPICS, drain_s)
