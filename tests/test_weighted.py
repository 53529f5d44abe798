"""The guarantees of `weighted`, on groups small enough to try every assignment, and on constructed ones."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import lead
from kafka_assignors.loads import crowding_bound, weights_of
from kafka_assignors.quality import measure
from kafka_assignors.strategies import RebalanceProtocol, load_strategy
from kafka_assignors_cli.load_report import measure_loads
from kafka_assignors_replay.history.group_replay import settle
from kafka_assignors_strategies import Weighted
from kafka_assignors_strategies.makespan.jobs import NO_OWNER, jobs_of
from tests.weighed_groups import (
    after,
    events,
    least_makespan,
    life,
    loads,
    pareto_group,
    weighed,
    weighed_groups,
)

THRESHOLDS = st.sampled_from([0.0, Weighted().threshold, 0.3])


def assigned(strategy: Weighted, group: Group) -> Assignment:
    """A checked assignment of the group."""
    return lead(strategy, group, RebalanceProtocol.EAGER).target


def promised(group: Group, strategy: Weighted) -> Fraction:
    """The factor of the optimum that `Weighted` promises."""
    jobs, _ = jobs_of(group, weights_of(group))
    report = measure_loads(group, Assignment({}))
    placed = jobs.owners.count(NO_OWNER)
    alike = len(jobs.cohorts) == 1
    factor = Fraction(4, 3) - Fraction(1, 3 * len(jobs.members)) if alike else Fraction(2)
    if report.heaviest:
        by_heaviest = 1 + max(Fraction(report.heaviest, report.lower_bound), Fraction(1, 256))
        factor = min(factor, by_heaviest)
    return (
        factor
        if placed == len(jobs.weights)
        else factor / (1 - Fraction(strategy.threshold).limit_denominator(1_000_000))
    )


def moved(group: Group, assignment: Assignment) -> int:
    return measure(group, assignment).moved


class TestBounds:
    @settings(max_examples=300)
    @given(weighed_groups(), THRESHOLDS)
    def test_within_the_promised_factor_and_never_below_the_lower_bound(
        self, group: Group, threshold: float
    ) -> None:
        strategy = Weighted(threshold)
        report = measure_loads(group, assigned(strategy, group))
        least = least_makespan(group)
        assert report.lower_bound <= least <= report.makespan <= promised(group, strategy) * least

    @pytest.mark.parametrize("members", [2, 3, 5, 25])
    def test_graham_s_worst_case_of_the_heaviest_first(self, members: int) -> None:
        # Two each of 2m-1, 2m-2 … m, and a third m: heaviest first reaches 4m-1, and the optimum is 3m.
        weights = [w for w in range(2 * members - 1, members - 1, -1) for _ in range(2)] + [members]
        group = weighed({"orders": weights}, {f"m{n}": ["orders"] for n in range(members)})
        report = measure_loads(group, assigned(Weighted(), group))
        assert report.lower_bound == 3 * members
        assert promised(group, Weighted()) == Fraction(4 * members - 1, 3 * members)
        assert report.makespan <= 4 * members - 1

    @given(st.lists(st.sampled_from([None, 0, 0, 7]), max_size=12), st.integers(0, 12), st.integers(0, 2))
    def test_every_group_has_a_bound(self, weights: list[int | None], members: int, idle: int) -> None:
        # This includes no partitions, and partitions of weight 0.
        topics = {f"m{n:02}": ["orders"] for n in range(members)} | {f"i{n}": ["else"] for n in range(idle)}
        group = weighed({"orders": weights}, topics)
        report = measure_loads(group, assigned(Weighted(), group))
        assert report.makespan <= 2 * report.lower_bound
        assert report.makespan == 0 or any(weights) or None in weights

    def test_where_dealing_is_bad_rounding_is_not(self) -> None:
        # A tournament: in each round, pairs of the members with the most partitions share one topic. Dealing
        # does not know the later rounds and gives one member its whole path; one partition each is possible.
        rounds, members = 5, 32
        weights, readers = {}, {f"m{n:02}": [] for n in range(members)}  # type: ignore[var-annotated]
        for step in range(rounds):
            for first in range(0, members, 2 ** (step + 1)):
                name = f"t{step}-{first:02}"
                weights[name] = [1000 - step]
                for number in (first, first + 2**step):
                    readers[f"m{number:02}"].append(name)
        group = weighed(weights, readers)
        report = measure_loads(group, assigned(Weighted(), group))
        assert report.heaviest == 1000
        assert report.makespan <= 2 * report.lower_bound

    @pytest.mark.parametrize("mixed", [False, True])
    @pytest.mark.parametrize("members", [10, 100])
    def test_a_twentieth_above_the_bound_in_each_event_by_default(self, members: int, mixed: bool) -> None:
        for event, group in events(pareto_group(members, 20 * members, mixed)):
            assert measure_loads(group, assigned(Weighted(), group)).ratio <= 1.05, event

    def test_readers_of_one_topic_alone_bound_all_members(self) -> None:
        group = weighed({"big": [9, 9, 9, 9], "small": [1]}, {"a": ["big"], "b": ["big"], "c": ["small"]})
        report = measure_loads(group, assigned(Weighted(), group))
        assert (report.makespan, report.lower_bound) == (18, 18)

    def test_of_crowding(self) -> None:
        assert crowding_bound([7, 7, 7], 2) == 14
        assert crowding_bound([3, 3, 3, 3, 3], 2) == 9
        assert crowding_bound([9, 1], 2) == 9
        assert crowding_bound([], 0) == 0

    @given(st.lists(st.integers(1, 30), max_size=7), st.integers(1, 3))
    def test_of_crowding_is_one(self, weights: list[int], members: int) -> None:
        group = weighed({"t": weights}, {f"m{n}": ["t"] for n in range(members)})
        assert crowding_bound(weights, members) <= least_makespan(group)


class TestRest:
    @given(weighed_groups(), THRESHOLDS)
    def test_a_cooperative_group_comes_to_rest_soon(self, group: Group, threshold: float) -> None:
        strategy = Weighted(threshold)
        settled, rounds = settle(strategy, group)
        assert rounds <= 4
        assert moved(after(group, settled), strategy.assign(after(group, settled))) == 0


class TestWhatMoves:
    def test_not_for_a_gain_below_the_threshold(self) -> None:
        group = weighed(
            {"t": [10, 6, 3, 11]}, {"a": ["t"], "b": ["t"]}, {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}
        )
        assert loads(group, assigned(Weighted(0.1), group)) == {"a": 16, "b": 14}
        assert max(loads(group, assigned(Weighted(0.0), group)).values()) == 16  # this is optimal too
        heavier = weighed(
            {"t": [20, 16, 3, 11]}, {"a": ["t"], "b": ["t"]}, {"a": {"t": [0, 1]}, "b": {"t": [2, 3]}}
        )
        assert max(loads(heavier, assigned(Weighted(0.1), heavier)).values()) <= 30

    def test_a_free_partition_is_placed_at_any_threshold(self) -> None:
        group = weighed({"t": [5, 5, 5]}, {"a": ["t"], "b": ["t"]}, {"a": {"t": [0, 1]}})
        assert loads(group, assigned(Weighted(0.9), group)) == {"a": 10, "b": 5}

    def test_a_newcomer_gets_its_share_at_any_threshold(self) -> None:
        names = [f"m{n:02}" for n in range(20)]
        group = weighed(
            {"t": [1] * 200},
            {m: ["t"] for m in [*names, "new"]},
            {m: {"t": list(range(10 * n, 10 * n + 10))} for n, m in enumerate(names)},
        )
        assignment = assigned(Weighted(), group)
        assert 8 <= assignment.load("new") <= 10
        assert moved(group, assignment) == assignment.load("new")

    def test_the_second_fullest_member_is_relieved_beside_a_partition_heavier_than_any_share(self) -> None:
        group = weighed(
            {"t": [1000, 100, 100, 100, 100]},
            {m: ["t"] for m in "abcd"},
            {"a": {"t": [0]}, "b": {"t": [1, 2, 3]}, "c": {"t": [4]}},
        )
        assert sorted(loads(group, assigned(Weighted(), group)).values()) == [100, 100, 200, 1000]

    @pytest.mark.parametrize("threshold", [0, 0.02, Weighted().threshold])
    def test_few_move_as_weights_change_and_loads_stay_near_the_bound(self, threshold: float) -> None:
        # Weights change by up to a quarter. A fresh assignment would move nine of ten partitions.
        lived = list(life(pareto_group(20, 2000, False), Weighted(threshold)))
        assert max(ratio for _, ratio in lived) <= 1.005 / (1 - threshold)
        assert max(moved for moved, _ in lived) <= 2000 / 50


class TestWeightlessAndUnknown:
    def test_partitions_without_weight_are_spread_by_number(self) -> None:
        group = weighed({"t": [100, 1] + [0] * 98}, {"a": ["t"], "b": ["t"]})
        assignment = assigned(Weighted(), group)
        assert [assignment.load("a"), assignment.load("b")] == [50, 50]

    def test_without_any_weight_partitions_are_counted(self) -> None:
        group = weighed({"t": None, "u": None}, {m: ["t", "u"] for m in "abc"})
        assignment = assigned(Weighted(), group)
        assert [assignment.load(m) for m in "abc"] == [2, 2, 2]
        assert Weighted().findings(group) == ["no weight of the 6 partitions is known: each counts as 1"]

    def test_an_unknown_weight_is_the_median_of_its_topic_or_else_of_all(self) -> None:
        group = weighed({"t": [1, None, 7, 9], "u": None, "v": [100, 100]}, {"a": ["t", "u", "v"]})
        assert loads(group, assigned(Weighted(), group)) == {"a": 1 + 7 + 7 + 9 + 3 * 9 + 200}
        assert measure_loads(group, assigned(Weighted(), group)).unknown_weights == 4
        (finding,) = Weighted().findings(group)
        assert finding.startswith("4 of 9 weights are unknown")

    def test_the_greatest_weights_there_are(self) -> None:
        most = 2**63 - 1
        group = weighed({"t": [most] * 5}, {"a": ["t"], "b": ["t"]})
        assert sorted(loads(group, assigned(Weighted(), group)).values()) == [2 * most, 3 * most]

    def test_a_group_without_members_or_topics_is_assigned(self) -> None:
        assert assigned(Weighted(), weighed({"t": [1]}, {})).members == {}
        assert assigned(Weighted(), weighed({"t": []}, {"a": ["t", "gone"]})).members == {"a": {}}
        report = measure_loads(weighed({}, {}), Assignment({}))
        assert (report.makespan, report.lower_bound, report.ratio) == (0, 0, 1.0)


class TestArguments:
    def test_is_found_by_its_name(self) -> None:
        assert load_strategy("weighted") == Weighted()

    @pytest.mark.parametrize("threshold", [-0.1, 1, 1.5, float("nan"), float("inf")])
    def test_a_threshold_that_makes_no_sense(self, threshold: float) -> None:
        with pytest.raises(ValueError, match=r"threshold must be from 0 to 0\.99"):
            Weighted(threshold)
