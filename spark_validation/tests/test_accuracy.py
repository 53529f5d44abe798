"""Recorded assignments compared with the replay: equal, explained by shown evidence, or unexplained."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from kafka_assignors.group import Topic
from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry, leader_view
from kafka_assignors_replay.history.accuracy import CheckOutcome, check_generation
from kafka_assignors_replay.history.records import client_of
from kafka_assignors_replay.result import Difference
from spark_validation.tests.groups import ALL, HIGH, LOW, START, Partitions
from spark_validation.tests.test_rebalances import generation, had

FOUR = Catalogue([CatalogueEntry(None, Topic("orders", 4))])
RANGE = load_strategy("range")


def check(
    client: str,
    gets: Mapping[str, Partitions],
    *,
    instances: Mapping[str, str] | None = None,
    catalogue: Catalogue = FOUR,
) -> tuple[CheckOutcome, Difference]:
    """A generation of these members with the same client; the first member leads."""
    members = [
        replace(had(name, given, instance=(instances or {}).get(name)), client_id=f"{client}-orders")
        for name, given in gets.items()
    ]
    record = replace(generation(1, *members), leader=next(iter(gets)))
    return check_generation(record, RANGE, catalogue)


@pytest.mark.parametrize(
    ("client_id", "client"),
    [
        ("java-billing", "java"),
        ("consumer-billing-1", "java"),
        ("aiokafka-0.14.0", "aiokafka"),
        ("aiokafka-stock-billing", "aiokafka"),
        ("aiokafka-ours-billing", "aiokafka with kafka-assignors"),
        ("kafka-python-3.0.12", "kafka-python"),
        ("kafka-python-ours-billing", "kafka-python with kafka-assignors"),
        ("rdkafka", "librdkafka"),
        ("confluent-billing", "librdkafka"),
        ("billing-worker-7", "unknown"),
        ("", "unknown"),
    ],
)
def test_clients_are_told_by_their_client_ids(client_id: str, client: str) -> None:
    assert client_of(client_id) == client


def test_an_equal_assignment_matches() -> None:
    outcome, found = check("java", {"a": LOW, "b": HIGH})
    assert (outcome, found.client, found.detail) == (CheckOutcome.MATCHED, "java", "")


def test_the_order_of_partitions_in_the_bytes_means_nothing() -> None:
    outcome, _ = check("java", {"a": {"orders": [1, 0]}, "b": {"orders": [3, 2]}})
    assert outcome is CheckOutcome.MATCHED


@pytest.mark.parametrize("client", ["java", "confluent"])
def test_any_other_assignment_is_unexplained_and_shown(client: str) -> None:
    outcome, found = check(client, {"a": HIGH, "b": LOW})
    assert outcome is CheckOutcome.UNEXPLAINED
    assert found.detail.startswith("a: recorded orders:2,3, replayed orders:0,1")


def test_stale_metadata_of_the_leader_explain_a_difference_for_any_client() -> None:
    catalogue = Catalogue(
        [CatalogueEntry(None, Topic("orders", 4)), CatalogueEntry(START, Topic("orders", 6))]
    )
    outcome, found = check("java", {"a": LOW, "b": HIGH}, catalogue=catalogue)
    assert outcome is CheckOutcome.EXPLAINED
    assert "4 of the 6 partitions of 'orders'" in (found.explanation or "")


STATIC = {"a": "z", "b": "y"}  # by instance id b comes first, by member id a


def test_aiokafka_orders_static_members_by_member_id() -> None:
    by_member_id = {"a": LOW, "b": HIGH}
    _, found = check("aiokafka-stock", by_member_id, instances=STATIC)
    assert found.explanation == "members are ordered by member id alone"
    assert check("java", by_member_id, instances=STATIC)[0] is CheckOutcome.UNEXPLAINED


def test_librdkafka_compares_instance_ids_where_both_have_one() -> None:
    gets = {"a": LOW, "b": HIGH}
    _, found = check("confluent", gets, instances={"b": "y"})
    assert found.explanation == "instance ids are compared only where both members have one"


def test_a_leader_that_leaves_a_member_out_is_found_out() -> None:
    gets = {"a": {"orders": [0, 1]}, "b": {}, "c": {"orders": [2, 3]}}
    _, found = check("kafka-python-stock", gets)
    assert found.explanation == "its leader ignored 1 of 3 members"


def test_without_a_catalogue_nothing_is_checked() -> None:
    for gets in (ALL, {}):
        outcome, _ = check("java", {"a": gets}, catalogue=Catalogue(()))
        assert outcome is CheckOutcome.UNCHECKED


# The leader's view of the topics


GROWN = START + timedelta(minutes=1)
CATALOGUE = Catalogue([CatalogueEntry(GROWN, Topic("orders", 6)), CatalogueEntry(START, Topic("orders", 4))])


def test_the_catalogue_answers_with_the_entry_in_force() -> None:
    counts = [
        topic.partitions if (topic := CATALOGUE.at("orders", when)) else None
        for when in (START - timedelta(seconds=1), START, GROWN - timedelta(microseconds=1), GROWN)
    ]
    assert counts == [None, 4, 4, 6]
    # An entry of unknown age counts for all times before the next.
    of_unknown_age = Catalogue([CatalogueEntry(None, Topic("t", 1)), CatalogueEntry(GROWN, Topic("t", 2))])
    assert [of_unknown_age.at("t", when) for when in (START, GROWN)] == [Topic("t", 1), Topic("t", 2)]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("partitions", (4, 6)),
        ("replica_racks", ([["a", "b"]] * 4, [["b"]] * 4, None)),
        ("topic_id", ("one", "two", None)),
        ("topic", ("orders", "invoices")),
    ],
)
def test_the_order_of_rows_that_contradict_each_other_is_of_no_matter(
    column: str, values: tuple[object, ...]
) -> None:
    row = {"topic": "orders", "topic_id": "id", "from": 0, "partitions": 4, "replica_racks": None}
    rows = [{**row, column: each} for each in values]
    found = [Catalogue.from_rows(each) for each in itertools.permutations(rows)]
    assert (
        len({(each.at("orders", GROWN), each.name_of("id"), each.entries("orders")) for each in found}) == 1
    )


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
