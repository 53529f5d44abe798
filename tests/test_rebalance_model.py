"""The rules of a rebalance hold in every state that two members and their coordinator can reach.

`python -m tests.rebalance_model` runs the whole exploration; these tests are the parts that take seconds.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_assignors.rebalance import MemberState
from tests.rebalance_model.explore import Exploration, Result
from tests.rebalance_model.model import Model
from tests.rebalance_model.mutations import LEADER_MUTATIONS, MUTATIONS

pytestmark = pytest.mark.exhaustive


def explore(model: Model, max_states: int | None = None) -> Result:
    result = Exploration(model).run(max_states=max_states)
    assert result.found is None, str(result.found)
    return result


@pytest.mark.parametrize(
    "events",
    [
        (),
        ("close",),
        ("commit", "partly"),
        ("commit", "abandon"),
        ("subscribe",),
        ("time", "load"),
        ("time", "timeout"),
    ],
    ids="+".join,
)
def test_every_rule_holds_to_the_fixpoint_and_two_rounds_are_enough(events: tuple[str, ...]) -> None:
    result = explore(Model(events=frozenset(events)))
    assert result.complete
    assert max(result.rounds) == 2


@pytest.mark.exhaustive
def test_every_rule_holds_while_members_are_late_with_what_a_rebalance_waits_for() -> None:
    # With timeouts of several ticks, heartbeats are answered while JoinGroup or SyncGroup is late.
    model = Model(
        partitions=1,
        events=frozenset({"time", "timeout"}),
        late_requests=True,
        session_timeout=2,
        rebalance_timeout=2,
    )
    assert explore(model).fixpoint


def test_a_message_lost_after_the_last_change_may_cost_one_round_more() -> None:
    result = explore(Model(events=frozenset({"lose"})))
    assert result.complete
    assert max(result.rounds) == 3


@pytest.mark.slow
@pytest.mark.parametrize("events", ["commit,partly", "late,close", "lose", "time,timeout"])
def test_reduced_forms_stand_for_exactly_the_states_that_plain_ones_reach(events: str) -> None:
    model = Model(events=frozenset(events.split(",")))
    reduced, plain = Exploration(model), Exploration(model, reduce=False)
    few, many = reduced.run(), plain.run()
    assert few.fixpoint
    assert many.fixpoint
    assert {reduced.find(world) for world in plain.worlds()} == set(range(few.states))
    assert max(few.rounds) == max(many.rounds)


@pytest.mark.slow
@pytest.mark.parametrize("events", ["commit,lose,partly", "late,poll", "late,time,load"])
def test_no_state_that_plain_forms_reach_is_missing_among_the_reduced_ones(events: str) -> None:
    model = Model(events=frozenset(events.split(",")))
    reduced, plain = Exploration(model), Exploration(model, reduce=False)
    assert reduced.run().fixpoint
    plain.run(max_states=8_000)
    for world in plain.worlds():
        reduced.find(world)


def test_every_rule_holds_wherever_one_disturbance_hits() -> None:
    result = Exploration(Model()).run(max_disturbances=1)
    assert result.found is None, str(result.found)
    assert result.complete
    assert max(result.rounds) == 2


def test_when_more_disturbances_lead_no_further_that_is_the_fixpoint() -> None:
    model = Model(events=frozenset({"close"}))
    result = Exploration(model).run(max_disturbances=99)
    assert result.fixpoint
    assert result.states == explore(model).states


def test_every_rule_holds_for_any_first_events() -> None:
    assert not explore(Model(), max_states=8_000).complete


def test_three_members_share_three_partitions() -> None:
    explore(Model(members=3, partitions=3, events=frozenset()), max_states=10_000)


@pytest.mark.parametrize(
    "model",
    [
        Model(kinds=("eager", "eager"), leading="eager", events=frozenset({"close"})),
        Model(kinds=("eager", "ours"), events=frozenset({"close"})),
        Model(kinds=("java", "ours"), events=frozenset({"close"})),
        # It drops claims of an older generation, which does no harm while no response is lost.
        Model(leading="older", events=frozenset({"subscribe"})),
    ],
    ids=["eager members", "in the middle of an upgrade", "a Java-like member", "an older leader"],
)
def test_every_rule_holds_beside_other_members_and_under_other_leaders(model: Model) -> None:
    assert explore(model).complete


@pytest.mark.parametrize("model", MUTATIONS, ids=lambda model: model.machine.__name__)
def test_a_broken_rule_is_caught(model: Model) -> None:
    found = Exploration(model).run(max_states=40_000).found
    assert found is not None
    assert found.what.startswith("Violation")


@pytest.mark.parametrize("model", LEADER_MUTATIONS, ids=lambda model: model.leading)
def test_a_leader_that_does_not_withhold_is_caught(model: Model) -> None:
    found = Exploration(model).run(max_states=40_000).found
    assert found is not None
    assert "both deliver" in found.what


@pytest.mark.parametrize(
    "model",
    [one for one in MUTATIONS if not {"time", "poll"} & one.events],
    ids=lambda model: model.machine.__name__,
)
def test_the_machine_as_it_is_passes_where_broken_ones_are_caught(model: Model) -> None:
    explore(replace(model, machine=MemberState), max_states=2_000)


@pytest.mark.parametrize(
    ("max_warming", "events"),
    [((1, 1), "drain"), ((1, 0), "drain"), ((1, 1), "close,subscribe"), ((1, 1), "poll")],
)
def test_every_rule_holds_while_members_warm_partitions(max_warming: tuple[int, int], events: str) -> None:
    result = explore(Model(max_warming=max_warming, events=frozenset(events.split(","))))
    assert result.complete
    # A member that drains hands over two partitions, each with a report and a revocation of its own.
    assert max(result.rounds) <= (6 if events == "drain" else 3)
