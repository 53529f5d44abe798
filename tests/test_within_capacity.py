"""Loads within a capacity: never above it, and in small groups with the least possible moved weight."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import pytest

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.makespan.jobs import NO_OWNER, Jobs
from kafka_assignors.makespan.within_capacity import keep_within
from kafka_assignors.strategies import Weighted


def jobs_of(
    weights: Sequence[int],
    owners: Sequence[int],
    members: int,
    class_of: Sequence[int] | None = None,
    cohorts: Sequence[Sequence[int]] | None = None,
    takers: Sequence[Sequence[int]] = ((0,),),
) -> Jobs:
    cohorts = [list(range(members))] if cohorts is None else cohorts
    cohort_of = [NO_OWNER] * members
    for cohort, numbers in enumerate(cohorts):
        for number in numbers:
            cohort_of[number] = cohort
    return Jobs(
        weights, class_of or [0] * len(weights), owners, cohorts, cohort_of, takers, base=[0] * members
    )


def random_jobs(rng: random.Random, members: int, partitions: int) -> Jobs:
    """Members with one subscription, or with two: one covers only class 1, the other all partitions."""
    cohort_of = [rng.randrange(2) for _ in range(members)]
    cohorts = [[member for member in range(members) if cohort_of[member] == cohort] for cohort in range(2)]
    if rng.random() < 0.5 or not cohorts[1]:
        cohorts, takers, cohort_of = [list(range(members))], [[0], [0]], [0] * members
    else:
        takers = [[1], [0, 1]]
    class_of = [rng.randrange(2) for _ in range(partitions)]
    owners = [
        rng.choice([NO_OWNER, *3 * [member for cohort in takers[number] for member in cohorts[cohort]]])
        for number in class_of
    ]
    weights = [rng.randint(1, 40) for _ in range(partitions)]
    return jobs_of(weights, owners, members, class_of, cohorts, takers)


def loads_of(jobs: Jobs, holders: Sequence[int]) -> list[int]:
    loads = list(jobs.base)
    for weight, holder in zip(jobs.weights, holders, strict=True):
        loads[holder] += weight
    return loads


def moved_weight(jobs: Jobs, holders: Sequence[int]) -> int:
    return sum(
        weight
        for weight, owner, holder in zip(jobs.weights, jobs.owners, holders, strict=True)
        if owner not in (NO_OWNER, holder)
    )


def may_hold(jobs: Jobs, holders: Sequence[int]) -> bool:
    return all(
        jobs.cohort_of[holder] in jobs.takers[number]
        for number, holder in zip(jobs.class_of, holders, strict=True)
    )


def least_moved(jobs: Jobs, capacity: int) -> int | None:
    """The least moved weight of all assignments; None if none is within the capacity."""
    every = itertools.product(range(len(jobs.base)), repeat=len(jobs.weights))
    within = (
        moved_weight(jobs, holders)
        for holders in every
        if may_hold(jobs, holders) and max(loads_of(jobs, holders)) <= capacity
    )
    return min(within, default=None)


def test_in_small_groups_no_assignment_within_the_capacity_moves_less_weight() -> None:
    found_any = found_none = moved_any = 0
    for number in range(400):
        rng = random.Random(f"within/{number}")
        jobs = random_jobs(rng, rng.randint(1, 4), rng.randint(1, 6))
        capacity = max(*jobs.weights, 0, int(sum(jobs.weights) / len(jobs.base) * rng.uniform(1, 1.6)))
        least, found = least_moved(jobs, capacity), keep_within(jobs, capacity)
        if least is None:
            assert found is None, number
            found_none += 1
            continue
        assert found is not None, number
        assert may_hold(jobs, found)
        assert max(loads_of(jobs, found)) <= capacity
        assert moved_weight(jobs, found) == least, number
        found_any += 1
        moved_any += least > 0
    assert min(found_any - moved_any, found_none, moved_any) > 20


def test_in_larger_groups_loads_stay_within_the_capacity_and_the_result_rests() -> None:
    repacked = 0
    for number in range(60):
        rng = random.Random(f"larger/{number}")
        jobs = random_jobs(rng, rng.randint(5, 30), rng.randint(40, 120))
        capacity = max(*jobs.weights, int(sum(jobs.weights) / len(jobs.base) * rng.uniform(1.02, 1.5)))
        found = keep_within(jobs, capacity)
        if found is None:
            continue
        assert may_hold(jobs, found)
        assert max(loads_of(jobs, found)) <= capacity
        settled = jobs_of(jobs.weights, found, len(jobs.base), jobs.class_of, jobs.cohorts, jobs.takers)
        assert keep_within(settled, capacity) == found
        repacked += moved_weight(jobs, found) > sum(jobs.weights) / 4
    assert repacked > 5


def test_nothing_moves_while_every_load_is_within_the_capacity() -> None:
    jobs = jobs_of([90, 60, 40, 1], [0, 1, 1, NO_OWNER], 3)
    assert keep_within(jobs, 100) == [0, 1, 1, 2]


def test_the_lightest_set_that_is_enough_moves_not_the_first() -> None:
    # The first member has 110: moving 20 or 30 is enough, moving 8 is not.
    assert keep_within(jobs_of([52, 30, 20, 8, 50], [0, 0, 0, 0, 1], 2), 100) == [0, 0, 1, 0, 1]


def test_a_partition_that_fits_nowhere_takes_the_place_of_a_lighter_one() -> None:
    """There are 13 jobs, so that an exhaustive search does not replace the chain."""
    # 60 has to leave the first member. Only the place of 50 is large enough, and 50 then fits on the third.
    weights = [60, 55, 50, 40, 45] + [1] * 8
    owners = [0, 0, 1, 1, 2] + [2] * 4 + [1] * 4
    found = keep_within(jobs_of(weights, owners, 3), 105)
    assert found is not None
    assert max(loads_of(jobs_of(weights, owners, 3), found)) <= 105


@pytest.mark.parametrize("capacity", [59, 99])
def test_without_an_assignment_within_the_capacity_there_is_none(capacity: int) -> None:
    # 59: the heaviest partition alone exceeds it. 99: two partitions share a member in any assignment.
    assert keep_within(jobs_of([60, 60, 40], [0, 1, 1], 2), capacity) is None


def group_of(weights: Sequence[int], owned: Sequence[Sequence[int]]) -> Group:
    members = [
        Member(f"m{number}", frozenset({"t"}), owned={"t": list(partitions)}, generation=1)
        for number, partitions in enumerate(owned)
    ]
    return Group.of([Topic("t", len(weights), weights=tuple(weights))], members)


def plain(assignment: Assignment) -> list[list[int]]:
    return [list(assignment.members[name].get("t", ())) for name in sorted(assignment.members)]


class TestWeighted:
    def test_without_a_capacity_loads_are_made_even_and_with_one_they_are_left_alone(self) -> None:
        group = group_of([50, 40, 10, 10], [[0, 1], [2], [3]])
        assert plain(Weighted().assign(group)) != [[0, 1], [2], [3]]
        assert plain(Weighted(capacity=90).assign(group)) == [[0, 1], [2], [3]]

    def test_a_capacity_that_no_assignment_keeps_is_as_none(self) -> None:
        group = group_of([50, 40, 10, 10], [[0, 1], [2], [3]])
        assert Weighted(capacity=49).assign(group) == Weighted().assign(group)

    def test_more_moves_than_the_budget_are_not_made_for_the_capacity(self) -> None:
        group = group_of([30, 30, 30, 30], [[0, 1, 2, 3], []])
        assert list(map(len, plain(Weighted(capacity=60).assign(group)))) == [2, 2]
        assert list(map(len, plain(Weighted(capacity=60, budget=1).assign(group)))) == [3, 1]

    def test_partitions_without_weight_are_spread_by_their_number(self) -> None:
        group = group_of([50, 0, 0, 0, 0], [[0, 1, 2, 3, 4], []])
        assert sorted(map(len, plain(Weighted(capacity=60).assign(group)))) == [2, 3]

    @pytest.mark.parametrize("capacity", [True, 1.5, "60"])
    def test_a_capacity_that_is_no_weight_is_refused(self, capacity: Any) -> None:
        with pytest.raises(TypeError, match="capacity must be an integer"):
            Weighted(capacity=capacity)

    def test_a_capacity_of_nothing_is_refused(self) -> None:
        with pytest.raises(ValueError, match="capacity must be at least 1, not 0"):
            Weighted(capacity=0)
