"""Records of a group become logical rebalances: the decisions to make, and their inputs."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from kafka_assignors.group import NO_GENERATION
from kafka_assignors_replay.history.rebalances import (
    DOES_NOT_DECODE,
    HISTORY_STARTS,
    PREDECESSOR_DOES_NOT_DECODE,
    RECORDS_LOST,
    UNFINISHED,
    Generation,
    Rebalance,
    RebalanceFold,
    Replacement,
)
from kafka_assignors_replay.history.records import MemberRecord
from spark_validation.tests.groups import ALL, HIGH, LOW, START, Partitions

COOP = "cooperative-sticky"


def had(
    name: str,
    gets: Partitions,
    *,
    owned: Partitions | None = None,
    since: int = -1,
    instance: str | None = None,
) -> MemberRecord:
    topics = ("orders",)
    return MemberRecord(name, instance, None, f"java-{name}", "/127.0.0.1", topics, gets, owned or {}, since)


def generation(
    number: int, *members: MemberRecord, protocol: str = "range", incarnation: int = 1, **given: Any
) -> Generation:
    return Generation(
        group="g",
        incarnation=incarnation,
        generation=number,
        offset=100 * incarnation + number,
        timestamp=START + timedelta(seconds=number),
        protocol=protocol if members else "",
        empty=not members,
        members={member.member_id: member for member in members},
        **given,
    )


def rebalances(records: Iterable[Generation]) -> Iterator[Rebalance | Replacement]:
    folder = RebalanceFold()
    for record in records:
        yield from folder.feed(record)
    yield from folder.finish()


def of(*records: Generation) -> list[Rebalance]:
    return [each for each in rebalances(records) if isinstance(each, Rebalance)]


A = had("a", ALL)
KEEPS = had("a", LOW, owned=ALL, since=1)
KEPT = had("a", LOW, owned=LOW, since=2)
A_HAD_ALL = generation(1, A)
SHARED = generation(2, had("a", LOW), had("b", HIGH))
HAND_OVER = generation(1, A, protocol=COOP), generation(2, KEEPS, had("b", {}, instance="pod"), protocol=COOP)
HANDED = generation(3, KEPT, had("b", HIGH), protocol=COOP)
JOINED = generation(3, KEPT, had("b", {"orders": [2]}), had("c", {"orders": [3]}), protocol=COOP)
REPLACED = (
    generation(2, KEEPS, had("b2", {}, instance="pod"), protocol=COOP, replacement=True),
    generation(3, KEPT, had("b2", HIGH, instance="pod"), protocol=COOP),
)
KEPT_ALL = generation(2, had("a", ALL, owned=ALL, since=1), protocol=COOP)
REVOKED = generation(2, replace(KEEPS, revoked=True), had("b", {}), protocol=COOP)

NOTHING = (NO_GENERATION, {})
THAT = (1, {"a": ALL})

LAST: dict[str, tuple[tuple[Generation, ...], int, tuple[int, Mapping[str, Partitions]]]] = {
    "the first": ((A_HAD_ALL,), 1, NOTHING),
    "an eager generation": ((A_HAD_ALL, SHARED), 1, THAT),
    "the two generations of a cooperative hand-over": ((*HAND_OVER, HANDED), 2, THAT),
    "a join makes a hand-over longer": ((*HAND_OVER, JOINED), 2, THAT),
    "a replacement does not end a hand-over": ((*HAND_OVER, *REPLACED), 2, THAT),
    "cooperative generations that hand nothing over": ((HAND_OVER[0], KEPT_ALL), 1, THAT),
    "members that revoked all hand none over": ((HAND_OVER[0], REVOKED), 1, THAT),
    "nothing is left of an empty group": ((A_HAD_ALL, generation(2), generation(3, A)), 1, (2, {})),
    "nor of a deleted one": ((A_HAD_ALL, generation(1, A, incarnation=2)), 1, NOTHING),
    "a history is judged from its second on": ((replace(A_HAD_ALL, starts_late=True), SHARED), 1, THAT),
    "skipped numbers alone are no lost history": ((A_HAD_ALL, generation(5, A, skipped=3)), 1, THAT),
}


@pytest.mark.parametrize(("records", "generations", "prior"), LAST.values(), ids=LAST)
def test_the_last_rebalance(
    records: tuple[Generation, ...], generations: int, prior: tuple[int, Mapping[str, Partitions]]
) -> None:
    last = of(*records)[-1]
    assert (last.generation, last.members) == (records[-1].generation, records[-1].members)
    assert (last.generations, (last.prior_generation, last.prior)) == (generations, prior)
    assert (last.problem, last.skipped) == (None, records[-1].skipped)


def test_the_first_generation_of_a_history_that_starts_late_is_not_judged() -> None:
    (first,) = of(generation(41, had("a", ALL), starts_late=True))
    assert first.problem == HISTORY_STARTS


def test_a_hand_over_without_an_end_takes_no_more_memory_the_longer_it_goes_on() -> None:
    fold, sizes, gets, owned = RebalanceFold(), [], LOW, HIGH
    for number in range(100, 200):
        # Each generation leaves the member's previous partitions without an owner.
        gets, owned = owned, gets
        found = [*fold.feed(generation(number, had("a", gets, owned=owned), protocol="own"))]
        assert len(found) == (number == 100)
        sizes.append(len(pickle.dumps(fold)))
    assert abs(sizes[-1] - sizes[10]) < 20
    (unfinished,) = fold.finish()
    assert (unfinished.generation, unfinished.generations) == (199, 99)
    assert unfinished.problem == UNFINISHED


def test_a_restarted_static_member_takes_its_partitions_to_its_new_id() -> None:
    records = (
        generation(1, had("old", ALL, instance="pod-0")),
        generation(1, had("new", ALL, instance="pod-0"), replacement=True),
        generation(2, had("new", LOW, instance="pod-0"), had("b", HIGH)),
    )
    first, replaced, last = rebalances(records)
    assert isinstance(first, Rebalance)
    assert replaced == Replacement({"old": "new"})
    assert isinstance(last, Rebalance)
    assert last.prior == {"new": ALL}


@pytest.mark.parametrize(
    ("second", "problem", "next_problem"),
    [
        (replace(SHARED, reason="a byte is missing"), DOES_NOT_DECODE, PREDECESSOR_DOES_NOT_DECODE),
        (replace(SHARED, problem="why"), "why", "what members had before it is not known: why"),
        (replace(SHARED, lost=2, shows_loss=True), RECORDS_LOST, None),
    ],
    ids=["does not decode", "a problem", "lost records"],
)
def test_a_doubtful_generation_is_not_judged_and_the_next_one_where_it_starts_from_it(
    second: Generation, problem: str, next_problem: str | None
) -> None:
    records = A_HAD_ALL, second, generation(3, had("a", ALL)), replace(SHARED, generation=4)
    assert [each.problem for each in of(*records)] == [None, problem, next_problem, None]
