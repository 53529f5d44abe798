"""The costs of partitions from offsets and times: rates, lag, and unknown, stuck or recreated ones."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.group import MOST_WEIGHT
from kafka_assignors_strategies.weight_sources import PartitionCosts

T0, T1 = ("t", 0), ("t", 1)


def look(costs: PartitionCosts, now_s: float, *ends: int, committed: dict[int, int] | None = None) -> Any:
    """The weights of `t` when its partitions end at `ends`; without commits there is no lag."""
    lasts = {("t", partition): offset for partition, offset in enumerate(ends)}
    commits = {("t", partition): offset for partition, offset in (committed or {}).items()}
    return costs.weigh(now_s, {"t": len(ends)}, commits, lasts)["t"]


class TestRates:
    def test_a_steady_rate_is_found_exactly_at_irregular_looks(self) -> None:
        costs = PartitionCosts(base=0, half_life_s=60)
        for now_s in (0, 1, 7, 100, 4000):
            weights = look(costs, now_s, 50 * now_s)
        assert weights == [50_000]
        assert costs.rates() == {T0: pytest.approx(50)}

    def test_what_is_one_half_life_old_counts_half(self) -> None:
        costs = PartitionCosts(base=0, half_life_s=60)
        look(costs, 0, 0)
        look(costs, 60_000, 0)  # There were no records for a thousand half-lives.
        assert look(costs, 60_060, 6000) == [50_000]
        assert look(costs, 60_120, 6000) == [25_000]

    @given(
        st.lists(st.tuples(st.integers(1, 500), st.integers(0, 10**6)), min_size=1, max_size=20),
        st.floats(1, 2000),
    )
    def test_the_average_is_the_integral_with_weights_that_halve(
        self, intervals: list[tuple[int, int]], half_life_s: float
    ) -> None:
        costs = PartitionCosts(base=0, half_life_s=half_life_s)
        times, ends = [0], [0]
        for passed_s, records in intervals:
            times.append(times[-1] + passed_s)
            ends.append(ends[-1] + records)
        for now_s, end in zip(times, ends, strict=True):
            look(costs, now_s, end)
        now_s = times[-1]
        total = weight = 0.0
        for (begin, first), (stop, last) in pairwise(zip(times, ends, strict=True)):
            # The integral of 0.5 ** ((now - s) / half_life) ds, up to a constant factor.
            share = 0.5 ** ((now_s - stop) / half_life_s) - 0.5 ** ((now_s - begin) / half_life_s)
            total += share * (last - first) / (stop - begin)
            weight += share
        assert costs.rates()[T0] == pytest.approx(total / weight, rel=1e-6, abs=1e-9)

    def test_two_looks_within_a_second_do_not_make_a_rate(self) -> None:
        costs = PartitionCosts(base=0)
        look(costs, 0, 0)
        look(costs, 0.01, 1000)
        assert costs.rates() == {}
        assert look(costs, 10, 1000) == [100_000]

    def test_a_clock_that_goes_back_begins_a_new_interval_and_keeps_the_rate(self) -> None:
        costs = PartitionCosts(base=0)
        look(costs, 1000, 0)
        look(costs, 1010, 100)
        assert look(costs, 5, 10_000) == [10_000]
        assert look(costs, 15, 10_100) == [10_000]

    def test_the_base_counts_for_each_partition(self) -> None:
        costs = PartitionCosts(base=3)
        look(costs, 0, 0, 0)
        assert look(costs, 10, 0, 10) == [3000, 4000]


class TestLag:
    def test_lag_counts_as_what_must_be_consumed_to_be_rid_of_it_in_time(self) -> None:
        costs = PartitionCosts(base=0, drain_s=600)
        look(costs, 0, 6000, 0, committed={0: 0, 1: 0})
        assert look(costs, 10, 6000, 0, committed={0: 3000, 1: 0}) == [5000, 0]

    def test_at_the_first_look_lag_alone_counts(self) -> None:
        assert look(PartitionCosts(drain_s=600), 0, 6000, 60, committed={0: 0, 1: 60}) == [11_000, 1000]

    def test_without_a_commit_there_is_no_lag(self) -> None:
        assert look(PartitionCosts(base=0), 0, 6000, committed={0: -1}) == [0]

    def test_a_commit_above_the_end_is_no_lag(self) -> None:
        assert look(PartitionCosts(base=0), 0, 6000, committed={0: 9000}) == [0]

    def test_the_lag_of_a_stuck_partition_does_not_count_until_it_moves(self) -> None:
        costs = PartitionCosts(base=0, drain_s=600)
        for now_s in range(0, 600, 30):
            weights = look(costs, now_s, 6000, committed={0: 0})
        assert weights == [10_000]
        assert look(costs, 600, 6000, committed={0: 0}) == [0]
        assert look(costs, 630, 6000, committed={0: 1}) == [9998]

    def test_a_partition_at_rest_is_not_stuck_when_records_come(self) -> None:
        costs = PartitionCosts(base=0, drain_s=600, half_life_s=1)
        look(costs, 0, 60, committed={0: 60})
        look(costs, 10_000, 60, committed={0: 60})
        # Many half-lives have passed, so the rate is that of the last second.
        assert look(costs, 10_001, 660, committed={0: 60})[0] == pytest.approx(301_000, rel=0.01)


class TestUnknown:
    def test_a_partition_without_an_end_is_unknown_and_keeps_its_rate(self) -> None:
        costs = PartitionCosts(base=0)
        look(costs, 0, 0, 0)
        look(costs, 10, 100, 100)
        assert look(costs, 20, 200, -1) == [10_000, None]
        assert costs.weigh(30, {"t": 2}, {}, {T0: 300})["t"] == [10_000, None]
        assert look(costs, 40, 400, 400) == [10_000, 10_000]

    def test_a_partition_that_is_seen_for_the_first_time_beside_others_is_unknown(self) -> None:
        costs = PartitionCosts(base=0)
        look(costs, 0, 0)
        assert look(costs, 10, 100, 5000) == [10_000, None]
        assert look(costs, 20, 200, 5100) == [10_000, 10_000]

    def test_a_topic_that_was_made_again_begins_anew(self) -> None:
        costs = PartitionCosts(base=0)
        look(costs, 0, 1000, 1000)
        look(costs, 10, 2000, 2000)
        assert look(costs, 20, 10, 3000) == [None, 100_000]
        assert look(costs, 30, 20, 4000) == [1000, 100_000]

    def test_what_is_no_topic_of_the_group_any_more_is_forgotten(self) -> None:
        costs = PartitionCosts(base=0)
        costs.weigh(0, {"t": 2, "u": 1}, {}, {T0: 0, T1: 0, ("u", 0): 0})
        costs.weigh(10, {"t": 2, "u": 1}, {}, {T0: 0, T1: 0, ("u", 0): 0})
        costs.weigh(20, {"t": 1}, {}, {T0: 0, T1: 0, ("u", 0): 0})
        assert set(costs.rates()) == {T0}


class TestTimes:
    def test_a_record_costs_what_the_application_says(self) -> None:
        costs = PartitionCosts(base=0)
        costs.took("t", records=100, seconds=2)
        costs.took("t", records=100, seconds=4)
        look(costs, 0, 0)
        assert look(costs, 10, 100) == [round(10 * 0.03 * 1_000_000)]

    def test_a_topic_without_a_report_counts_as_the_average(self) -> None:
        costs = PartitionCosts(base=1)
        costs.took("u", records=300, seconds=3)
        costs.took("v", records=100, seconds=5)
        assert look(costs, 0, 0) == [20_000]

    def test_old_times_fade(self) -> None:
        costs = PartitionCosts(base=1)
        for _ in range(20):
            costs.took("t", records=100_000, seconds=100)
        costs.took("t", records=50_000, seconds=100)
        assert look(costs, 0, 0) == [1500]
        costs.took("t", records=10**9, seconds=10**7)
        assert look(costs, 0, 0) == [10_000]

    def test_no_records_say_nothing(self) -> None:
        costs = PartitionCosts(base=1)
        costs.took("t", records=0, seconds=100)
        assert look(costs, 0, 0) == [1000]

    def test_the_topics_with_times_are_bounded(self) -> None:
        costs = PartitionCosts(base=1)
        for number in range(20_000):
            costs.took(f"t{number}", records=1, seconds=0.001)
        assert len(costs._times) == 10_000

    @pytest.mark.parametrize(
        ("arguments", "error"),
        [
            (("t", 1.5, 1), TypeError),
            (("t", True, 1), TypeError),
            ((b"t", 1, 1), TypeError),
            (("t", -1, 1), ValueError),
            (("t", 1, "1"), TypeError),
            (("t", 1, -1), ValueError),
            (("t", 1, math.nan), ValueError),
            (("t", 1, math.inf), ValueError),
        ],
    )
    def test_a_report_that_makes_no_sense_is_refused(self, arguments: Any, error: type[Exception]) -> None:
        topic, records, seconds = arguments
        with pytest.raises(error):
            PartitionCosts().took(topic, records=records, seconds=seconds)


@pytest.mark.parametrize("name", ["half_life_s", "drain_s", "base"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "1", True, None])
def test_an_argument_that_makes_no_sense_is_refused(name: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=name):
        PartitionCosts(**{name: value})


@pytest.mark.parametrize("name", ["half_life_s", "drain_s"])
def test_a_time_of_zero_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be above 0"):
        PartitionCosts(**{name: 0})


offsets = st.integers(-1, MOST_WEIGHT)


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.dictionaries(st.tuples(st.just("t"), st.integers(0, 2)), offsets),
            st.dictionaries(st.tuples(st.just("t"), st.integers(0, 2)), offsets),
        ),
        max_size=8,
    ),
    st.floats(1e-9, 1e9),
    st.floats(0, 1e9),
)
def test_any_offsets_at_any_times_give_weights_or_none(
    looks: list[Any], half_life_s: float, base: float
) -> None:
    costs = PartitionCosts(half_life_s=half_life_s, base=base, drain_s=1e-9)
    costs.took("t", records=1, seconds=1e9)
    for now_s, committed, end in looks:
        for weight in costs.weigh(now_s, {"t": 3}, committed, end)["t"]:
            assert weight is None or 0 <= weight <= MOST_WEIGHT
