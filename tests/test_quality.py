"""The meaning of each measure of an assignment."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

import pytest

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.quality import RackTraffic, measure
from kafka_assignors.solver import least_moved, least_rack_misses
from kafka_assignors.strategies.sticky import CooperativeSticky

ORDERS = frozenset({"orders"})


def group(
    partitions: int,
    owned: Mapping[str, Sequence[int]],
    member_racks: Mapping[str, str] | None = None,
    replica_racks: Sequence[str] | None = None,
) -> Group:
    """A topic, and members with the partitions that they owned; a rack is a letter."""
    racks = None if replica_racks is None else tuple(frozenset(letters) for letters in replica_racks)
    members = [
        Member(m, ORDERS, owned={"orders": ps} if ps else {}, generation=1, rack=(member_racks or {}).get(m))
        for m, ps in owned.items()
    ]
    return Group.of([Topic("orders", partitions, racks)], members, 2)


def assignment(**members: Sequence[int]) -> Assignment:
    return Assignment({m: {"orders": ps} if ps else {} for m, ps in members.items()})


class TestBalance:
    def test_loads_are_over_all_members(self) -> None:
        quality = measure(group(4, {"a": [], "b": []}), assignment(a=[0, 1, 2, 3], b=[]))
        assert (quality.members, quality.partitions) == (2, 4)
        assert (quality.min_load, quality.max_load, quality.mean_load) == (0, 4, 2.0)
        assert (quality.max_over_mean, quality.load_stddev) == (2.0, 2.0)

    @pytest.mark.parametrize("owned", [{}, {"a": []}])
    def test_nothing_assigned_is_as_balanced_as_can_be(self, owned: Mapping[str, Sequence[int]]) -> None:
        quality = measure(group(0, owned), assignment(**owned))
        assert (quality.max_over_mean, quality.load_stddev, quality.mean_load) == (1.0, 0.0, 0.0)


class TestMovement:
    def test_every_partition_is_kept_moved_or_forced(self) -> None:
        quality = measure(group(5, {"a": [0, 1], "b": [2]}), assignment(a=[0, 3], b=[1, 2, 4]))
        assert (quality.kept, quality.moved, quality.forced) == (2, 1, 2)

    def test_a_partition_that_no_counted_claim_covers_is_forced(self) -> None:
        quality = measure(group(2, {"a": [0, 1], "b": [1]}), assignment(a=[0], b=[1]))
        assert (quality.kept, quality.moved, quality.forced) == (1, 0, 1)

    def test_ranges_and_lists_are_the_same_partitions(self) -> None:
        assert measure(group(3, {"a": range(3)}), assignment(a=[0, 1, 2])).kept == 3

    def test_the_least_movement_is_what_balance_needs(self) -> None:
        assert least_moved(group(9, {"a": [0, 1, 2, 3, 4], "b": [5, 6, 7, 8], "c": []})) == 3
        assert least_moved(group(4, {"a": [0, 1], "b": [2]})) == 0

    def test_the_best_strategy_moves_no_more(self) -> None:
        joined = group(10, {"a": range(10), "b": []})
        assert measure(joined, CooperativeSticky().assign(joined)).moved == least_moved(joined) == 5


class TestRacks:
    def test_a_miss_is_a_partition_without_a_replica_in_the_members_rack(self) -> None:
        racks = group(4, {"a": [], "b": []}, {"a": "x"}, ["x", "y", "xy", ""])
        assert measure(racks, assignment(a=[0, 1, 2, 3], b=[])).rack_misses == 1
        assert measure(racks, assignment(a=[0], b=[1, 2, 3])).rack_misses == 0

    @pytest.mark.parametrize(
        ("member_racks", "replica_racks"), [({}, ["x"]), ({"a": "x"}, None), ({"a": "x"}, [""])]
    )
    def test_rack_misses_are_not_counted_where_racks_are_unknown(
        self, member_racks: Mapping[str, str], replica_racks: Sequence[str] | None
    ) -> None:
        unknown = group(1, {"a": []}, member_racks, replica_racks)
        assert measure(unknown, assignment(a=[0])).rack_misses is None
        assert least_rack_misses(unknown) is None

    def test_the_fewest_misses_are_those_at_the_best_balance_for_any_owners(self) -> None:
        # All four partitions are in rack x, where only a is: two of them have to go to b, in rack y.
        one_sided = group(4, {"a": [], "b": [0, 1, 2, 3]}, {"a": "x", "b": "y"}, ["x", "x", "x", "x"])
        assert least_rack_misses(one_sided) == 2
        swapped = group(4, {"a": [2, 3], "b": [0, 1]}, {"a": "x", "b": "y"}, ["x", "x", "y", "y"])
        assert least_rack_misses(swapped) == 0
        assert measure(swapped, assignment(a=[2, 3], b=[0, 1])).rack_misses == 4


class TestRackTraffic:
    """Three partitions are in rack x and one in y; member a is in x, b in y."""

    RACKS: ClassVar = ["x", "x", "x", "y"]

    def weighted(self, *weights: int | None, owned: Mapping[str, Sequence[int]]) -> Group:
        plain = group(4, owned, {"a": "x", "b": "y"}, self.RACKS)
        topics = [dataclasses.replace(topic, weights=weights or None) for topic in plain.topics.values()]
        return Group.of(topics, plain.members.values(), plain.generation)

    def test_rack_traffic_is_measured_before_and_after(self) -> None:
        heavy = self.weighted(100, 20, 3, 4000, owned={"a": [0, 3], "b": [1, 2]})
        assert measure(heavy, assignment(a=[0, 1], b=[2, 3])).rack_traffic == RackTraffic(4023, 3, 0, 0)

    def test_an_unknown_weight_is_counted_and_not_guessed(self) -> None:
        partly = self.weighted(100, None, None, 4000, owned={"a": [3], "b": [1]})
        assert measure(partly, assignment(a=[0, 3], b=[1, 2])).rack_traffic == RackTraffic(4000, 4000, 1, 2)

    def test_a_partition_without_an_owner_crossed_no_racks_before(self) -> None:
        fresh = self.weighted(100, 20, 3, 4000, owned={"a": [], "b": []})
        assert measure(fresh, assignment(a=[0, 1], b=[2, 3])).rack_traffic == RackTraffic(0, 3, 0, 0)

    def test_rack_traffic_is_none_if_no_weight_or_no_rack_is_known(self) -> None:
        owned = {"a": [0, 3], "b": [1, 2]}
        for without in (self.weighted(owned=owned), self.weighted(*[None] * 4, owned=owned)):
            assert measure(without, assignment(**owned)).rack_traffic is None
        rackless = Group.of([Topic("orders", 1, weights=(7,))], [Member("a", ORDERS)])
        assert measure(rackless, assignment(a=[0])).rack_traffic is None


def test_an_invalid_assignment_can_be_measured_as_well() -> None:
    racks = group(1, {"a": [0]}, {"a": "x"}, ["y"])
    invalid = Assignment({"a": {"orders": [0, 7, -1], "unknown": [3]}, "stranger": {"orders": [0]}})
    assert measure(racks, invalid).rack_misses == 1
    assert measure(racks, Assignment({})).partitions == 0


def test_quality_becomes_json() -> None:
    quality = measure(group(1, {"a": [0]}), assignment(a=[0]))
    assert json.loads(json.dumps(dataclasses.asdict(quality)))["kept"] == 1
