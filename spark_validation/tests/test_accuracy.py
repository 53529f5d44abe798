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


MORE = Catalogue([CatalogueEntry(None, Topic("orders", 4)), CatalogueEntry(START, Topic("orders", 6))])


@pytest.mark.parametrize("client", ["java", "confluent"])
@pytest.mark.parametrize(
    ("gets", "saw"),
    [
        ((LOW, HIGH), "'orders' with 4 partitions instead of 6"),
        (({"orders": range(4)}, {"orders": range(4, 8)}), "'orders' with 8 partitions instead of 6"),
        (({}, {}), "'orders' not yet"),
    ],
)
def test_metadata_of_another_moment_explain_a_difference_for_any_client(
    client: str, gets: tuple[Partitions, Partitions], saw: str
) -> None:
    outcome, found = check(client, dict(zip("ab", gets, strict=True)), catalogue=MORE)
    assert outcome is CheckOutcome.EXPLAINED
    assert found.explanation == f"its leader's metadata were of another moment: it saw {saw}"


def test_stale_metadata_do_not_explain_another_assignment() -> None:
    outcome, found = check("java", {"a": HIGH, "b": LOW}, catalogue=MORE)
    assert (outcome, found.explanation) == (CheckOutcome.UNEXPLAINED, None)
    of_a = "a: recorded orders:2,3, replayed orders:0,1,2"
    assert found.detail == f"{of_a}; b: recorded orders:0,1, replayed orders:3,4,5"


@pytest.mark.parametrize("client", ["java", "aiokafka-stock", "confluent", "kafka-python-stock"])
def test_static_members_are_ordered_by_instance_id_for_every_client(client: str) -> None:
    b_first = {"a": "z", "b": "y"}
    assert check(client, {"a": HIGH, "b": LOW}, instances=b_first)[0] is CheckOutcome.MATCHED
    outcome, found = check(client, {"a": LOW, "b": HIGH}, instances=b_first)
    assert (outcome, found.explanation) == (CheckOutcome.UNEXPLAINED, None)


def test_without_a_catalogue_nothing_is_checked() -> None:
    for gets in (ALL, {}):
        outcome, _ = check("java", {"a": gets}, catalogue=Catalogue(()))
        assert outcome is CheckOutcome.UNCHECKED


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_racks_that_the_catalogue_lacks_may_be_why_a_leader_that_follows_racks_differs(strategy: str) -> None:
    members = [replace(had("a", HIGH), rack="x"), replace(had("b", LOW), rack="y")]
    record, checked = replace(generation(1, *members), leader="a"), load_strategy(strategy)
    outcome, found = check_generation(record, checked, FOUR)
    follows = strategy == "range"
    assert outcome is (CheckOutcome.UNCHECKED if follows else CheckOutcome.UNEXPLAINED)
    assert bool(found.detail) != follows
    racks = tuple(frozenset({rack}) for rack in "yyxx")
    assert check_generation(record, RANGE, Catalogue([CatalogueEntry(None, Topic("orders", 4, racks))]))[
        0
    ] is (CheckOutcome.MATCHED)


def test_a_generation_with_a_member_that_does_not_decode_is_not_checked() -> None:
    record = generation(1, had("a", ALL), reason="a byte is missing")
    assert check_generation(record, RANGE, FOUR)[0] is CheckOutcome.UNCHECKED


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
