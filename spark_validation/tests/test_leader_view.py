"""The leader's view of the topics, derived from the catalogue and from its assignments."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

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
    # An entry of unknown age counts for all times before the next.
    of_unknown_age = Catalogue([CatalogueEntry(None, Topic("t", 1)), CatalogueEntry(GROWN, Topic("t", 2))])
    assert [of_unknown_age.at("t", when) for when in (START, GROWN)] == [Topic("t", 1), Topic("t", 2)]


def test_rows_of_the_table_become_topics_with_racks() -> None:
    row = {
        "topic": "t",
        "topic_id": "x",
        "from": to_micros(START),
        "partitions": 1,
        "replica_racks": [["a", "b"]],
    }
    assert Catalogue.from_rows([row]).at("t", START) == Topic("t", 1, (frozenset("ab"),), "x")


@pytest.mark.parametrize(
    ("when", "assigned", "seen"),
    [
        (GROWN, [0, 1, 2, 3], (Topic("orders", 4),)),
        (START, [5, 4, 3, 2, 1, 0], (Topic("orders", 6),)),
        (START, [0, 3], (Topic("orders", 4),)),
        (START, [], ()),
    ],
    ids=["old metadata", "ahead of the catalogue", "partitions left out", "a topic that no member got"],
)
def test_a_leader_is_taken_at_its_word(when: datetime, assigned: list[int], seen: tuple[Topic, ...]) -> None:
    view = leader_view(CATALOGUE, when, ["orders", "ghost"], {"a": {"orders": assigned} if assigned else {}})
    assert (view.topics, view.inferred, view.problem) == (seen, (), None)
