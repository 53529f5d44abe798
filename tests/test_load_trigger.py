"""When uneven loads justify a rebalance: each rule by itself, and all rules over arbitrary histories."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.week import DEFAULT, NAIVE, Row, a_week, live, most_in_an_hour
from kafka_assignors import load_trigger
from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.load_trigger import LoadJudgement, LoadTrigger, TriggerState, judge_load, leads
from kafka_assignors.pause_model import Consumption, PauseModel
from kafka_assignors.strategies import CooperativeSticky, Strategy, Weighted
from kafka_assignors.weights import weigh

Weights = Sequence[int | None] | None

UNEVEN = (10, 10, 1, 1, 1, 1)
EVEN = (1, 1, 1, 1, 1, 1)
FREE = PauseModel(heartbeat_interval_s=0, resume_s=0)
TRIGGER = LoadTrigger(check_every_s=30, held_s=60, cool_down_s=120, rebalances_an_hour=12, undo_after_s=300)
"""Acts at 300 s at the earliest, when its budget first allows a rebalance."""


class Life:
    """A group of three members, the leader's state, and a clock."""

    def __init__(self, trigger: LoadTrigger = TRIGGER, strategy: Strategy | None = None) -> None:
        self.trigger, self.strategy, self.now_s = trigger, strategy or Weighted(), 0.0
        self.consumption = Consumption.COOPERATIVE
        self.owned: dict[str, Sequence[int]] = {"a": (0, 1), "b": (2, 3), "c": (4, 5)}
        self.state = leads(trigger, None, 0)

    def group(self, weights: Weights) -> Group:
        return Group.of(
            [Topic("t", 6, weights=None if weights is None else tuple(weights))],
            [Member(m, {"t"}, owned={"t": list(own)}, generation=3) for m, own in self.owned.items()],
        )

    def look(self, weights: Weights = UNEVEN, after_s: float = 30) -> LoadJudgement:
        self.now_s += after_s
        self.state, judged = judge_load(
            self.trigger, self.state, self.now_s, self.group(weights), self.strategy, self.consumption
        )
        return judged

    def looks(self, until_s: float, weights: Weights = UNEVEN) -> list[float]:
        """Check the same weights until `until_s`; return the times at which the trigger acted."""
        acted = []
        while self.now_s < until_s:
            if self.look(weights).act:
                acted.append(self.now_s)
        return acted

    def generation(self, *, anew: bool = False) -> None:
        self.state = leads(self.trigger, None if anew else self.state, self.now_s)

    def obey(self, weights: Weights = UNEVEN) -> None:
        """Perform the rebalance that the trigger asked for."""
        assigned = self.strategy.assign(self.group(weights))
        self.owned = {m: topics.get("t", ()) for m, topics in assigned.members.items()}
        self.generation()


class Fixed(Strategy):
    """A strategy with a fixed assignment that counts its calls."""

    name = "fixed"

    def __init__(self, **owned: Sequence[int]) -> None:
        self.owned, self.asked = owned, 0

    def assign(self, group: Group) -> Assignment:
        self.asked += 1
        return Assignment({m: {"t": own} if own else {} for m, own in self.owned.items()})


STAYS = {"a": (0, 1), "b": (2, 3), "c": (4, 5)}
SPREADS = {"a": (0,), "b": (1,), "c": (2, 3, 4, 5)}


def test_it_acts_when_all_rules_are_met_and_gives_its_reason_in_figures() -> None:
    life = Life(strategy=Fixed(**SPREADS))
    assert life.looks(270) == []
    judged = life.look()
    assert judged == LoadJudgement(
        True,
        "the greatest load 20 has been above its bound 10 for 270 s, by 100% now; 3 moves bring it to 10: "
        "a gain of 6000 in 600 s for 17 that pauses",
        20,
        10,
        10,
        3,
        6000.0,
        pytest.approx(12 * 1.388),
    )
    assert judged.gap == 1.0


def test_it_rests_after_what_it_asked_for() -> None:
    life = Life()
    assert life.looks(300) == [300]
    life.obey()
    assert life.looks(20_000) == []


@pytest.mark.parametrize("weights", [EVEN, (5, 5, 5, 5, 5, 5), (3, 2, 3, 2, 3, 2), (10, 0, 5, 5, 5, 5)])
def test_it_never_acts_on_loads_within_the_gap(weights: Weights) -> None:
    assert Life().looks(10_000, weights) == []


