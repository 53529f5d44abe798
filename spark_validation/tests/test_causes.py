"""The causes of generations: each cause has its evidence, and without evidence it is unknown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_assignors.group import Topic
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.history.causes import CauseFinder
from kafka_assignors_replay.history.rebalances import Cause, Generation
from kafka_assignors_replay.history.records import MemberRecord
from spark_validation.tests.groups import ALL, HIGH, LOW, START, Partitions
from spark_validation.tests.test_rebalances import generation, had

MORE = {"orders": [2, 3, 4, 5]}
A, B = had("a", LOW), had("b", HIGH)

GROWN = Catalogue(
    [
        CatalogueEntry(None, Topic("orders", 4)),
        CatalogueEntry(START, Topic("orders", 6)),
        CatalogueEntry(None, Topic("payments", 2)),
    ]
)


def causes(*records: Generation, catalogue: Catalogue = GROWN) -> tuple[Cause, ...]:
    """The causes of the last of these generations."""
    finder = CauseFinder(catalogue)
    *_, found = [finder.feed(record) for record in records]
    return found


def of_broker(record: Generation, *facts: tuple[str, str]) -> Generation:
    """The generation as one of a KIP-848 group, with the facts before it."""
    return replace(record, type="consumer", facts=facts)


def subscribed(member: MemberRecord, *topics: str, pattern: str | None = None) -> MemberRecord:
    return replace(member, topics=topics, pattern=pattern)


def static(member_id: str, gets: Partitions, instance: str) -> MemberRecord:
    return had(member_id, gets, instance=instance)


def test_the_first_generation_is_a_join_and_an_empty_group_is_created() -> None:
    assert causes(generation(1, A)) == (Cause.JOIN,)
    assert causes(generation(0)) == (Cause.CREATED,)
    assert causes(generation(0), generation(1, A)) == (Cause.JOIN,)


def test_members_come_and_go_and_both_may_happen_at_once() -> None:
    before = generation(1, A)
    assert causes(before, generation(2, A, B)) == (Cause.JOIN,)
    assert causes(generation(1, A, B), generation(2, A)) == (Cause.DEPARTURE,)
    assert causes(before, generation(2, B)) == (Cause.JOIN, Cause.DEPARTURE)
    assert causes(before, generation(2)) == (Cause.DEPARTURE,)


def test_another_life_of_the_group_has_no_part_in_it() -> None:
    assert causes(generation(1, A), generation(1, B, incarnation=2)) == (Cause.JOIN,)


def test_a_static_member_under_a_new_id_is_a_replacement_with_or_without_a_rebalance() -> None:
    before = generation(1, static("a", LOW, "pod-0"), B)
    after = (static("a2", LOW, "pod-0"), B)
    assert causes(before, generation(1, *after, replacement=True)) == (Cause.STATIC_REPLACEMENT,)
    assert causes(before, generation(2, *after)) == (Cause.STATIC_REPLACEMENT,)
    gone = generation(2, B)
    assert causes(before, gone) == (Cause.DEPARTURE,)
    assert causes(before, gone, generation(3, *after)) == (Cause.JOIN,)


def test_a_member_that_asks_for_other_topics_changed_its_subscription() -> None:
    other = subscribed(A, "orders", "payments")
    assert causes(generation(1, A, B), generation(2, other, B)) == (Cause.SUBSCRIPTION,)
    assert causes(generation(1, A), generation(2, other, B)) == (Cause.JOIN, Cause.SUBSCRIPTION)


def test_a_pattern_is_told_from_a_subscription_by_names() -> None:
    before = of_broker(generation(2, subscribed(A, "orders", pattern=".*s")))
    same = subscribed(A, "orders", "payments", pattern=".*s")
    resolved = (Cause.PATTERN, ".*s")
    assert causes(before, of_broker(generation(3, same), resolved)) == (Cause.PATTERN,)
    assert causes(before, of_broker(generation(3, same))) == (Cause.SUBSCRIPTION,)
    other = of_broker(generation(3, subscribed(A, "orders", pattern="o.*")))
    assert causes(before, other) == (Cause.PATTERN,)


def test_partitions_were_added_if_the_catalogue_confirms_what_the_assignment_shows() -> None:
    before, after = generation(1, A, B), generation(2, A, had("b", MORE))
    assert causes(before, after) == (Cause.PARTITIONS_ADDED,)
    assert causes(before, after, catalogue=Catalogue(())) == (Cause.UNKNOWN,)
    both = generation(2, A, had("b", HIGH), had("c", {"orders": [4, 5]}))
    assert causes(before, both) == (Cause.JOIN, Cause.PARTITIONS_ADDED)


def test_partitions_that_were_withheld_for_a_round_were_not_added() -> None:
    before = generation(1, A, had("b", MORE))
    withheld = generation(2, A, had("b", HIGH, owned=MORE, since=1), had("c", {}), protocol="own")
    handed = generation(3, A, B, had("c", {"orders": [4, 5]}), protocol="own")
    assert causes(before, withheld, handed) == (Cause.HAND_OVER,)


def test_the_second_round_of_a_cooperative_rebalance_hands_over_what_the_first_withheld() -> None:
    first = generation(2, had("a", LOW, owned=ALL, since=1), had("b", {}), protocol="cooperative-sticky")
    second = generation(3, A, B, protocol="cooperative-sticky")
    before = generation(1, had("a", ALL), protocol="cooperative-sticky")
    assert causes(before, first) == (Cause.JOIN,)
    assert causes(before, first, second) == (Cause.HAND_OVER,)
    eager = generation(2, had("a", LOW, owned=ALL, since=1, revoked=True), had("b", {}))
    assert causes(before, eager, generation(3, A, B)) == (Cause.UNKNOWN,)


def test_another_assignor_is_a_cause() -> None:
    assert causes(generation(1, A), generation(2, A, protocol="sticky")) == (Cause.ASSIGNOR,)


def test_another_leader_is_a_cause_while_the_old_one_is_there() -> None:
    before = replace(generation(1, A, B), leader="a")
    assert causes(before, replace(generation(2, A, B), leader="b")) == (Cause.LEADER,)
    assert causes(before, replace(generation(2, B), leader="b")) == (Cause.DEPARTURE,)


def test_a_group_that_changes_its_protocol_migrates() -> None:
    classic = generation(5, A, B)
    same = of_broker(
        replace(classic, replacement=True, continues=True), (Cause.MIGRATION, "classic to consumer")
    )
    assert causes(classic, same) == (Cause.MIGRATION,)
    back = replace(classic, replacement=True, continues=True)
    assert causes(of_broker(classic), back) == (Cause.MIGRATION,)
    assert causes(of_broker(classic), back, generation(6, A, B)) == (Cause.MIGRATION,)
    assert causes(of_broker(classic), back, generation(6, A)) == (Cause.DEPARTURE,)
    assert causes(of_broker(classic), back, generation(6, A, B), generation(7, A, B)) == (Cause.UNKNOWN,)


@pytest.mark.parametrize("cause", [Cause.EXPIRY, Cause.POLL_INTERVAL])
def test_a_departure_is_more_where_the_records_show_more(cause: Cause) -> None:
    before = of_broker(generation(2, A, B))
    assert causes(before, of_broker(generation(3, A), (cause, "b"))) == (cause,)
    assert causes(before, of_broker(generation(3), (cause, "b"))) == (Cause.DEPARTURE, cause)
    # A member joined and left between the two generations.
    assert causes(before, of_broker(generation(4, A, B), (cause, "c"))) == (cause,)


def test_topics_that_changed_without_more_partitions_are_a_cause_of_their_own() -> None:
    before = of_broker(generation(2, A, B))
    changed = (Cause.TOPICS, "")
    assert causes(before, of_broker(generation(3, A, B), changed)) == (Cause.TOPICS,)
    grown = of_broker(generation(3, A, had("b", MORE)), changed)
    assert causes(before, grown) == (Cause.PARTITIONS_ADDED,)
    listed = of_broker(generation(3, A, B), (Cause.PARTITIONS_ADDED, "orders"))
    assert causes(before, listed, catalogue=Catalogue(())) == (Cause.PARTITIONS_ADDED,)


def test_a_generation_that_differs_in_nothing_is_unknown() -> None:
    assert causes(generation(1, A, B), generation(2, A, B)) == (Cause.UNKNOWN,)


def test_nothing_is_concluded_across_what_is_missing() -> None:
    before, after = generation(1, A), generation(2, A, B)
    assert causes(generation(7, A, starts_late=True)) == (Cause.UNKNOWN,)
    assert causes(before, replace(after, reason="a byte is missing")) == (Cause.UNKNOWN,)
    assert causes(replace(before, reason="a byte is missing"), after) == (Cause.UNKNOWN,)
    assert causes(before, replace(after, problem="a reason")) == (Cause.UNKNOWN,)
    assert causes(replace(before, problem="a reason"), after) == (Cause.UNKNOWN,)
    assert causes(before, replace(after, lost=1)) == (Cause.UNKNOWN,)


def test_a_generation_before_which_records_are_missing_has_an_unknown_cause() -> None:
    before, after = generation(1, A), generation(4, A, B, skipped=2)
    assert causes(before, replace(after, shows_loss=True)) == (Cause.UNKNOWN,)
    assert causes(before, after) == (Cause.JOIN,)
