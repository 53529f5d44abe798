"""The meaning of each measure of an assignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.quality import measure
from kafka_assignors_replay.history.group_replay import least_rack_misses

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