# ---- each rule matters: the trigger acts only without it


def test_the_hold_keeps_a_burst_from_acting() -> None:
    def burst(trigger: LoadTrigger) -> list[float]:
        life = Life(trigger)
        life.looks(900, EVEN)
        return [*life.looks(930), *life.looks(1500, EVEN)]

    assert burst(TRIGGER) == []
    assert burst(replace(TRIGGER, held_s=0)) == [930]


def test_the_hold_is_as_long_as_it_says() -> None:
    life = Life()
    life.looks(900, EVEN)
    assert life.looks(970) == [990]  # The checks at 930, 960 and 990 span 60 s.


def test_loads_between_rest_and_gap_neither_end_a_hold_nor_act() -> None:
    within = (12, 10, 10, 10, 10, 10)  # Load 22, bound 21: too even for the gap.
    tight = replace(TRIGGER, rest_below=0.04)
    for trigger, expected in ((tight, [990]), (TRIGGER, [])):
        life = Life(trigger)
        life.looks(900, EVEN)
        assert not life.look(UNEVEN).act
        assert not life.look(within).act
        assert life.looks(990) == expected


def test_another_member_that_is_too_full_begins_another_hold() -> None:
    other = (1, 1, 10, 10, 1, 1)
    life = Life()
    life.looks(900, EVEN)
    for weights in (UNEVEN, other, UNEVEN, other, UNEVEN, other):
        assert not life.look(weights).act
    assert life.looks(1200, other) == [1140]


def test_the_cool_down_begins_with_every_generation() -> None:
    def busy(trigger: LoadTrigger) -> list[float]:
        life, acted = Life(trigger), []
        for _ in range(20):
            acted += life.looks(life.now_s + 90)
            life.generation()
        return acted

    assert busy(TRIGGER) == []
    assert busy(replace(TRIGGER, cool_down_s=0))


def test_a_leader_that_goes_on_keeps_its_budget_and_a_new_one_begins_with_none() -> None:
    life = Life(replace(TRIGGER, rebalances_an_hour=4))
    assert life.looks(900) == [900]
    life.generation(anew=True)
    assert life.looks(1770) == []
    assert life.looks(1800) == [1800]
    life.generation()
    assert life.looks(2670) == []
    assert life.looks(2700) == [2700]


def test_two_leaders_in_turn_act_no_more_often_than_one() -> None:
    life = Life(replace(TRIGGER, cool_down_s=0, held_s=0))
    for _ in range(30):
        assert life.looks(life.now_s + 270) == []
        life.generation(anew=True)


@pytest.mark.parametrize("jump_s", [-1000, -1, 91, 10**6, math.inf, math.nan])
def test_time_that_did_not_pass_between_two_looks_does_not_count(jump_s: float) -> None:
    life = Life(replace(TRIGGER, rebalances_an_hour=3600, undo_after_s=0))
    life.looks(90)
    began_s = life.now_s
    assert not life.look(after_s=jump_s).act
    life.now_s = began_s if not math.isfinite(jump_s) else life.now_s
    # 30 s of the cool-down remain; the hold has begun again.
    life.state = replace(life.state, looked_s=life.now_s)
    assert [life.look().act for _ in range(2)] == [False, True]


def test_a_clock_that_goes_back_at_every_look_never_acts() -> None:
    life = Life(replace(TRIGGER, cool_down_s=0, rebalances_an_hour=3600))
    assert not any(life.look(after_s=-30).act for _ in range(1000))


def test_a_machine_that_sleeps_between_looks_never_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    def sleepy() -> bool:
        life = Life()
        return any(life.look(after_s=3600).act for _ in range(100))

    assert not sleepy()
    monkeypatch.setattr(load_trigger, "_CHECKS_APART", math.inf)
    assert sleepy()


def test_an_action_must_pay_for_its_pause() -> None:
    dear = replace(TRIGGER, horizon_s=1, pause=PauseModel(listener_s=10))
    life = Life(dear, Fixed(**SPREADS))
    assert life.looks(270) == []
    assert life.look().reason == (
        "the greatest load is 100% above the bound, and lowering it from 20 to 10 gains 10 in 1 s, which "
        "does not pay for a pause of 3 moves, 137"
    )
    assert Life(replace(dear, pause=FREE), Fixed(**SPREADS)).looks(300) == [300]


