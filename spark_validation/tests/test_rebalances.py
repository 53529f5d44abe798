"""Records of a group become logical rebalances: the decisions to make, and their inputs."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_assignors_replay.history.generations import OwnershipFold
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
    revoked: bool = False,
    instance: str | None = None,
) -> MemberRecord:
    topics = ("orders",)
    return MemberRecord(
        name, instance, None, f"java-{name}", "/127.0.0.1", topics, gets, owned or {}, since, revoked
    )


def generation(
    number: int,
    *members: MemberRecord,
    protocol: str = "range",
    incarnation: int = 1,
    skipped: int = 0,
    starts_late: bool = False,
    replacement: bool = False,
    decodes: bool = True,
) -> Generation:
    return Generation(
        group="g",
        incarnation=incarnation,
        generation=number,
        offset=100 * incarnation + number,
        timestamp=START + timedelta(seconds=number),
        protocol=protocol if members else "",
        empty=not members,
        replacement=replacement,
        skipped=skipped,
        starts_late=starts_late,
        reason=None if decodes else "a byte is missing",
        members={member.member_id: member for member in members},
    )


def rebalances(records: Iterable[Generation]) -> Iterator[Rebalance | Replacement]:
    folder = RebalanceFold()
    for record in records:
        yield from folder.feed(record)
    yield from folder.finish()


def of(*records: Generation) -> list[Rebalance]:
    return [each for each in rebalances(records) if isinstance(each, Rebalance)]


def hand_over(*then: Generation, revoked: bool = False) -> Rebalance:
    """The last rebalance after b joined a cooperative group in which a had all partitions."""
    keeps = had("a", LOW, owned=ALL, since=1, revoked=revoked)
    joined = generation(2, keeps, had("b", {}, instance="pod"), protocol=COOP)
    *_, last = of(generation(1, had("a", ALL), protocol=COOP), joined, *then)
    return last


def test_every_eager_generation_is_a_rebalance_of_its_own() -> None:
    first, second = of(generation(1, had("a", ALL)), generation(2, had("a", LOW), had("b", HIGH)))
    assert (first.prior, first.recorded) == ({}, {"a": ALL})
    assert (second.prior, second.recorded) == ({"a": ALL}, {"a": LOW, "b": HIGH})
    assert (second.generations, second.prior_generation) == (1, 1)


def test_the_two_generations_of_a_cooperative_hand_over_are_one_rebalance() -> None:
    last = hand_over(generation(3, had("a", LOW, owned=LOW, since=2), had("b", HIGH), protocol=COOP))
    assert (last.generation, last.generations) == (3, 2)
    assert (last.prior, last.recorded) == ({"a": ALL}, {"a": LOW, "b": HIGH})
    assert last.problem is None


def test_a_join_during_a_hand_over_makes_it_longer() -> None:
    members = (had("a", LOW, owned=LOW, since=2), had("b", {"orders": [2]}), had("c", {"orders": [3]}))
    last = hand_over(generation(3, *members, protocol=COOP))
    assert last.generations == 2
    assert last.recorded["c"] == {"orders": [3]}


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


def test_two_cooperative_generations_that_hand_nothing_over_are_two_rebalances() -> None:
    both = of(
        generation(1, had("a", ALL), protocol=COOP),
        generation(2, had("a", ALL, owned=ALL, since=1), protocol=COOP),
    )
    assert [rebalance.generations for rebalance in both] == [1, 1]


def test_members_that_revoked_all_partitions_hand_none_over_under_any_strategy_name() -> None:
    last = hand_over(revoked=True)
    assert (last.generations, last.problem) == (1, None)


@pytest.mark.parametrize(
    "after",
    [(generation(2), generation(3, had("b", ALL))), (generation(1, had("b", ALL), incarnation=2),)],
    ids=["empty", "deleted"],
)
def test_a_group_that_ended_leaves_nothing_to_start_from(after: tuple[Generation, ...]) -> None:
    *_, last = of(generation(1, had("a", ALL)), *after)
    assert (last.prior, last.problem) == ({}, None)


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


def test_a_replacement_during_a_hand_over_does_not_end_it() -> None:
    replaced = (had("a", LOW, owned=ALL, since=1), had("b2", {}, instance="pod"))
    last = hand_over(
        generation(2, *replaced, protocol=COOP, replacement=True),
        generation(3, had("a", LOW, owned=LOW, since=2), had("b2", HIGH, instance="pod"), protocol=COOP),
    )
    assert (last.generations, last.problem) == (2, None)
    assert last.recorded == {"a": LOW, "b2": HIGH}


def test_a_history_that_starts_late_is_judged_from_its_second_generation_on() -> None:
    first, second = of(
        generation(41, had("a", ALL), starts_late=True), generation(42, had("a", LOW), had("b", HIGH))
    )
    assert first.problem == HISTORY_STARTS
    assert (second.problem, second.prior) == (None, {"a": ALL})


def test_skipped_numbers_alone_are_no_lost_history() -> None:
    *_, last = of(generation(1, had("a", ALL)), generation(5, had("a", ALL), skipped=3))
    assert (last.problem, last.skipped) == (None, 3)


SECOND = generation(2, had("a", LOW), had("b", HIGH))


@pytest.mark.parametrize(
    ("second", "problem", "next_problem"),
    [
        (replace(SECOND, reason="a byte is missing"), DOES_NOT_DECODE, PREDECESSOR_DOES_NOT_DECODE),
        (replace(SECOND, problem="why"), "why", "what members had before it is not known: why"),
        (replace(SECOND, lost=2, shows_loss=True), RECORDS_LOST, None),
    ],
    ids=["does not decode", "a problem", "lost records"],
)
def test_a_doubtful_generation_is_not_judged_and_the_next_one_where_it_starts_from_it(
    second: Generation, problem: str, next_problem: str | None
) -> None:
    records = (
        generation(1, had("a", ALL)),
        second,
        generation(3, had("a", ALL)),
        replace(SECOND, generation=4),
    )
    assert [each.problem for each in of(*records)] == [None, problem, next_problem, None]


# The owners of partitions over time


def spans(*records: Generation) -> set[tuple[int, str, int, int]]:
    """The partition, its owner, and the seconds since `START` at which the ownership began and ended."""
    folder = OwnershipFold()
    for record in records:
        folder.feed(record)
    second = timedelta(seconds=1)
    return {
        (span.partition, span.member, (span.begin - START) // second, (span.end - START) // second)
        for span in folder.finish()
    }


def test_a_partition_is_owned_until_another_member_gets_it() -> None:
    shared = (had("a", {"orders": [0]}), had("b", {"orders": [1]}))
    records = (generation(1, had("a", LOW)), generation(3, *shared), generation(7, *shared))
    assert spans(*records) == {(0, "a", 1, 7), (1, "a", 1, 3), (1, "b", 3, 7)}


def test_a_withheld_partition_has_no_owner() -> None:
    shared = (had("a", {"orders": [0]}), had("b", {"orders": [1]}))
    withheld = generation(2, had("a", {"orders": [0]}), had("b", {}))
    records = (generation(1, had("a", LOW)), withheld, generation(4, *shared), generation(5, *shared))
    assert spans(*records) == {(0, "a", 1, 5), (1, "a", 1, 2), (1, "b", 4, 5)}


def test_a_static_member_that_restarts_goes_on_with_what_it_had() -> None:
    records = (
        generation(1, had("a", {"orders": [0]}, instance="pod")),
        generation(1, had("a2", {"orders": [0]}, instance="pod"), replacement=True),
        generation(5, had("a2", {"orders": [0]}, instance="pod")),
    )
    assert spans(*records) == {(0, "pod", 1, 5)}


A = had("a", {"orders": [0]})
ANEW = replace(generation(1, A, incarnation=2), timestamp=START + timedelta(seconds=5))
ANEW_LATER = replace(generation(2, A, incarnation=2), timestamp=START + timedelta(seconds=6))


@pytest.mark.parametrize(
    "between",
    [
        (generation(2), generation(5, A), generation(6, A)),
        (generation(2, A), replace(generation(5, A), lost=2), generation(6, A)),
        (generation(2, A), ANEW, ANEW_LATER),
    ],
    ids=["empty", "lost records", "made anew"],
)
def test_no_partition_is_owned_across_what_is_missing(between: tuple[Generation, ...]) -> None:
    assert spans(generation(1, A), *between) == {(0, "a", 1, 2), (0, "a", 5, 6)}


def test_only_the_last_records_are_drawn_and_a_span_begins_no_earlier() -> None:
    a = had("a", {"orders": [0]})
    records = [generation(number, a, had("b", {"orders": [number]})) for number in range(1, 301)]
    found = spans(*records)
    assert (0, "a", 101, 300) in found
    assert min(begin for _, _, begin, _ in found) == 101
    assert len(found) == 201


def test_a_generation_with_too_many_partitions_to_draw_has_no_owners() -> None:
    a, b = had("a", {"orders": [0]}), had("b", {"orders": range(1, 121)})
    assert spans(generation(1, a), generation(2, a, b), generation(3, a), generation(4, a)) == {
        (0, "a", 1, 2),
        (0, "a", 3, 4),
    }
