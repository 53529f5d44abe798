"""The parts of `kafka_assignors_strategies.makespan`: each does what its module says."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.group import Group
from kafka_assignors.loads import crowding_bound, weights_of
from kafka_assignors_strategies.makespan.balance import deal_jobs, improved, relax_jobs, round_relaxation
from kafka_assignors_strategies.makespan.jobs import NO_OWNER, Jobs, Threshold, jobs_of
from kafka_assignors_strategies.makespan.local_search import Placing, relieve, take_back
from tests.weighed_groups import least_makespan, weighed, weighed_groups


def heavy_jobs(group: Group) -> Jobs:
    jobs, _ = jobs_of(group, weights_of(group))
    return jobs.with_weight_alone()[0]


def readers(jobs: Jobs, job: int) -> set[int]:
    return {member for cohort in jobs.takers[jobs.class_of[job]] for member in jobs.cohorts[cohort]}


class TestBounds:
    def test_of_pieces(self) -> None:
        # The three readers of "b" cannot help the reader of "a", so the average, 6, is too low a bound.
        group = weighed({"a": [5, 5], "b": [4, 5, 5]}, {"1": ["a"], "2": ["b"], "3": ["b"], "4": ["b"]})
        assert relax_jobs(heavy_jobs(group)).load == 10

    def test_of_crowding(self) -> None:
        assert crowding_bound([7, 7, 7], 2) == 14
        assert crowding_bound([3, 3, 3, 3, 3], 2) == 9
        assert crowding_bound([9, 1], 2) == 9
        assert crowding_bound([], 0) == 0

    @given(st.lists(st.integers(1, 30), max_size=7), st.integers(1, 3))
    def test_of_crowding_is_one(self, weights: list[int], members: int) -> None:
        group = weighed({"t": weights}, {f"m{n}": ["t"] for n in range(members)})
        assert crowding_bound(weights, members) <= least_makespan(group)

    @given(weighed_groups(most_partitions=6))
    def test_shares_use_everything_up_and_stay_below_the_bound(self, group: Group) -> None:
        jobs = heavy_jobs(group)
        relaxed = relax_jobs(jobs)
        for cohort, held in enumerate(relaxed.shares):
            assert sum(held.values()) <= relaxed.load * len(jobs.cohorts[cohort])
            assert all(cohort in jobs.takers[number] for number in held)
        assert sum(sum(held.values()) for held in relaxed.shares) == sum(jobs.weights)


class TestFresh:
    @given(weighed_groups(most_partitions=6))
    def test_rounding_adds_no_more_than_the_heaviest(self, group: Group) -> None:
        jobs = heavy_jobs(group)
        relaxed = relax_jobs(jobs)
        holders = round_relaxation(jobs, relaxed.shares)
        assert all(holder in readers(jobs, job) for job, holder in enumerate(holders))
        greatest = max(Placing(jobs, holders).loads, default=0)
        assert greatest <= relaxed.load + max(jobs.weights, default=0)

    def test_dealing_gives_the_heaviest_first(self) -> None:
        jobs = heavy_jobs(weighed({"t": [3, 3, 2, 2, 2]}, {"a": ["t"], "b": ["t"]}))
        loads, holders = [0, 0], [NO_OWNER] * 5
        deal_jobs(jobs, loads, holders, range(5))
        assert (loads, holders) == ([7, 5], [0, 1, 0, 1, 0])


class TestSearch:
    @given(weighed_groups(most_partitions=6))
    def test_every_step_lowers_the_loads_and_can_be_taken_back(self, group: Group) -> None:
        jobs = heavy_jobs(group)
        loads, holders = list(jobs.base), [NO_OWNER] * len(jobs.weights)
        for job, weight in enumerate(jobs.weights):  # All jobs on their first reader.
            holders[job] = min(readers(jobs, job))
            loads[holders[job]] += weight
        placing = Placing(jobs, holders)
        steps = []
        before = sorted(placing.loads, reverse=True)
        for step in relieve(placing, [m for cohort in jobs.cohorts for m in cohort], 0):
            steps.append(step)
            now = sorted(placing.loads, reverse=True)
            assert now < before
            before = now
        assert all(holder in readers(jobs, job) for job, holder in enumerate(placing.holders))
        assert placing.loads == Placing(jobs, placing.holders).loads
        for step in reversed(steps):
            take_back(placing, step)
        assert (placing.holders, placing.loads) == (holders, loads)

    def test_members_exchange_where_nothing_can_be_given(self) -> None:
        jobs = heavy_jobs(weighed({"t": [8, 7, 5, 4]}, {"a": ["t"], "b": ["t"]}))
        placing = Placing(jobs, [0, 0, 1, 1])
        assert [len(step.moves) for step in relieve(placing, [0, 1], 0)] == [2]
        assert placing.loads == [12, 12]


def test_a_fresh_assignment_is_taken_where_the_search_is_stuck() -> None:
    # Only the reader of both topics can help, and a transfer needs three members.
    group = weighed(
        {"x": [10, 10], "y": [10]},
        {"1": ["x"], "2": ["x", "y"], "3": ["y"]},
        {"1": {"x": [0, 1]}, "2": {"y": [0]}},
    )
    jobs = heavy_jobs(group)
    assert improved(jobs, [0, 1, 2], 10, Threshold(Fraction(1, 10))) == [0, 1, 2]
    assert improved(jobs, [0, 1, 2], 10, Threshold(Fraction(1, 2))) == [0, 0, 1]
