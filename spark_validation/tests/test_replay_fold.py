"""One group replayed without Spark: the result of each strategy, and the state from which it starts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from kafka_assignors import Assignment, Group
from kafka_assignors.group import Topic
from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors.strategy import RebalanceProtocol, Strategy
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.history.group_replay import Replayed
from kafka_assignors_replay.history.pause_model import Consumption, PauseModel
from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.result import RECORDED, Mode
from spark_validation.tests.folding import measured, replay_group
from spark_validation.tests.groups import ALL, HIGH, LOW
from spark_validation.tests.test_rebalances import generation, had
from tests.hostile_strategy import HOSTILE, RuiningLater

FOUR = Catalogue([CatalogueEntry(None, Topic("orders", 4))])
NAMES = ("range", "sticky", "cooperative-sticky")
STRATEGIES = {name: load_strategy(name) for name in NAMES}

# a has all partitions, b joins, a leaves: any leader must move two partitions, then two.
JOIN_AND_LEAVE = (
    generation(1, had("a", ALL)),
    generation(2, had("a", LOW), had("b", HIGH)),
    generation(3, had("b", ALL)),
)


Rows = dict[tuple[str, str, int], Replayed]
PAUSES = PauseModel(heartbeat_interval_s=2.0, listener_s=1.0)


def replayed(*records: Generation, catalogue: Catalogue = FOUR) -> Rows:
    found = replay_group(records, catalogue, STRATEGIES, pauses=PAUSES)
    return {(row.strategy, row.mode, row.generation): row for row in found}


@pytest.fixture(scope="module")
def rows() -> Rows:
    return replayed(*JOIN_AND_LEAVE)


def test_a_join_moves_what_balance_asks_for_and_a_leave_moves_nothing_of_those_who_stay(rows: Rows) -> None:
    for name in (*NAMES, RECORDED):
        joined, left = measured(rows[name, "one-step", 2]), measured(rows[name, "one-step", 3])
        assert (joined.moved, joined.least_moved, joined.could_stay) == (2, 2, 4)
        assert (left.moved, left.least_moved, left.could_stay) == (0, 0, 2)
        assert (joined.min_load, joined.max_load) == (2, 2)


def test_only_a_strategy_that_runs_cooperatively_needs_a_second_round_and_only_where_something_moves(
    rows: Rows,
) -> None:
    assert [measured(rows["cooperative-sticky", "one-step", g]).rounds for g in (1, 2, 3)] == [1, 2, 1]
    assert [measured(rows["sticky", "one-step", g]).rounds for g in (1, 2, 3)] == [1, 1, 1]


def test_one_step_starts_from_what_production_had_and_steady_state_from_its_own_last_assignment() -> None:
    # Production gave b the partitions that a sticky strategy would have left with a.
    swapped = (had("a", HIGH), had("b", LOW))
    rows = replayed(generation(1, had("a", ALL)), generation(2, *swapped), generation(3, *swapped))
    # Range wants 0 and 1 for a: after production's swap it moves all four, after its own assignment none.
    assert measured(rows["range", "one-step", 3]).moved == 4
    assert measured(rows["range", "steady-state", 3]).moved == 0
    for mode in ("one-step", "steady-state"):
        assert measured(rows["sticky", mode, 3]).moved == 0


def test_an_eager_strategy_pauses_everything_and_a_cooperative_one_what_moves(rows: Rows) -> None:
    eager = measured(rows["sticky", "steady-state", 2])
    cooperative = measured(rows["cooperative-sticky", "steady-state", 2])
    everything = 4 * PAUSES.pause_s(Consumption.EAGER, 2)
    assert eager.paused_s == eager.paused_eager_s == cooperative.paused_eager_s == everything
    assert eager.paused_cooperative_s is None
    assert cooperative.paused_s == cooperative.paused_cooperative_s
    assert cooperative.paused_s == 2 * PAUSES.pause_s(Consumption.COOPERATIVE, 2)


def test_partitions_of_a_member_that_left_pause_under_both_protocols(rows: Rows) -> None:
    for name in ("sticky", "cooperative-sticky"):
        assert measured(rows[name, "steady-state", 3]).vacated == 2
    vacancy = 2 * PAUSES.vacancy_s(Consumption.COOPERATIVE, 1)
    assert measured(rows["cooperative-sticky", "steady-state", 3]).paused_s == vacancy
    eager = vacancy + 2 * PAUSES.pause_s(Consumption.EAGER, 1)
    assert measured(rows["sticky", "steady-state", 3]).paused_s == eager


def test_the_first_generation_pauses_nothing(rows: Rows) -> None:
    assert {measured(rows[name, "one-step", 1]).paused_s for name in (*NAMES, RECORDED)} == {0.0}


def test_a_recorded_rebalance_pauses_under_the_protocol_with_which_its_members_joined() -> None:
    first, joined = (
        generation(1, had("a", ALL)),
        generation(2, had("a", LOW, owned=ALL, since=1), had("b", {})),
    )
    ran_eagerly = first, joined, generation(3, had("a", LOW, since=2), had("b", HIGH))
    rows = replayed(*(replace(each, protocol="range") for each in ran_eagerly))
    eager = measured(rows[RECORDED, "steady-state", 3])
    assert (eager.paused_s, eager.paused_cooperative_s) == (eager.paused_eager_s, None)
    held = first, joined, generation(3, had("a", LOW, owned=LOW, since=2), had("b", HIGH))
    rows = replayed(*(replace(each, protocol="own") for each in held))
    cooperative = measured(rows[RECORDED, "steady-state", 3])
    assert cooperative.paused_s == cooperative.paused_cooperative_s
    assert cooperative.paused_s == 2 * PAUSES.pause_s(Consumption.COOPERATIVE, 2)


def test_an_assignment_of_the_broker_pauses_only_partitions_that_move_until_the_next_heartbeat() -> None:
    rows = replayed(*(replace(each, type="consumer") for each in JOIN_AND_LEAVE))
    assert_paused_until_the_next_heartbeat(rows[RECORDED, "steady-state", 2])


def assert_paused_until_the_next_heartbeat(row: Replayed) -> None:
    found = measured(row)
    assert found.paused_s == 2 * PAUSES.pause_s(Consumption.BROKER_ASSIGNED, 2)
    assert (found.paused_eager_s, found.paused_cooperative_s) == (None, None)


def test_rack_misses_stand_beside_the_fewest_at_the_best_balance() -> None:
    racks = tuple(frozenset({rack}) for rack in "xxyy")
    catalogue = Catalogue([CatalogueEntry(None, Topic("orders", 4, racks))])
    a, b = had("a", {"orders": [0, 2]}), had("b", {"orders": [1, 3]})
    members = (replace(a, rack="x"), replace(b, rack="y"))
    strategies = {name: load_strategy(name) for name in ("sticky", "rack-aware-sticky")}
    records = (generation(1, *members), generation(2, *members))
    rows = {}
    for row in replay_group(records, catalogue, strategies, [Mode.ONE_STEP]):
        found = measured(row)
        rows[row.strategy, row.generation] = (found.rack_misses, found.least_rack_misses, found.moved)
    assert rows[RECORDED, 2] == (2, 0, 0)
    assert rows["sticky", 2] == (2, 0, 0)
    assert rows["rack-aware-sticky", 2] == (0, 0, 2)


def test_a_restarted_static_member_keeps_in_steady_state_what_it_had_under_its_old_id() -> None:
    b = had("b", HIGH, instance="pod-1")
    rows = replayed(
        generation(1, had("a", LOW, instance="pod-0"), b),
        generation(1, had("a2", LOW, instance="pod-0"), b, replacement=True),
        generation(2, had("a2", LOW, instance="pod-0"), b),
    )
    found = measured(rows["sticky", "steady-state", 2])
    assert (found.could_stay, found.moved) == (4, 0)


def test_a_steady_state_starts_again_from_the_record_after_a_rebalance_that_cannot_be_judged() -> None:
    swapped = (had("a", HIGH), had("b", LOW))
    rows = replayed(generation(7, *swapped, starts_late=True), generation(8, *swapped))
    assert rows[RECORDED, "steady-state", 7].problem is not None
    assert ("range", "steady-state", 7) not in rows
    assert measured(rows["range", "steady-state", 8]).moved == 4


def test_a_count_that_cannot_be_inferred_is_not_guessed() -> None:
    holes = generation(1, had("a", {"orders": [0, 3]}))
    rows = replayed(holes, catalogue=Catalogue(()))
    assert rows.keys() == {(RECORDED, mode.value, 1) for mode in Mode}
    assert "no partition count is known for topic 'orders'" in rows[RECORDED, "steady-state", 1].problem


@dataclass(frozen=True)
class Failing(Strategy):
    name: str = "failing"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.EAGER,)
    error: type[BaseException] = RuntimeError

    def assign(self, group: Group) -> Assignment:
        if len(group.members) == 2:
            raise self.error("two is too much")
        return Assignment({member: {"orders": range(4)} for member in group.members})


@pytest.mark.parametrize(
    ("error", "said"), [(RuntimeError, ""), (SystemExit, "the strategy asked to end the process, with ")]
)
def test_a_strategy_that_raises_fails_in_that_rebalance_alone(error: type[BaseException], said: str) -> None:
    failing = {"failing": Failing(error=error)}
    rows = list(replay_group(JOIN_AND_LEAVE, FOUR, failing, [Mode.STEADY_STATE]))
    problems = [row.problem for row in rows if row.strategy == "failing"]
    assert problems == [None, f"{error.__name__}: {said}two is too much", None]


def test_a_strategy_is_asked_once_where_both_modes_begin_with_the_same_owners() -> None:
    asked: list[Group] = []

    class Asked(type(load_strategy("range"))):  # type: ignore[misc]
        def assign(self, group: Group) -> Assignment:
            asked.append(group)
            return super().assign(group)  # type: ignore[no-any-return]

    rows = list(replay_group(JOIN_AND_LEAVE, FOUR, {"asked": Asked()}))
    one_step, steady = (
        [row._replace(mode="") for row in rows if (row.strategy, row.mode) == ("asked", mode)]
        for mode in Mode
    )
    # Production ran range, too, so its owners are those of range's own last assignment.
    assert one_step == steady
    assert len(asked) == len(one_step) == 3


@dataclass(frozen=True)
class Restless(Strategy):
    """Takes another partition from a in every round, and gives the rest to a."""

    name: str = "restless"
    protocols: tuple[RebalanceProtocol, ...] = (RebalanceProtocol.COOPERATIVE,)

    def assign(self, group: Group) -> Assignment:
        held = group.members["a"].owned.get("orders", ())
        taken = [p for p in range(4) if p not in held or p == max(held)] if len(group.members) > 1 else []
        shares: dict[str, dict[str, list[int]]] = {name: {} for name in group.members}
        shares["a"]["orders"] = [p for p in range(4) if p not in taken]
        if taken:
            shares["b"]["orders"] = taken
        return Assignment(shares)


NOTHING_FOR_B = (generation(1, had("a", ALL)), generation(2, had("a", ALL), had("b", {})))


def test_a_cooperative_strategy_that_does_not_settle_is_found_out() -> None:
    rows = list(replay_group(NOTHING_FOR_B, FOUR, {"restless": Restless()}, [Mode.ONE_STEP]))
    problems = [row.problem for row in rows if row.strategy == "restless"]
    assert problems == [None, "NotSettledError: still moving partitions in round 4 of one rebalance"]


@pytest.mark.parametrize("name", ["kip848-range", "kip848-uniform"])
def test_the_brokers_assignors_have_one_target_and_no_rounds(name: str) -> None:
    strategies = {name: load_strategy(name)}
    rows = replay_group(NOTHING_FOR_B, FOUR, strategies, [Mode.STEADY_STATE], pauses=PAUSES)
    first, second = (row for row in rows if row.strategy == name)
    assert (measured(first).rounds, measured(first).max_load) == (1, 4)
    assert (measured(second).rounds, measured(second).moved, measured(second).max_load) == (1, 2, 2)
    assert_paused_until_the_next_heartbeat(second)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_strategy_that_modifies_its_arguments_changes_only_its_own_rows(hostile: type[Strategy]) -> None:
    expected = list(replay_group(JOIN_AND_LEAVE, FOUR, STRATEGIES))
    strategies = {"first": hostile(), **STRATEGIES, "last": hostile()}
    found = list(replay_group(JOIN_AND_LEAVE, FOUR, strategies))
    assert [row for row in found if row.strategy not in ("first", "last")] == expected
    assert any(measured(row).moved for row in expected if row.strategy == RECORDED)
    own = [row for row in found if row.strategy in ("first", "last")]
    if hostile is RuiningLater:
        optimal = [row._replace(strategy="") for row in expected if row.strategy == "cooperative-sticky"]
        assert [row._replace(strategy="") for row in own if row.strategy == "last"] == optimal
    else:
        assert all(row.problem for row in own)
