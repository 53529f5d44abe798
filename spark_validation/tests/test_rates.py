"""Rates of consumption from kept commits: windows, gaps, resets, and unknown rates."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafka_assignors.group import MOST_WEIGHT, Topic
from kafka_assignors_replay.folds.rates import RateHistory, RecentRates, window_of
from kafka_assignors_replay.folds.records import from_micros
from kafka_assignors_replay.folds.replay_state import read_state, write_state

S = 1_000_000
MINUTE = 60 * S
Commit = tuple[int, "int | None"]
"""The time in seconds, and the committed offset."""


def rates_after(commits: Sequence[Commit], interval_s: int = 60) -> RecentRates:
    rates = RecentRates()
    for seconds, committed in commits:
        rates.add("orders", 0, seconds * S, committed, interval_s)
    return rates


def rate(commits: Sequence[Commit], at: int, interval_s: int = 60) -> int | None:
    return rates_after(commits, interval_s).rate("orders", 0, from_micros(at * S))


@pytest.mark.parametrize(
    ("commits", "at", "expected"),
    [
        pytest.param([(59, 100), (119, 400)], 130, 5_000, id="300 records in a minute"),
        pytest.param([(59, 100), (119, 400), (179, 400)], 190, 2_500, id="a minute of standing still counts"),
        pytest.param([(59, 7), (119, 7)], 130, 0, id="nothing was consumed"),
        pytest.param([(59, 100), (119, 101)], 130, 16, id="rounded down to milli-records"),
        pytest.param([(59, 0), (539, 480)], 545, 1_000, id="a gap within the window"),
        pytest.param([], 130, None, id="no commit"),
        pytest.param([(119, 400)], 130, None, id="one commit"),
        pytest.param([(59, 100), (119, 400)], 110, None, id="the second is not in before its interval ends"),
        pytest.param([(59, 100), (61, 400)], 130, None, id="two commits too close to each other"),
        pytest.param([(59, 100), (119, 400)], 1_000, None, id="both are older than the window"),
        pytest.param([(59, 0), (719, 600), (779, 660)], 800, 1_000, id="what is older does not count"),
        pytest.param([(59, 400), (119, 100), (179, 700)], 190, None, id="the offset goes back"),
        pytest.param([(59, 100), (119, None), (179, 400)], 190, None, id="deleted, and one since"),
        pytest.param([(59, 9), (119, None), (179, 400), (239, 460)], 250, 1_000, id="deleted, and two since"),
        pytest.param([(179, 50), (59, 100), (119, 400)], 130, 5_000, id="a clock was set back"),
        pytest.param([(59, 0), (119, 2**63 - 1)], 130, MOST_WEIGHT, id="more than a weight can be"),
    ],
)
def test_a_rate_is_that_between_the_first_and_the_last_commit_of_the_window(
    commits: Sequence[Commit], at: int, expected: int | None
) -> None:
    assert rate(commits, at) == expected


def test_a_window_has_three_intervals_where_the_series_is_coarse() -> None:
    assert (window_of(60), window_of(200), window_of(3_600)) == (600, 600, 10_800)
    assert rate([(3_500, 0), (7_100, 3_600)], 7_300, 3_600) == 1_000


series = st.lists(
    st.tuples(st.integers(0, 45), st.integers(-3, 300), st.booleans()), min_size=1, max_size=120
)


@given(series, st.sampled_from([1, 7, 60, 120]), st.sets(st.integers(0, 120)), st.integers(0, 120))
@example([(1, 5, False)] * 120, 1, {0, 17, 64, 119}, 120)
@example([(20, 1, False)] * 6 + [(20, 300, False)] * 4, 60, {7}, 7)
def test_a_rate_does_not_depend_on_where_readings_were_cut(
    steps: list[tuple[int, int, bool]], interval_s: int, cuts: set[int], rebalance: int
) -> None:
    commits: list[Commit] = []
    seconds = committed = 1_000
    for step, consumed, deleted in steps:
        seconds, committed = seconds + step, max(0, committed + consumed)
        commits.append((seconds, None if deleted and consumed < 0 else committed))
    rebalance = min(rebalance, len(commits))
    at = commits[rebalance - 1][0] if rebalance else 1_000

    def kept(cut_at: set[int]) -> list[Commit]:
        """The last commit of each interval and reading, as far as it precedes the rebalance."""
        by_place = groupby(
            enumerate(commits),
            lambda each: (each[1][0] // interval_s, sum(cut <= each[0] for cut in cut_at)),
        )
        last = [[*of_place][-1] for _, of_place in by_place]
        return [commit for place, commit in last if place < rebalance]

    assert rate(kept(cuts), at, interval_s) == rate(kept(set()), at, interval_s)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9)), max_size=2_000), st.sampled_from([1, 9, 60]))
def test_the_commits_in_memory_are_bounded_and_survive_a_pause(
    steps: list[tuple[int, int]], interval_s: int
) -> None:
    seconds = committed = 0
    rates = RecentRates()
    for step, consumed in steps:
        seconds, committed = seconds + step, committed + consumed
        rates.add("orders", 0, seconds * S, committed, interval_s)
        assert len(rates.points["orders"][0]) <= 18
    assert read_state(RecentRates, write_state(rates)) == rates


def test_partitions_beyond_the_bound_have_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafka_assignors_replay.folds.rates._MOST_PARTITIONS", 2)
    rates = RecentRates()
    for partition in range(4):
        for minute in (0, 1):
            rates.add("orders", partition, minute * MINUTE, 60 * minute, 60)
    found = [rates.rate("orders", partition, from_micros(2 * MINUTE)) for partition in range(4)]
    assert found == [1_000, 1_000, None, None]
    rates.add("orders", 0, 2 * MINUTE, None, 60)
    rates.add("orders", 3, 2 * MINUTE, 0, 60)
    assert set(rates.points["orders"]) == {1, 3}


def test_what_is_no_commit_of_a_partition_is_ignored() -> None:
    rates = RecentRates()
    rates.add("orders", None, 0, 5, 60)
    rates.add("orders", -1, 0, 5, 60)
    rates.add("orders", 0, 0, -5, None)
    assert rates.partitions == 0


def test_topics_have_weights_where_a_rate_is_known() -> None:
    rates = rates_after([(59, 100), (119, 400)])
    orders, audit = Topic("orders", 2), Topic("audit", 1)
    weighed = rates.weigh([orders, audit], from_micros(130 * S))
    assert weighed == (Topic("orders", 2, weights=(5_000, None)), audit)
    assert rates.weigh([orders], from_micros(130 * S) + timedelta(days=1)) == (orders,)


# Rates over any period


def history(commits: Sequence[Commit], interval_s: int = 60) -> RateHistory:
    rates = RateHistory()
    for seconds, committed in commits:
        rates.add(seconds * S, committed, interval_s)
    return rates


DAY = [(59, 0), (119, 60), (179, 180), (239, 480), (299, 540)]


@pytest.mark.parametrize(
    ("percentile", "expected"), [(0, 1_000), (50, 1_000), (51, 2_000), (75, 2_000), (95, 5_000), (100, 5_000)]
)
def test_a_percentile_is_the_rate_that_was_not_exceeded_for_that_share_of_the_time(
    percentile: float, expected: int
) -> None:
    assert history(DAY).rate_at(percentile) == expected


def test_a_time_without_commits_counts_with_its_mean_and_a_reset_does_not_count() -> None:
    assert history([(59, 0), (119, 600), (1_319, 1_800)]).rate_at(90) == 1_000
    assert history([(59, 900), (119, 0), (179, 60)]).rate_at(100) == 1_000
    assert history([(59, 0), (119, None), (179, 6_000)]).rate_at(100) is None
    assert history([]).rate_at(100) is None


def test_only_the_last_commit_of_an_interval_counts() -> None:
    assert history([(59, 0), (90, 5_000), (119, 60)]).rate_at(100) == 1_000