def test_an_eager_group_is_refused_unless_asked_for_and_pays_for_all_partitions() -> None:
    def eager(trigger: LoadTrigger) -> LoadJudgement:
        life = Life(trigger, Fixed(**SPREADS))
        life.consumption = Consumption.EAGER
        life.looks(270)
        return life.look()

    assert eager(TRIGGER).reason == (
        "all partitions of an eager group pause in a rebalance, and the trigger has eager=False"
    )
    judged = eager(replace(TRIGGER, eager=True))
    assert judged.act
    assert judged.cost == pytest.approx(24 * PauseModel().pause_s(Consumption.EAGER, 3))


@pytest.mark.parametrize(
    "weights",
    [None, (None,) * 6, (0,) * 6, (10, 10, 1, None, None, None), (10, 10, 1, 1, 1, None)],
)
def test_unknown_weights_and_weights_of_zero_never_act(
    weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Life().looks(10_000, weights) == []
    if weights == (10, 10, 1, 1, 1, None):
        monkeypatch.setattr(load_trigger, "MOST_UNKNOWN", 1)
        assert Life().looks(300, weights) == [300]


def test_one_look_at_unknown_weights_ends_the_hold() -> None:
    life = Life()
    life.looks(870)
    life.state = replace(life.state, budget_s=60.0)
    life.look(None)
    assert life.looks(960) == []
    assert life.looks(990) == [990]


@pytest.mark.parametrize("bad", [math.nan, -1, 0.5, "10", 2**63, True])
def test_entries_that_are_no_weights_never_act(bad: Any) -> None:
    life = Life()
    (topic,), findings = weigh([Topic("t", 6)], {"t": [bad, 10, 1, 1, 1, 1]})
    assert findings
    assert life.looks(10_000, topic.weights) == []


def test_a_strategy_that_moves_nothing_is_asked_ever_more_seldom() -> None:
    strategy = Fixed(**STAYS)
    life = Life(strategy=strategy)
    assert life.looks(300 + 24 * 3600) == []
    # At 300 s, then after 120, 240, … and from then on every 1920 s.
    assert strategy.asked == 6 + (24 * 3600 - 31 * 120) // 1920 + 0
    assert "the strategy, which had no plan that pays, is asked in" in life.look().reason


def test_a_strategy_is_asked_again_when_the_gap_has_doubled_or_after_a_rest() -> None:
    strategy = Fixed(**STAYS)
    life = Life(strategy=strategy)
    mild = (13, 13, 10, 10, 4, 4)  # Load 26, bound 20.
    life.looks(300, mild)
    assert strategy.asked == 1
    life.look(UNEVEN)
    assert strategy.asked == 2
    life.look(EVEN)
    life.looks(life.now_s + 90, mild)
    assert strategy.asked == 3


@pytest.mark.parametrize(
    "strategy", [CooperativeSticky(), Fixed(**STAYS), Fixed(a=(0, 1), b=(4, 5), c=(2, 3))]
)
def test_a_strategy_that_does_not_lower_the_greatest_load_never_acts(strategy: Strategy) -> None:
    assert Life(strategy=strategy).looks(20_000) == []


def test_a_strategy_that_fails_or_breaks_its_contract_never_acts() -> None:
    class Failing(Weighted):
        def assign(self, group: Group) -> Assignment:
            raise RuntimeError("no")

    life = Life(strategy=Failing())
    assert life.looks(270) == []
    assert life.look().reason == "strategy 'weighted' has no plan: RuntimeError: no"
    for broken in (Fixed(a=(0,), b=(1,), c=()), Fixed(a=(0, 1, 2, 3, 4, 5)), Fixed(**{**SPREADS, "d": ()})):
        life = Life(strategy=broken)
        assert life.looks(270) == []
        assert "has no plan: InvalidAssignmentError" in life.look().reason


def test_an_action_that_does_not_help_is_repeated_ever_more_seldom() -> None:
    life = Life(replace(TRIGGER, rebalances_an_hour=3600))
    acted = life.looks(24 * 3600)  # No partition ever moves, as if other members ran another strategy.
    assert [after - before for before, after in pairwise(acted)][:6] == [
        120, 240, 480, 960, 1920, 1920,
    ]  # fmt: skip


def test_an_action_that_helped_is_not_held_against_the_next() -> None:
    life = Life(replace(TRIGGER, rebalances_an_hour=3600, undo_after_s=0))
    for _ in range(5):
        acted = life.looks(life.now_s + 120)
        assert len(acted) == 1
        life.generation()
        assert not life.look(EVEN).act


def test_no_action_undoes_one_of_the_last_hour() -> None:
    one, other = STAYS, {"a": (0, 2), "b": (1, 3), "c": (4, 5)}
    by_one, by_other = (10, 1, 10, 1, 5, 5), (10, 10, 1, 1, 5, 5)  # each favours its assignment
    life = Life(replace(TRIGGER, undo_after_s=3600), Fixed(**other))
    life.state = replace(life.state, new_s=0.0)
    assert not life.looks(90, by_other)
    assert life.look(by_other).act
    life.obey(by_other)
    life.strategy = Fixed(**one)
    assert life.looks(870, by_one) == []
    forgetful = replace(life.state, taken=(), back_off_s=0.0)
    assert judge_load(TRIGGER, forgetful, 900, life.group(by_one), life.strategy, life.consumption)[1].act
    life.state = replace(life.state, back_off_s=0.0)
    assert life.look(by_one).reason == (
        "the greatest load is 82% above the bound, and 2 of 2 moves would undo one of the last 3600 s"
    )
    assert life.looks(120 + 3600 + 1920, by_one) != []


def test_a_new_leader_waits_as_long_as_what_another_one_may_have_moved_stands() -> None:
    assert Life(replace(TRIGGER, undo_after_s=None)).looks(2000)[:1] == [1200]
    assert Life(replace(TRIGGER, undo_after_s=1000)).looks(2000)[:1] == [1020]
    assert Life(replace(TRIGGER, undo_after_s=0)).looks(2000)[:1] == [300]


def test_the_moves_of_an_hour_are_bounded_and_half_of_them_can_be_spent_at_once() -> None:
    def first_action(moves_an_hour: int | None) -> list[float]:
        return Life(replace(TRIGGER, moves_an_hour=moves_an_hour), Fixed(**SPREADS)).looks(4 * 3600)[:1]

    assert first_action(None) == [300]
    (at,) = first_action(6)
    assert 3600 <= at <= 3600 + 1920  # Three of six are available after an hour, before the next check.
    assert first_action(5) == []


# ---- arguments


@pytest.mark.parametrize(
    ("arguments", "error", "problem"),
    [
        ({"check_every_s": 0}, ValueError, "check_every_s must be above 0"),
        ({"horizon_s": 0}, ValueError, "horizon_s must be above 0"),
        ({"held_s": -1}, ValueError, "held_s must be a finite number of at least 0, not -1"),
        ({"cool_down_s": math.inf}, ValueError, "cool_down_s must be a finite"),
        ({"cool_down_s": 10**400}, ValueError, "cool_down_s must be a finite"),
        ({"gap": math.nan}, ValueError, "gap must be a finite"),
        ({"gap": "0.2"}, TypeError, "gap must be a number, not '0.2'"),
        ({"rest_below": 0.3}, ValueError, "rest_below must be at most gap, which is 0.2, not 0.3"),
        ({"rebalances_an_hour": 0}, ValueError, "rebalances_an_hour must be from 1 to 3600, not 0"),
        ({"rebalances_an_hour": 2.5}, TypeError, "rebalances_an_hour must be an integer, not 2.5"),
        ({"undo_after_s": 90_000}, ValueError, "undo_after_s must be from 0 to 86400, not 90000"),
        ({"undo_after_s": "1"}, TypeError, "undo_after_s must be a number, not '1'"),
        ({"moves_an_hour": 1}, ValueError, "moves_an_hour must be at least 2, not 1"),
        ({"moves_an_hour": True}, TypeError, "moves_an_hour must be an integer, not True"),
        ({"pause": 3}, TypeError, "pause must be a PauseModel, not 3"),
        ({"eager": 1}, TypeError, "eager must be True or False, not 1"),
    ],
)
def test_an_argument_that_makes_no_sense_is_refused(
    arguments: Any, error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=problem):
        LoadTrigger(**arguments)


# ---- over arbitrary histories

CHECK_S = 30
weights_of_all = st.one_of(
    st.sampled_from([UNEVEN, EVEN, (0,) * 6, None, (None,) * 6, (10, None, 10, None, 1, None)]),
    st.lists(st.integers(0, 30), min_size=6, max_size=6),
)
events = st.lists(
    st.one_of(
        st.tuples(st.just("looks"), st.integers(1, 40), weights_of_all, st.integers(5, 3 * CHECK_S)),
        st.tuples(st.just("generation"), st.booleans()),
        # A shorter jump ahead looks to any clock like time that has passed.
        st.tuples(st.just("jump"), st.one_of(st.integers(-5000, -1), st.integers(3 * CHECK_S + 1, 10**5))),
        st.tuples(st.just("obey"), st.booleans()),
    ),
    max_size=40,
)
triggers = st.builds(
    LoadTrigger,
    check_every_s=st.just(CHECK_S),
    held_s=st.sampled_from([0, 60, 120]),
    cool_down_s=st.sampled_from([0, 60, 300]),
    rebalances_an_hour=st.sampled_from([1, 4, 12, 60]),
    moves_an_hour=st.sampled_from([None, 4, 12]),
    undo_after_s=st.sampled_from([None, 0, 600]),
    gap=st.sampled_from([0.1, 0.2, 0.5]),
)


@settings(max_examples=300, deadline=None)
@given(triggers, events)
def test_no_history_breaks_a_promise(trigger: LoadTrigger, history: Any) -> None:
    life = Life(trigger)
    true_s = generation_s = above_since_s = 0.0
    above = False
    acted: list[tuple[float, int]] = []
    obeys, weights = True, UNEVEN
    for what, *details in history:
        if what == "generation":
            life.generation(anew=details[0])
            generation_s, above = true_s, False
        elif what == "jump":
            life.now_s += details[0]
            above = False
        elif what == "obey":
            (obeys,) = details
        else:
            count, weights, passed_s = details
            for _ in range(count):
                true_s += passed_s
                judged = life.look(weights, passed_s)
                usable = weights is not None and any(weights) and None not in weights
                if not usable or judged.gap < trigger.rest_below:
                    above = False
                elif not above:
                    above, above_since_s = True, true_s
                if not judged.act:
                    continue
                assert usable
                assert judged.gap > trigger.gap
                assert judged.moves > 0
                assert judged.reachable is not None
                assert judged.reachable < judged.greatest
                assert true_s - above_since_s >= trigger.held_s
                assert true_s - generation_s >= trigger.cool_down_s
                acted.append((true_s, judged.moves))
                if obeys:
                    life.obey(weights)
                    generation_s = true_s
                above = False
    for began_s, _ in acted:
        hour = [moves for at, moves in acted if began_s <= at < began_s + 3600]
        assert len(hour) <= trigger.rebalances_an_hour
        assert trigger.moves_an_hour is None or sum(hour) <= trigger.moves_an_hour


@settings(max_examples=50, deadline=None)
@given(st.lists(weights_of_all, min_size=30, max_size=60), st.randoms(use_true_random=False))
def test_the_order_of_members_and_topics_changes_nothing(looks: Any, rng: random.Random) -> None:
    def shuffled(group: Group) -> Group:
        members = list(group.members.values())
        rng.shuffle(members)
        return Group.of(group.topics.values(), members)

    def judged(arrange: Callable[[Group], Group]) -> list[tuple[TriggerState, LoadJudgement]]:
        life, state, found = Life(), leads(TRIGGER, None, 0), []
        for number, weights in enumerate(looks, 1):
            group = arrange(life.group(weights))
            found.append(judge_load(TRIGGER, state, 30 * number, group, Weighted(), Consumption.COOPERATIVE))
            state = found[-1][0]
        return found

    assert judged(lambda group: group) == judged(shuffled)


def test_the_state_does_not_grow() -> None:
    life = Life(replace(TRIGGER, cool_down_s=0, held_s=0, rebalances_an_hour=60))
    rng = random.Random(1)
    most = 0
    for _ in range(5000):
        if life.look([rng.randrange(30) for _ in range(6)]).act:
            life.obey()
        most = max(most, len(life.state.taken))
    assert 0 < most <= 60


# ---- the short form of the simulated week


@pytest.mark.parametrize("seed", [1, 2])
def test_half_a_day_of_a_simulated_group_has_no_oscillation(seed: int) -> None:
    day = a_week(seed, days=0.5, members=6, partitions=48)
    off, on, naive = live(day, Row(None)), live(day, Row(DEFAULT)), live(day, Row(NAIVE, may_undo=True))
    assert on.oscillations == 0 < naive.oscillations
    assert 0 < len(on.actions) < len(naive.actions)
    assert most_in_an_hour(on.actions) <= DEFAULT.rebalances_an_hour
    assert sum(on.ratios) < sum(off.ratios)
