"""The clients and deployments that made a group rebalance, from the members of consecutive generations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest

from kafka_assignors_replay.history import culprits
from kafka_assignors_replay.history.culprits import Culprit, CulpritFinder
from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.history.records import MemberRecord
from spark_validation.tests.groups import START
from spark_validation.tests.test_rebalances import generation


def someone(name: str, life: int = 0, *, instance: str | None = None, client: str = "java") -> MemberRecord:
    """A process called `name`; `life` counts its restarts. Only the member id changes at a restart."""
    return MemberRecord(f"{name}-{life}", instance, None, f"{client}-{name}", f"/{name}", ("t",), {})


class Life:
    """A group whose members join and leave; each change is a generation some seconds later."""

    def __init__(self, *members: MemberRecord, starts_late: bool = True) -> None:
        self._members = {member.member_id: member for member in members}
        self._now = START
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

    def culprits(self, **limits: object) -> list[Culprit]:
        finder = CulpritFinder()
        with patch.dict(vars(culprits), limits):
            for record in self.records:
                finder.feed(record)
            return finder.finish()


def counts(life: Life, **limits: object) -> dict[str | None, tuple[int, int, int]]:
    """The generations, those alone, and the deployments of each client; of the deployments by None."""
    found = life.culprits(**limits)
    return {each.client_id: (each.generations, each.alone, each.deployments) for each in found}


A, B, C = someone("a"), someone("b"), someone("c")


# What one client does


def test_a_client_is_charged_with_each_of_its_joins_and_leaves() -> None:
    life = Life(A, B).then(10, came=[C])
    for number in range(3):
        life.then(60, went=[someone("a", number)]).then(20, came=[someone("a", number + 1)])
    a, c = life.then(7200, went=[C]).culprits()
    assert (a.client_id, a.client_host, a.instance_id) == ("java-a", "/a", None)
    assert (a.joins, a.leaves, a.generations, a.alone, a.deployments) == (3, 3, 6, 6, 0)
    assert (c.joins, c.leaves, c.last_timestamp - c.first_timestamp) == (1, 1, timedelta(seconds=7440))


def test_a_static_member_that_restarts_in_place_makes_no_generation() -> None:
    old, new = someone("pod", 0, instance="pod-0"), someone("pod", 1, instance="pod-0")
    [found] = Life(A, old).then(60, went=[old], came=[new], replacement=True).culprits()
    assert (found.instance_id, found.joins, found.leaves, found.generations) == ("pod-0", 1, 1, 0)


def test_an_instance_is_itself_wherever_it_runs() -> None:
    lives = [someone(f"node{n}", instance="pod-0") for n in range(4)]
    life = Life(A, lives[0])
    for old, new in itertools.pairwise(lives):
        life.then(60, went=[old]).then(20, came=[new])
    [found] = life.culprits()
    assert (found.instance_id, found.client_host, found.generations) == ("pod-0", "/node3", 6)


def test_a_generation_in_which_two_members_joined_is_the_fault_of_neither_alone() -> None:
    assert counts(Life(A).then(10, came=[B, C])) == {"java-b": (1, 0, 0), "java-c": (1, 0, 0)}


def test_members_with_one_client_id_on_one_host_are_one_client() -> None:
    [found] = Life(A, someone("a", 99)).then(60, went=[A]).then(20, came=[someone("a", 1)]).culprits()
    assert (found.members, found.joins, found.leaves) == (2, 1, 1)


def test_the_clients_with_the_most_rebalances_are_named() -> None:
    life = Life(A, B)
    for number in range(30):
        life.then(400, came=[someone(f"c{number}")])
    life.then(400, went=[someone("c29")])
    found = life.culprits()
    assert len(found) == 20
    assert [(each.client_id, each.generations) for each in found[:2]] == [("java-c29", 2), ("java-c0", 1)]


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
    [found] = rolling(Life(A, B, C), "abc", surge=surge).culprits()
    assert (found.deployments, found.client_id) == (1, None)
    assert (found.members, found.joins, found.leaves, found.generations) == (3, 3, 3, 6)


def test_a_deployment_that_stops_all_members_first_is_a_deployment() -> None:
    life = Life(A, B).then(60, went=[A, B]).then(60, came=[someone("x")]).then(5, came=[someone("y")])
    [found] = life.culprits()
    assert (found.deployments, found.members, found.generations) == (1, 2, 3)


def test_static_members_that_are_replaced_in_place_are_a_deployment_without_a_generation() -> None:
    life = Life(*(someone(name, 0, instance=name) for name in "ab"))
    for name in "ab":
        old, new = (someone(name, number, instance=name) for number in (0, 1))
        life.then(30, went=[old], came=[new], replacement=True)
    [found] = life.culprits()
    assert (found.deployments, found.members, found.generations) == (1, 2, 0)


def test_a_deployment_is_found_among_other_changes() -> None:
    life = Life(A, B, C, someone("d")).then(30, went=[someone("d")])
    life = rolling(life, "abc").then(301, came=[someone("e")])
    assert counts(life) == {None: (6, 0, 1), "java-d": (1, 1, 0), "java-e": (1, 1, 0)}


def two_deployments() -> Life:
    life = rolling(Life(A, B), "ab")
    life.then(3600, went=[someone("new-a")]).then(5, came=[someone("x")])
    return life.then(5, went=[someone("new-b")]).then(5, came=[someone("y")])


def newcomers_leave() -> Life:
    life = rolling(Life(A, B, C), "ab")
    life.then(10, went=[someone("new-b")]).then(10, came=[someone("new-b", 1)])
    return rolling(life, "c")


SLOW_WAVE = rolling(Life(A, B), "ab", seconds=200)

DEPLOYMENTS: dict[str, tuple[Life, dict[str, object], int, int]] = {
    "no changes": (Life(A, B).then(10).then(10), {}, 0, 0),
    "two deployments": (two_deployments(), {}, 2, 0),
    "a wave that leaves a member out": (rolling(Life(A, B, C), "ab"), {}, 0, 4),
    "a wave whose newcomers leave again": (newcomers_leave(), {}, 0, 8),
    "a slow wave": (SLOW_WAVE, {}, 1, 0),
    "a wave that takes too long": (SLOW_WAVE, {"DEPLOYMENT": timedelta(seconds=599)}, 0, 4),
    "a wave that pauses": (SLOW_WAVE, {"DEPLOYMENT_GAP": timedelta(seconds=199)}, 0, 4),
    "a single member that is replaced": (rolling(Life(A), "a"), {}, 0, 2),
    "a history that starts late": (Life(A, B, starts_late=True), {}, 0, 0),
    "a history that starts with the group": (Life(A, B, starts_late=False), {}, 0, 2),
    "a group that is created again": (Life(A).then(10, incarnation=2), {}, 0, 1),
}


@pytest.mark.parametrize(("life", "limits", "deployments", "others"), DEPLOYMENTS.values(), ids=DEPLOYMENTS)
def test_waves_are_deployments_and_other_changes_are_charged(
    life: Life, limits: dict[str, object], deployments: int, others: int
) -> None:
    found = life.culprits(**limits)
    assert sum(each.deployments for each in found) == deployments
    assert sum(each.joins + each.leaves for each in found if each.client_id) == others


# Unknown evidence


def test_nothing_is_compared_across_a_generation_that_does_not_decode() -> None:
    life = Life(A, B).then(10, went=[B], reason="a byte is missing").then(10).then(10, came=[C])
    assert counts(life) == {"java-c": (1, 1, 0)}


def test_lost_records_or_unknown_members_prevent_a_finding() -> None:
    life = Life(A, B).then(10, went=[B])
    last = life.records[-1]
    for doubtful in (replace(last, lost=3), replace(last, problem="members are missing")):
        life.records[-1] = doubtful
        assert life.culprits() == []


def test_the_state_does_not_grow_with_the_history_and_keeps_those_with_the_most_rebalances() -> None:
    finder, life = CulpritFinder(), Life(someone("pod0"), B)
    finder.feed(life.records.pop())
    with patch.object(culprits, "_MOST_CLIENTS", 50):
        for number in range(2_000):
            life.then(600, went=[someone(f"pod{number}")], came=[someone(f"pod{number + 1}")])
            finder.feed(life.records.pop())
            if number % 7 == 0:
                life.then(600, went=[B]).then(600, came=[B])
                for record in (life.records.pop(-2), life.records.pop()):
                    finder.feed(record)
        assert len(finder._waiting) + len(finder._found) + len(finder._born) < 80
        worst, *others = finder.finish()
    assert (worst.client_id, worst.generations) == ("java-b", 572)
    assert all(each.generations == 2 for each in others)
