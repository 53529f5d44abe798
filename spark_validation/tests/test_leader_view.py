"""The leader's view of the topics, derived from the catalogue and from its assignments."""

from __future__ import annotations

from datetime import timedelta

from kafka_assignors.group import Topic
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry, leader_view
from kafka_assignors_replay.history.records import to_micros
from spark_validation.tests.groups import START

GROWN = START + timedelta(minutes=1)
CATALOGUE = Catalogue(
    [
        CatalogueEntry(GROWN, Topic("orders", 6)),
        CatalogueEntry(START, Topic("orders", 4)),
    ]
)


def test_the_catalogue_answers_with_the_entry_in_force() -> None:
    counts = [
        topic.partitions if (topic := CATALOGUE.at("orders", when)) else None
        for when in (START - timedelta(seconds=1), START, GROWN - timedelta(microseconds=1), GROWN)
    ]
    assert counts == [None, 4, 4, 6]


def test_an_entry_of_unknown_age_counts_for_all_times_before_the_next() -> None:
    catalogue = Catalogue([CatalogueEntry(None, Topic("t", 1)), CatalogueEntry(GROWN, Topic("t", 2))])
    found = [catalogue.at("t", when) for when in (START, GROWN)]
    assert found == [Topic("t", 1), Topic("t", 2)]


def test_rows_of_the_table_become_topics_with_racks() -> None:
    row = {
        "topic": "t",
        "topic_id": "x",
        "from": to_micros(START),
        "partitions": 1,
        "replica_racks": [["a", "b"]],
    }
    assert Catalogue.from_rows([row]).at("t", START) == Topic("t", 1, (frozenset("ab"),), "x")


def test_a_leader_with_old_metadata_is_taken_at_its_word() -> None:
    view = leader_view(CATALOGUE, GROWN, ["orders"], {"a": {"orders": [0, 1, 2, 3]}})
    assert view.topics == (Topic("orders", 4),)
    assert (view.inferred, view.problem) == ((), None)


def test_a_leader_may_be_ahead_of_the_catalogue() -> None:
    view = leader_view(CATALOGUE, START, ["orders"], {"a": {"orders": [5, 4, 3, 2, 1, 0]}})
    assert view.topics == (Topic("orders", 6),)


def test_a_topic_that_no_member_got_was_not_seen_by_the_leader() -> None:
    view = leader_view(CATALOGUE, START, ["orders", "ghost"], {"a": {}})
    assert view.topics == ()


def test_partitions_that_a_leader_left_out_do_not_change_the_count() -> None:
    view = leader_view(CATALOGUE, START, ["orders"], {"a": {"orders": [0, 3]}})
    assert view.topics == (Topic("orders", 4),)
