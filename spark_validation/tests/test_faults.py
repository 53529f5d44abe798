"""The members that made a group rebalance, derived from the members of consecutive generations."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest

from kafka_assignors_replay.history import faults
from kafka_assignors_replay.history.faults import THRESHOLDS, Culprit, FaultFinder, FaultKind
from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.history.records import MemberRecord
from spark_validation.tests.groups import START
from spark_validation.tests.test_rebalances import generation

CRASH_LOOP, FLAPPING, EXPIRED, CAME_BACK, DEPLOYMENT, SCALED = FaultKind

MINUTE = 60


def someone(name: str, life: int = 0, *, instance: str | None = None, client: str = "java") -> MemberRecord:
    """A process called `name`; `life` counts its restarts. Only the member id changes at a restart."""
    return MemberRecord(f"{name}-{life}", instance, None, f"{client}-{name}", f"/{name}", ("t",), {})


class Life:
    """A group whose members join and leave; each change is a generation some seconds later."""

    def __init__(self, *members: MemberRecord, starts_late: bool = True, at: datetime = START) -> None:
        self._members = {member.member_id: member for member in members}
        self._now = at
        self.records: list[Generation] = []
        self.then(0, starts_late=starts_late)

    def then(
        self,
        seconds: float,
        *,
        came: Sequence[MemberRecord] = (),
        went: Sequence[MemberRecord] = (),
        **given: Any,
    ) -> Life:
        self._now += timedelta(seconds=seconds)
        for member in went:
            del self._members[member.member_id]
        self._members.update({member.member_id: member for member in came})
        record = generation(len(self.records) + 1, *self._members.values(), **given)
        self.records.append(replace(record, timestamp=self._now))
        return self

    def faults(self, **thresholds: float) -> list[Culprit]:
        finder = FaultFinder()
        with patch.object(faults, "THRESHOLDS", THRESHOLDS._replace(**thresholds)):
            return [fault for record in self.records for fault in finder.feed(record)] + [*finder.finish()]


def kinds(found: Sequence[Culprit]) -> list[FaultKind]:
    return [each.kind for each in found]


A, B, C = someone("a"), someone("b"), someone("c")


def restarts(life: Life, name: str, times: int, *, stays: float = 60, away: float = 20) -> Life:
    for each in range(times):
        life.then(stays, went=[someone(name, each)])
        life.then(away, came=[someone(name, each + 1)])
    return life


# What one member does


def test_scaling_up_and_down_later_is_two_episodes_without_a_fault() -> None:
    up, down = Life(A, B).then(10, came=[C]).then(2 * 3600, went=[C]).faults()
    assert (up.kind, up.joins, up.leaves) == (SCALED, 1, 0)
    assert (down.kind, down.joins, down.leaves) == (SCALED, 0, 1)


def test_a_member_that_restarts_once_came_back_and_made_two_generations() -> None:
    [fault] = restarts(Life(A, B), "a", 1).faults()
    assert fault.kind is CAME_BACK
    assert (fault.joins, fault.leaves, fault.restarts, fault.generations, fault.alone) == (1, 1, 1, 2, 2)
    assert (fault.client_id, fault.client_host, fault.member_id) == ("java-a", "/a", "a-1")


def test_three_quick_restarts_in_a_row_are_a_crash_loop_and_two_are_not() -> None:
    assert kinds(restarts(Life(A, B), "a", 2).faults()) == [CAME_BACK]
    [fault] = restarts(Life(A, B), "a", 3).faults()
    assert (fault.kind, fault.restarts, fault.generations) == (CRASH_LOOP, 3, 6)


@pytest.mark.parametrize(
    ("client", "kind", "expiries"), [("java", EXPIRED, 1), ("aiokafka", SCALED, 0)], ids=["java", "aiokafka"]
)
def test_a_static_member_that_goes_has_lost_its_session_if_its_client_sends_no_leave_group(
    client: str, kind: FaultKind, expiries: int
) -> None:
    pod = someone("pod", instance="pod-0", client=client)
    [fault] = Life(A, pod).then(60, went=[pod]).faults()
    assert (fault.kind, fault.expiries, fault.instance_id) == (kind, expiries, "pod-0")


def test_a_static_member_that_restarts_in_place_makes_no_generation() -> None:
    old, new = someone("pod", 0, instance="pod-0"), someone("pod", 1, instance="pod-0")
    [fault] = Life(A, old).then(60, went=[old], came=[new], replacement=True).faults()
    assert (fault.kind, fault.restarts, fault.expiries, fault.generations) == (CAME_BACK, 1, 0, 0)


def test_an_instance_is_itself_wherever_it_runs() -> None:
    lives = [someone(f"node{n}", instance="pod-0") for n in range(4)]
    life = Life(A, lives[0])
    for old, new in itertools.pairwise(lives):
        life.then(60, went=[old]).then(20, came=[new])
    assert kinds(life.faults()) == [CRASH_LOOP]


def test_a_generation_in_which_two_members_joined_is_the_fault_of_neither_alone() -> None:
    found = Life(A).then(10, came=[B, C]).faults()
    assert [(fault.generations, fault.alone) for fault in found] == [(1, 0), (1, 0)]


def test_a_restart_is_not_attributed_among_members_with_one_client_id_on_one_host() -> None:
    life = restarts(Life(A, someone("a", 99)), "a", 3)
    [fault] = life.faults()
    assert (fault.kind, fault.members, fault.joins, fault.restarts) == (SCALED, 2, 3, 0)
    assert kinds(life.faults(flapping=3)) == [FLAPPING]


def test_an_episode_is_cut_at_midnight_and_a_crash_loop_goes_on_over_it() -> None:
    life = restarts(Life(A, B, at=START - timedelta(minutes=5)), "a", 6)
    before, after = life.faults()
    assert (before.kind, after.kind) == (CRASH_LOOP, CRASH_LOOP)
    assert (before.first_timestamp.date(), after.first_timestamp.date()) == (
        START.date() - timedelta(days=1),
        START.date(),
    )
    assert before.restarts + after.restarts == 6


# Deployments


def rolling(life: Life, names: Sequence[str], *, surge: bool = False, seconds: float = 30) -> Life:
    for name in names:
        old, new = someone(name), someone(f"new-{name}")
        if surge:
            life.then(seconds, came=[new]).then(seconds, went=[old])
        else:
            life.then(seconds, went=[old]).then(seconds, came=[new])
    return life


@pytest.mark.parametrize("surge", [False, True])
def test_a_rolling_deployment_is_one_and_no_fault_of_its_members(surge: bool) -> None:
    [fault] = rolling(Life(A, B, C), "abc", surge=surge).faults()
    assert (fault.kind, fault.client_id) == (DEPLOYMENT, None)
    assert (fault.members, fault.joins, fault.leaves, fault.generations) == (3, 3, 3, 6)


def test_a_deployment_that_stops_all_members_first_is_a_deployment() -> None:
    life = Life(A, B).then(60, went=[A, B]).then(60, came=[someone("x")]).then(5, came=[someone("y")])
    [fault] = life.faults()
    assert (fault.kind, fault.members, fault.generations) == (DEPLOYMENT, 2, 3)


def test_static_members_that_are_replaced_in_place_are_a_deployment_without_a_generation() -> None:
    life = Life(*(someone(name, 0, instance=name) for name in "ab"))
    for name in "ab":
        old, new = (someone(name, number, instance=name) for number in (0, 1))
        life.then(30, went=[old], came=[new], replacement=True)
    [fault] = life.faults()
    assert (fault.kind, fault.members, fault.generations) == (DEPLOYMENT, 2, 0)


def test_a_deployment_is_found_among_other_changes() -> None:
    life = Life(A, B, C, someone("d")).then(30, went=[someone("d")])
    life = rolling(life, "abc").then(301, came=[someone("e")])
    assert kinds(life.faults()) == [DEPLOYMENT, SCALED, SCALED]
    assert {fault.client_id for fault in life.faults()} == {None, "java-d", "java-e"}


def two_deployments() -> Life:
    life = rolling(Life(A, B), "ab")
    life.then(3600, went=[someone("new-a")]).then(5, came=[someone("x")])
    return life.then(5, went=[someone("new-b")]).then(5, came=[someone("y")])


def newcomers_leave() -> Life:
    life = rolling(Life(A, B, C), "ab")
    life.then(10, went=[someone("new-b")]).then(10, came=[someone("new-b", 1)])
    return rolling(life, "c")


LONG_STAYS = restarts(Life(A, B), "a", 3, stays=11 * MINUTE)
LONG_AWAY = restarts(Life(A, B), "a", 4, away=6 * MINUTE)
SLOW_WAVE = rolling(Life(A, B), "ab", seconds=200)

KINDS: dict[str, tuple[Life, dict[str, float], list[FaultKind]]] = {
    "no changes": (Life(A, B).then(10).then(10), {}, []),
    "long stays between restarts": (LONG_STAYS, {}, [CAME_BACK]),
    "stays that count as short": (LONG_STAYS, {"short_stay_s": 12 * MINUTE}, [CRASH_LOOP]),
    "away too long for a restart, and joins often": (LONG_AWAY, {}, [FLAPPING]),
    "not often enough": (LONG_AWAY, {"flapping": 5}, [SCALED]),
    "not in that time": (LONG_AWAY, {"flapping_s": 10 * MINUTE}, [SCALED]),
    "two deployments": (two_deployments(), {}, [DEPLOYMENT, DEPLOYMENT]),
    "a wave that leaves a member out": (rolling(Life(A, B, C), "ab"), {}, [SCALED] * 4),
    "a wave whose newcomers leave again": (newcomers_leave(), {}, [*[SCALED] * 3, CAME_BACK, SCALED, SCALED]),
    "a slow wave": (SLOW_WAVE, {}, [DEPLOYMENT]),
    "a wave that takes too long": (SLOW_WAVE, {"deployment_s": 599}, [SCALED] * 4),
    "a wave that pauses": (SLOW_WAVE, {"deployment_gap_s": 199}, [SCALED] * 4),
    "a single member that is replaced": (rolling(Life(A), "a"), {}, [SCALED] * 2),
    "a history that starts late": (Life(A, B, starts_late=True), {}, []),
    "a history that starts with the group": (Life(A, B, starts_late=False), {}, [SCALED] * 2),
    "a group that is created again": (Life(A).then(10, incarnation=2), {}, [SCALED]),
}


@pytest.mark.parametrize(("life", "thresholds", "found"), KINDS.values(), ids=KINDS)
def test_kinds_of_faults(life: Life, thresholds: dict[str, float], found: list[FaultKind]) -> None:
    assert kinds(life.faults(**thresholds)) == found


# Unknown evidence


def test_nothing_is_compared_across_a_generation_that_does_not_decode() -> None:
    life = Life(A, B).then(10, went=[B], reason="a byte is missing").then(10).then(10, came=[C])
    assert [fault.client_id for fault in life.faults()] == ["java-c"]


def test_lost_records_or_unknown_members_prevent_a_finding() -> None:
    life = Life(A, B).then(10, went=[B])
    last = life.records[-1]
    for doubtful in (replace(last, lost=3), replace(last, problem="members are missing")):
        life.records[-1] = doubtful
        assert life.faults() == []


def test_the_state_of_the_fault_finder_does_not_grow_with_the_history() -> None:
    finder = FaultFinder()

    def pods() -> Iterator[Generation]:
        life = Life(someone("pod0"), B)
        yield life.records.pop()
        for number in range(2_000):
            life.then(600, went=[someone(f"pod{number}")], came=[someone(f"pod{number + 1}")])
            yield life.records.pop()

    given = sum(1 for record in pods() for _ in finder.feed(record))
    kept = len(finder._waiting) + len(finder._open) + len(finder._born)
    assert given >= 1_900
    assert kept < 30


def test_episodes_of_one_client_add_up_to_one_culprit_that_its_last_member_names() -> None:
    late = {"first_timestamp": START + timedelta(hours=5), "last_timestamp": START + timedelta(hours=6)}
    counts = {"joins": 1, "leaves": 2, "restarts": 3, "expiries": 4, "generations": 5, "alone": 6}
    early = {"first_timestamp": START, "last_timestamp": START + timedelta(hours=1)}
    first = Culprit(group="g", member_id="a-0", members=2, **counts, **early)
    last = Culprit(group="g", member_id="a-9", members=1, **counts, **late)
    both = {name: 2 * count for name, count in counts.items()}
    times = {"first_timestamp": START, "last_timestamp": START + timedelta(hours=6)}
    expected = Culprit(group="g", member_id="a-9", members=2, episodes=2, **both, **times)
    for one, other in ((first, last), (last, first)):
        found = replace(one)
        found.add(other)
        assert found == expected
