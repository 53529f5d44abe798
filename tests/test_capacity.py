"""`capacity`: what members announce, how it affects the assignment, and members that announce nothing."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_assignors.announcements import MOST_CAPACITY, Facts, decode_facts, encode_facts
from kafka_assignors.criteria import Scale
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.quality import measure
from kafka_assignors.strategies import Capacity, MemberContext, load_strategy
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors_strategies.composed import Composed
from kafka_assignors_strategies.rules import FewestMoves, FewestRackMisses, KeepTogether, LevelByCapacity

ORDERS = frozenset({"orders"})


def announcing(name: str, capacity: int | None) -> Member:
    return Member(name, ORDERS, data=encode_facts(Facts(capacity=capacity)))


def group_of(*members: Member, partitions: int = 12) -> Group:
    return Group.of([Topic("orders", partitions)], members, 8)


def loads(group: Group, assignment: Assignment) -> dict[str, int]:
    return {name: assignment.load(name) for name in group.members}


class TestAMember:
    @pytest.mark.parametrize("capacity", [1, 4, 10_000])
    def test_announces_its_capacity(self, capacity: int) -> None:
        data = Capacity(capacity).member_data(MemberContext(ORDERS))
        assert decode_facts(data) == Facts(capacity=capacity)

    def test_without_one_announces_nothing(self) -> None:
        assert Capacity().member_data(MemberContext(ORDERS)) == b""

    @pytest.mark.parametrize("capacity", [0, -1, MOST_CAPACITY + 1, 1.5, "4", True, float("nan")])
    def test_has_a_capacity_that_is_a_whole_number_from_1_to_10000(self, capacity: Any) -> None:
        with pytest.raises((TypeError, ValueError), match=r"a capacity is .* 1 (to|and) 10000, not"):
            Capacity(capacity)


class TestAGroup:
    def test_is_assigned_in_proportion_and_counts_a_member_that_announces_nothing_as_1(self) -> None:
        group = group_of(announcing("m1", None), announcing("m2", 3))
        assert loads(group, Capacity().assign(group)) == {"m1": 3, "m2": 9}
        assert Capacity().findings(group) == (
            "1 of 2 members announce no capacity and count as 1, the first being 'm1'",
        )
        assert Capacity().findings(group_of(announcing("m1", 1), announcing("m2", 3))) == ()

    def test_with_the_widest_range_of_capacities_is_assigned_exactly(self) -> None:
        group = group_of(announcing("m1", 1), announcing("m2", MOST_CAPACITY), partitions=5001)
        # 5001 or 5000 and 1: 5001² / 10000 is just more than 5000² / 10000 + 1
        assert loads(group, Capacity().assign(group)) == {"m1": 1, "m2": 5000}
        group = group_of(announcing("m1", 1), announcing("m2", MOST_CAPACITY), partitions=5000)
        assert loads(group, Capacity().assign(group)) == {"m1": 0, "m2": 5000}


def test_quality_compares_loads_with_shares() -> None:
    group = group_of(announcing("m1", 1), announcing("m2", 2))
    scale = Capacity().balance_scale(group)
    fair = Assignment({"m1": {"orders": [0, 1, 2, 3]}, "m2": {"orders": list(range(4, 12))}})
    equal = Assignment({"m1": {"orders": list(range(6))}, "m2": {"orders": list(range(6, 12))}})
    assert measure(group, fair, scale=scale).max_over_share == 1.0
    assert measure(group, equal, scale=scale).max_over_share == 1.5
    assert measure(group, Assignment({"m1": {}, "m2": {}}), scale=scale).max_over_share == 1.0
    assert measure(group, equal).max_over_share is None


class TestARule:
    """`LevelByCapacity` as a rule of a composed strategy."""

    RULES = (LevelByCapacity(), FewestMoves(), FewestRackMisses())

    def test_goes_with_topics_that_stay_together(self) -> None:
        members = [
            Member(name, frozenset({"a", "b"}), data=encode_facts(Facts(capacity=capacity)))
            for name, capacity in (("m1", 1), ("m2", 3))
        ]
        group = Group.of([Topic("a", 4), Topic("b", 4)], members)
        composed = Composed("mine", (KeepTogether([["a", "b"]]), *self.RULES))
        assert loads(group, composed.assign(group)) == {"m1": 2, "m2": 6}


def test_capacity_runs_under_either_protocol() -> None:
    assert load_strategy("capacity") == Capacity()
    assert Capacity.protocols == (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    assert Capacity(3).balance_scale(group_of(announcing("m1", 4), announcing("m2", None))) == Scale(
        {"m1": 4}
    )
