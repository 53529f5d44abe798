"""The least moves that counts alone give are those of the assignments that reach them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kafka_assignors.criteria import FEWEST_MOVES, PLAIN
from kafka_assignors.quality import measure
from kafka_assignors.solver import least_moved, solve
from kafka_assignors.strategies import Capacity, RackAwareSticky, Range
from kafka_assignors.strategies.sticky import CooperativeSticky, ExactStrategy, Sticky
from kafka_assignors_replay.history.group_replay import moves_least, settle
from tests.exact_groups import Limits, random_group
from tests.exact_scales import random_scale

GROUPS = 400
WIDE = Limits(members=30, topics=6, partitions=240)


@pytest.mark.parametrize("limits", [Limits(), WIDE], ids=["small", "wide"])
def test_the_counts_alone_give_those_of_the_whole_solver(limits: Limits) -> None:
    rng = random.Random(23)
    moving = 0
    for _ in range(GROUPS):
        group = random_group(rng, limits)
        scale = random_scale(rng, group) if rng.random() < 0.4 else PLAIN
        moved = measure(group, solve(group, group.claims, FEWEST_MOVES, scale=scale)).moved
        assert least_moved(group, scale=scale) == moved
        moving += moved > 0
    assert moving > GROUPS // 10


def test_a_strategy_that_measures_or_decides_otherwise_does_not_promise_it() -> None:
    class Idle(Sticky):
        assign = Range.assign

    assert not any(map(moves_least, (Range(), RackAwareSticky(), RackAwareSticky(0.5), Capacity(), Idle())))
    assert moves_least(RackAwareSticky(0))  # Racks only break ties.


@pytest.mark.parametrize("strategy", [CooperativeSticky(), RackAwareSticky(), RackAwareSticky(0.5)])
def test_the_second_round_changes_no_measure(strategy: ExactStrategy) -> None:
    """A replay measures the target of the first round."""
    rng = random.Random(25)
    second_rounds = 0
    for _ in range(GROUPS):
        group = random_group(rng, WIDE)
        if group.claims.dropped:
            continue
        settled, rounds = settle(strategy, group)
        target = measure(group, strategy.assign(group))
        assert rounds == (2 if target.moved else 1)
        measured = measure(group, settled)
        assert measured.load_stddev == pytest.approx(target.load_stddev)  # a sum of floats in another order
        assert replace(measured, load_stddev=target.load_stddev) == target
        second_rounds += rounds > 1
    assert second_rounds > GROUPS // 20
