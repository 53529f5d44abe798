"""`weighted` is exact on small groups, compared with every assignment, and the search gives up in time."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from kafka_assignors.group import Group
from kafka_assignors.makespan import measure_loads
from kafka_assignors.makespan.branch_and_bound import MOST_LOOKS, LookBudget, best_within, optimum
from kafka_assignors.makespan.jobs import NO_OWNER, Jobs, changed_hands, jobs_of, weights_of
from kafka_assignors.makespan.loads import lower_bound
from kafka_assignors.makespan.local_search import Placing, relieve, take_back
from kafka_assignors.strategies import Weighted
from tests.weighed_groups import after, least_makespan, random_weighed_group, weighed

THRESHOLDS = (Fraction(0), Weighted().terms.threshold, Fraction(1, 5))


def heavy_jobs(group: Group) -> Jobs:
    jobs, _ = jobs_of(group, group.claims, weights_of(group))
    return jobs.with_weight_alone()[0]


def readers(jobs: Jobs, job: int) -> list[int]:
    return [member for cohort in jobs.takers[jobs.class_of[job]] for member in jobs.cohorts[cohort]]


@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_up_to_four_members_and_eight_partitions_are_exact_but_for_the_threshold(threshold: Fraction) -> None:
    rng = random.Random(26)
    strategy = Weighted(float(threshold))
    for _ in range(1000):
        group = random_weighed_group(rng, most_partitions=8)
        least = least_makespan(group)
        assignment = strategy.assign(group)
        report = measure_loads(group, assignment, strategy.terms)
        nothing_owned = report.placed == sum(map(len, weights_of(group).by_topic.values()))
        assert report.lower_bound == least
        assert report.factor == (1 if nothing_owned else 1 / (1 - threshold))
        assert report.factor is not None
        assert report.makespan <= report.factor * least
        assert strategy.assign(after(group, assignment)) == assignment


def test_no_assignment_below_the_limit_moves_less_or_has_less_load() -> None:
    rng = random.Random(27)
    moved = 0
    for _ in range(300):
        jobs = heavy_jobs(random_weighed_group(rng, most_partitions=6))
        best = optimum(jobs, lower_bound(jobs)).load
        limit = best + rng.randint(0, best // 2)
        found = best_within(jobs, limit, best, None, LookBudget(MOST_LOOKS))
        assert found.proved
        assert found.holders is not None
        every = product(*(readers(jobs, job) for job in range(len(jobs.weights))))
        least = min(
            (changed_hands(jobs.owners, holders), load)
            for holders in every
            if (load := max(Placing(jobs, holders).loads, default=0)) <= limit
        )
        assert (changed_hands(jobs.owners, found.holders), found.load) == least
        assert max(Placing(jobs, found.holders).loads, default=0) == found.load
        moved += least[0]
    assert moved > 40


def test_a_known_assignment_is_improved_upon_or_proved() -> None:
    jobs = heavy_jobs(weighed({"t": [4, 3, 3]}, {"a": ["t"], "b": ["t"]}))
    found = best_within(jobs, 10, 5, (0, 7), LookBudget(MOST_LOOKS))
    assert (found.load, found.proved) == (6, True)
    assert best_within(jobs, 10, 5, (0, 6), LookBudget(MOST_LOOKS)).holders is None
    assert best_within(jobs, 5, 5, None, LookBudget(MOST_LOOKS)).holders is None


@pytest.mark.parametrize("members", [2, 3, 5, 8])
def test_the_search_gives_up_after_its_looks(members: int) -> None:
    # So many different weights divide nearly evenly in very many ways, so the bound is hardly ever met.
    rng = random.Random(members)
    weights = [2 * rng.randint(10**8, 10**9) for _ in range(32)]
    group = weighed({"t": weights}, {f"m{n}": ["t"] for n in range(members)})
    jobs, looks = heavy_jobs(group), LookBudget(MOST_LOOKS)
    free = replace(jobs, owners=[NO_OWNER] * len(jobs.weights))
    found = best_within(free, sum(weights), lower_bound(jobs), None, looks)
    assert not found.proved
    assert found.holders is not None
    assert -members <= looks.left <= 0
    report = measure_loads(group, Weighted().assign(group), Weighted().terms)
    assert report.makespan <= found.load
    assert report.factor is not None
    assert 1 < report.factor <= Fraction(4, 3) - Fraction(1, 3 * members)


def test_what_is_not_proved_is_promised_by_the_heaviest_beside_the_bound() -> None:
    # Two cohorts: the factor for arbitrary subscriptions is 2, and a partition is a third of the bound.
    weights = {"t": [10] * 60, "u": [10] * 60}
    group = weighed(weights, {f"m{n:02}": ["t"] if n % 2 else ["u"] for n in range(40)})
    report = measure_loads(group, Weighted().assign(group), Weighted().terms)
    assert (report.lower_bound, report.factor) == (30, Fraction(4, 3))


def test_a_heavy_partition_fits_where_several_lighter_ones_leave() -> None:
    jobs = heavy_jobs(
        weighed({"x": [9], "y": [6], "z": [3, 2, 2]}, {"a": ["x", "y"], "b": ["x", "z"], "c": ["z"]})
    )
    begin = [0, 0, 1, 1, 1]  # a owns "x" and "y", b owns all of "z".
    assert not list(relieve(Placing(jobs, begin), [0, 1, 2], 9))
    placing = Placing(jobs, begin)
    step, *others = relieve(placing, [0, 1, 2], 9, LookBudget(MOST_LOOKS))
    assert len(step.moves) == 3
    assert max(placing.loads) == 9
    for taken in reversed([step, *others]):
        take_back(placing, taken)
    assert placing.holders == begin


def test_a_group_with_mixed_subscriptions_and_many_partitions_is_near_its_bound() -> None:
    rng = random.Random(60)
    ratios = []
    for _ in range(10):
        names = [f"t{n}" for n in range(8)]
        weights: dict[str, list[int]] = {name: [] for name in names}
        for _ in range(60):
            weights[rng.choice(names)].append(int(1000 * rng.paretovariate(2)))
        group = weighed(weights, {f"m{n:02}": rng.sample(names, rng.randint(1, 4)) for n in range(12)})
        assignment = Weighted().assign(group)
        assert Weighted().assign(after(group, assignment)) == assignment
        ratios.append(measure_loads(group, assignment).ratio)
    assert sum(ratios) / len(ratios) <= 1.015
