"""The recommended number of members: it rises at once, falls late, and does not oscillate."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_assignors.sizing import Needed, Recommendation, ScalingPolicy, recommend
from kafka_assignors.sizing.packing import pack

POLICY = ScalingPolicy(hold_down_s=600, longest_gap_s=150, stale_after_s=300)
STEP_S = 30.0
CAPACITY = 100


def after(
    *needed: Needed, policy: ScalingPolicy = POLICY, state: Recommendation | None = None
) -> list[int | None]:
    """The recommended members after each of these sizes, which arrive every 30 seconds."""
    state = state or Recommendation()
    found = []
    for number, one in enumerate(needed):
        state = recommend(state, number * STEP_S, one, policy)
        found.append(state.members)
    return found


def test_it_goes_up_at_once_and_to_the_target() -> None:
    assert after(Needed(2, 3), Needed(3, 4), Needed(4, 5)) == [3, 3, 5]


def test_it_goes_up_after_a_hold_if_one_is_wanted() -> None:
    policy = ScalingPolicy(hold_up_s=60)
    assert after(Needed(2, 3), *[Needed(4, 5)] * 3, policy=policy) == [3, 3, 3, 5]
    assert after(Needed(2, 3), Needed(4, 5), Needed(3, 4), *[Needed(4, 5)] * 2, policy=policy)[-1] == 3


def test_it_goes_down_when_fewer_have_sufficed_for_the_time_to_the_most_of_that_time() -> None:
    found = after(Needed(4, 5), *[Needed(1, 2)] * 10, *[Needed(2, 3)] * 5, *[Needed(1, 2)] * 6)
    assert found == [5] * 21 + [3]


def test_an_interruption_starts_the_time_anew() -> None:
    assert after(Needed(4, 5), *[Needed(1, 2)] * 20, Needed(4, 5), *[Needed(1, 2)] * 20) == [5] * 42


def test_it_stays_within_the_range() -> None:
    policy = ScalingPolicy(least=2, most=4, hold_down_s=0)
    assert after(Needed(0, 0), Needed(9, 9), Needed(1, 1), Needed(1, 1), policy=policy) == [2, 4, 2, 2]


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=12),
    st.sampled_from([Fraction(1, 10), Fraction(1, 5), Fraction(1, 2)]),
    st.randoms(use_true_random=False),
)
def test_noise_within_the_headroom_moves_it_down_at_most_and_never_up_again(
    rates: list[int], headroom: Fraction, rng: random.Random
) -> None:
    limit = int(CAPACITY * (1 - headroom))
    rates = [min(rate, limit * (1 - headroom)) for rate in rates]  # type: ignore[misc]
    state, found = Recommendation(), []
    for number in range(60):
        # Each partition varies by itself, between its rate and the rate that fills the headroom.
        noisy = [
            max(1, int(rate * (1 + headroom / (1 - headroom) * rng.randint(0, 100) / 100))) for rate in rates
        ]
        needed = Needed(len(pack(noisy, CAPACITY).bins), len(pack(noisy, limit).bins))
        state = recommend(state, number * STEP_S, needed, POLICY)
        found.append(state.members or 0)
    assert found == sorted(found, reverse=True)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.booleans()), max_size=60))
def test_a_clock_that_jumps_causes_no_change(jumps: list[tuple[float, bool]]) -> None:
    """Fewer members suffice for each size. Before some sizes the clock jumps by more than the longest gap."""
    state, now_s, shown_s = recommend(Recommendation(), 0.0, Needed(5, 6), POLICY), 0.0, 0.0
    for jump_s, jumps_now in jumps:
        if jumps_now and not 0 <= jump_s <= POLICY.longest_gap_s:
            now_s += jump_s
            shown_s = 0.0
        else:
            now_s += STEP_S
            shown_s += STEP_S
        state = recommend(state, now_s, Needed(1, 2), POLICY)
        if state.members == 2:
            assert shown_s >= POLICY.hold_down_s
            return
        assert state.members == 6


def test_a_recommendation_grows_old_and_comes_back() -> None:
    state = recommend(Recommendation(), 0.0, Needed(2, 3), POLICY)
    assert Recommendation().current(0.0, POLICY) is None
    assert (state.current(300.0, POLICY), state.current(300.1, POLICY)) == (3, None)
    assert state.current(-1e9, POLICY) == 3
    assert recommend(state, 10_000.0, Needed(2, 3), POLICY).current(10_000.0, POLICY) == 3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"hold_down_s": -1.0}, "hold_down_s"),
        ({"hold_up_s": float("nan")}, "hold_up_s"),
        ({"stale_after_s": float("inf")}, "stale_after_s"),
        ({"least": 5, "most": 4}, "fewer than the least"),
        ({"least": -1}, "least"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(settings: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        ScalingPolicy(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [("hold_up_s", None), ("stale_after_s", "300"), ("least", 1.5), ("least", None), ("most", 2.5)],
)
def test_a_policy_with_a_value_of_another_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=name):
        ScalingPolicy(**{name: value})
