"""The owners of partitions over time."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

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


def test_no_partition_is_owned_in_a_group_that_is_empty_or_does_not_decode() -> None:
    a = had("a", {"orders": [0]})
    assert spans(generation(1, a), generation(2), generation(5, a), generation(6, a)) == {
        (0, "a", 1, 2),
        (0, "a", 5, 6),
    }
    assert spans(generation(1, a), generation(2, a, decodes=False), generation(5, a)) >= {(0, "a", 1, 2)}


def test_no_partition_is_owned_across_lost_records() -> None:
    a = had("a", {"orders": [0]})
    records = (generation(1, a), generation(2, a), replace(generation(8, a), lost=5), generation(9, a))
    assert spans(*records) == {(0, "a", 1, 2), (0, "a", 8, 9)}


def test_a_group_made_anew_shares_nothing_with_the_old_one() -> None:
    a = had("a", {"orders": [0]})
    anew = replace(generation(1, a, incarnation=2), timestamp=START + timedelta(seconds=9))
    later = replace(generation(2, a, incarnation=2), timestamp=START + timedelta(seconds=12))
    assert spans(generation(1, a), generation(4, a), anew, later) == {(0, "a", 1, 4), (0, "a", 9, 12)}


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
