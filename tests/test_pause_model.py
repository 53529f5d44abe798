"""The pause model: which partitions pause under which protocol, and how long; its page agrees."""

from __future__ import annotations

import dataclasses
import math
import statistics
from pathlib import Path

import pytest

from benchmarks.pause.report import Results
from kafka_assignors_replay.history.pause_model import Consumption, PauseModel

ROOT = Path(__file__).parents[1]
RUN = Results.read(ROOT / "benchmarks" / "pause" / "results" / "60.json")

BARE = PauseModel(
    heartbeat_interval_s=4.0, resume_s=0.0, second_round_heartbeats=0.5, broker_heartbeat_interval_s=6.0
)


def paused(consumption: Consumption, *, moved: int = 0, vacated: int = 0, model: PauseModel = BARE) -> float:
    """The pause in a group of three members that had twelve partitions."""
    return model.paused_s(consumption, members=3, could_stay=12 - vacated, moved=moved, vacated=vacated)


def test_an_eager_group_pauses_as_a_whole_for_any_moves() -> None:
    assert paused(Consumption.EAGER) == paused(Consumption.EAGER, moved=5) == 12 * 4.0 * (3 / 4 - 1 / 2)


@pytest.mark.parametrize(
    ("consumption", "each_s"), [(Consumption.COOPERATIVE, 2.0), (Consumption.BROKER_ASSIGNED, 3.0)]
)
def test_otherwise_only_what_moves_pauses(consumption: Consumption, each_s: float) -> None:
    assert paused(consumption) == 0.0
    assert paused(consumption, moved=5) == 5 * each_s


def test_partitions_of_a_departed_member_pause_under_every_protocol() -> None:
    assert paused(Consumption.COOPERATIVE, vacated=4) == 4 * 4.0 * 3 / 4
    assert paused(Consumption.BROKER_ASSIGNED, vacated=4) == 4 * 3.0
    assert paused(Consumption.EAGER, vacated=4) == 4 * 4.0 * 3 / 4 + 8 * 1.0


@pytest.mark.parametrize("consumption", Consumption)
def test_listeners_and_resuming_come_on_top_of_every_pause(consumption: Consumption) -> None:
    slower = dataclasses.replace(BARE, resume_s=0.25, listener_s=0.5)
    assert slower.pause_s(consumption, 3) == pytest.approx(BARE.pause_s(consumption, 3) + 0.75)
    assert slower.vacancy_s(consumption, 3) == pytest.approx(BARE.vacancy_s(consumption, 3) + 0.75)


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf])
def test_a_parameter_that_is_no_duration_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match="listener_s must be from 0 to 1e"):
        PauseModel(listener_s=value)


def test_the_defaults_are_what_was_measured() -> None:
    """Both from the events in which no member leaves, and all heartbeats are in step: join and refill.

    `resume_s` is what an eager peer takes then, in the median; a cooperative one takes that and a part of its
    heartbeat interval for the second round.
    """
    delays_s = {
        peer.peer: [event.delay.median / 1000 for event in peer.events if event.event in ("join", "refill")]
        for peer in RUN.summaries
        if not peer.peer.endswith("-kip848")
    }
    cooperative = {peer for peer in delays_s if peer.endswith(("-ours", "-cooperative"))}
    resume_s = statistics.median(s for peer in delays_s.keys() - cooperative for s in delays_s[peer])
    (settings,) = RUN.about["settings"]
    waited_s = (statistics.fmean(delays_s[peer]) - resume_s for peer in cooperative)
    second_round_heartbeats = statistics.fmean(waited_s) / (settings["heartbeat_interval_ms"] / 1000)
    model = PauseModel()
    assert model.resume_s == pytest.approx(resume_s, abs=0.0005)
    assert model.second_round_heartbeats == pytest.approx(second_round_heartbeats, abs=0.005)


def test_the_page_has_every_parameter_with_its_default() -> None:
    page = (ROOT / "docs" / "internals" / "replay.md").read_text(encoding="utf-8")
    for each in dataclasses.fields(PauseModel):
        assert f"| `{each.name}` | {each.default:g} |" in page
