"""The rates of partitions from looks at their ends: averages, and unknown or recreated partitions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_assignors.group import MOST_WEIGHT
from kafka_assignors_strategies.weight_sources import RateSource


def source(base: float = 0, **arguments: Any) -> RateSource:
    return RateSource("g", base=base, **arguments)


def look(rates: RateSource, now_s: float, *ends: int) -> Any:
    """The weights of `t` when its partitions end at `ends`."""
    lasts = {("t", partition): offset for partition, offset in enumerate(ends)}
    return rates.weigh(now_s, {"t": len(ends)}, {}, lasts)["t"]


def weights(*looks: tuple[float, ...], **arguments: Any) -> list[Any]:
    """The weights at each look, which is a second and the ends of the partitions then."""
    rates = source(**arguments)
    return [look(rates, now_s, *map(int, ends)) for now_s, *ends in looks]


def test_a_clock_that_goes_back_begins_a_new_interval_and_keeps_the_rate() -> None:
    assert weights((1000, 0), (1010, 100), (5, 10_000), (15, 10_100))[1:] == [[10_000]] * 3


def test_a_partition_without_an_end_keeps_its_rate() -> None:
    assert weights((0, 0, 0), (10, 100, 100), (20, 200, -1), (40, 400, 400))[1:] == [[10_000] * 2] * 3
    rates = source()
    look(rates, 0, 0, 0)
    look(rates, 10, 100, 100)
    assert rates.weigh(30, {"t": 2}, {}, {("t", 0): 300})["t"] == [10_000, 10_000]


def test_a_topic_that_was_made_again_begins_anew() -> None:
    found = weights((0, 1000, 1000), (10, 2000, 2000), (20, 10, 3000), (30, 20, 4000))
    assert found[2:] == [[None, 100_000], [1000, 100_000]]


def test_a_partition_that_the_group_does_not_have_is_forgotten() -> None:
    assert weights((0, 0, 0), (10, 0, 0), (20, 0), (30, 0, 0))[3] == [0, None]


@given(
    st.lists(st.tuples(st.integers(1, 500), st.integers(0, 10**6)), min_size=1, max_size=20),
    st.floats(1, 2000),
)
def test_the_average_is_the_integral_with_weights_that_halve(
    intervals: list[tuple[int, int]], half_life_s: float
) -> None:
    rates = source(half_life_s=half_life_s)
    times, ends = [0], [0]
    for passed_s, records in intervals:
        times.append(times[-1] + passed_s)
        ends.append(ends[-1] + records)
    for now_s, end in zip(times, ends, strict=True):
        (weight,) = look(rates, now_s, end)
    now_s = times[-1]
    total = sum_of_shares = 0.0
    for (begin, first), (stop, last) in pairwise(zip(times, ends, strict=True)):
        # The integral of 0.5 ** ((now - s) / half_life) ds, up to a constant factor.
        share = 0.5 ** ((now_s - stop) / half_life_s) - 0.5 ** ((now_s - begin) / half_life_s)
        total += share * (last - first) / (stop - begin)
        sum_of_shares += share
    assert weight == pytest.approx(1000 * total / sum_of_shares, rel=1e-6, abs=1)


ENDS = st.dictionaries(st.tuples(st.just("t"), st.integers(0, 2)), st.integers(-1, MOST_WEIGHT))


@given(
    st.lists(st.tuples(st.floats(allow_nan=False, allow_infinity=False), ENDS), max_size=8),
    st.floats(1e-9, 1e9),
    st.floats(0, 1e9),
)
def test_any_offsets_at_any_times_give_weights_or_none(
    looks: list[Any], half_life_s: float, base: float
) -> None:
    rates = source(half_life_s=half_life_s, base=base)
    for now_s, end in looks:
        for weight in rates.weigh(now_s, {"t": 3}, {}, end)["t"]:
            assert weight is None or 0 <= weight <= MOST_WEIGHT
