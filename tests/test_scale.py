"""Members with different capacities, or with partitions already: properties of every assignment."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.criteria import PLAIN, Criteria, InvalidScaleError, Scale
from kafka_assignors.group import Assignment, Group
from kafka_assignors.solver import solve
from tests.any_group import groups, seeds
from tests.exact_comparison import ORDERS, Plain, owning, plain
from tests.exact_groups import random_group
from tests.exact_oracle import Oracle, assert_best
from tests.exact_scales import random_scale

# Trades have their own test: each trade has its own order.
preferences = st.sampled_from(ORDERS)


@st.composite
def scaled(draw: st.DrawFn) -> tuple[Group, Scale]:
    """Any group, with a scale."""
    rng = random.Random(draw(seeds))
    group = random_group(rng)
    return group, random_scale(rng, group)


def assign(group: Group, racks: Criteria, scale: Scale = PLAIN) -> Plain:
    return plain(solve(group, group.claims, criteria=racks, scale=scale))


class TestWhateverTheScale:
    @given(scaled(), preferences)
    def test_no_assignment_is_better(self, case: tuple[Group, Scale], racks: Criteria) -> None:
        group, scale = case
        assert_best(group, solve(group, group.claims, criteria=racks, scale=scale), racks, scale)

    @given(scaled(), preferences)
    def test_any_optimal_prior_assignment_is_left_as_it_is(
        self, case: tuple[Group, Scale], racks: Criteria
    ) -> None:
        group, scale = case
        best: Plain = {member_id: {} for member_id in group.members}
        for (topic, partition), member_id in sorted(Oracle(group, scale).best_owners(racks).items()):
            best[member_id].setdefault(topic, []).append(partition)
        assert assign(owning(group, Assignment(best)), racks, scale) == best

    @given(scaled(), preferences, st.integers(2, 9))
    def test_only_the_ratios_of_capacities_matter(
        self, case: tuple[Group, Scale], racks: Criteria, factor: int
    ) -> None:
        group, scale = case
        greater = Scale({id: scale.capacity(id) * factor for id in group.members}, scale.already)
        assert assign(group, racks, greater) == assign(group, racks, scale)

    @given(groups, preferences, st.integers(1, 1000))
    def test_members_of_equal_capacity_are_assigned_as_without_capacities(
        self, group: Group, racks: Criteria, capacity: int
    ) -> None:
        assert assign(group, racks, Scale(dict.fromkeys(group.members, capacity))) == assign(group, racks)


@pytest.mark.parametrize("capacity", [0, -1, 1.5, "2", True, None])
def test_a_capacity_is_a_positive_whole_number(capacity: object) -> None:
    with pytest.raises(InvalidScaleError, match=r"the capacity of member 'm1' is .*, not a positive whole"):
        Scale({"m1": capacity})  # type: ignore[dict-item]


@pytest.mark.parametrize("load", [-1, 0.5, "2", None])
def test_an_invalid_number_of_existing_partitions_is_refused(load: object) -> None:
    with pytest.raises(InvalidScaleError, match=r"member 'm1' has .* partitions already"):
        Scale(already={"m1": load})  # type: ignore[dict-item]
