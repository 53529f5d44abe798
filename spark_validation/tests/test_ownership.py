"""The owners of partitions over time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_assignors_replay.history.generations import OwnershipFold
from kafka_assignors_replay.history.rebalances import Generation
from spark_validation.tests.groups import LOW, START
from spark_validation.tests.test_rebalances import generation, had


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
