"""The causes of generations: each cause has its evidence, and without evidence it is unknown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafka_assignors.group import Topic
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.history.causes import CauseFinder
from kafka_assignors_replay.history.rebalances import Cause, Generation
from kafka_assignors_replay.history.records import MemberRecord
from spark_validation.tests.groups import ALL, HIGH, LOW, START
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


def of_broker(record: Generation, *facts: tuple[str, str]) -> Generation:
    """The generation as one of a KIP-848 group, with the facts before it."""
    return replace(record, type="consumer", facts=facts)


def one(number: int, *members: MemberRecord, **changed: Any) -> Generation:
    return replace(generation(number, *members), **changed)


def subscribed(*topics: str, pattern: str | None = None) -> MemberRecord:
    return replace(A, topics=topics, pattern=pattern)


FIRST, BOTH = generation(1, A), generation(1, A, B)
CREATED = generation(0)
OTHER = subscribed("orders", "payments")
POD, NEW_POD = had("a", LOW, instance="pod-0"), had("a2", LOW, instance="pod-0")
PODS = generation(1, POD, B)
MATCHED = of_broker(generation(2, subscribed("orders", pattern=".*s")))
MATCHES = generation(3, subscribed("orders", "payments", pattern=".*s"))
GAVE_MORE = generation(1, A, had("b", MORE))
WITHHELD = generation(2, A, had("b", HIGH, owned=MORE, since=1), had("c", {}), protocol="own")
HANDED = generation(3, A, B, had("c", {"orders": [4, 5]}), protocol="own")
COOPERATIVE = generation(1, had("a", ALL), protocol="cooperative-sticky")
KEEPS = had("a", LOW, owned=ALL, since=1)
WITHHOLDS = generation(2, KEEPS, had("b", {}), protocol="cooperative-sticky")
REVOKED = generation(2, replace(KEEPS, revoked=True), had("b", {}))
LED = one(1, A, B, leader="a")
CLASSIC = generation(5, A, B)
MOVED = one(5, A, B, replacement=True, continues=True)
BROKERS = of_broker(generation(2, A, B))
TOPICS = (Cause.TOPICS, "")

CAUSES: dict[str, tuple[tuple[Generation, ...], tuple[Cause, ...]]] = {
    "the first generation is a join": ((FIRST,), (Cause.JOIN,)),
    "an empty group is created": ((CREATED,), (Cause.CREATED,)),
    "a member joins a created group": ((CREATED, FIRST), (Cause.JOIN,)),
    "a member joins": ((FIRST, generation(2, A, B)), (Cause.JOIN,)),
    "a member goes": ((BOTH, generation(2, A)), (Cause.DEPARTURE,)),
    "one joins and one goes": ((FIRST, generation(2, B)), (Cause.JOIN, Cause.DEPARTURE)),
    "the last member goes": ((FIRST, generation(2)), (Cause.DEPARTURE,)),
    "another life of the group": ((FIRST, generation(1, B, incarnation=2)), (Cause.JOIN,)),
    "a static member under a new id, without a rebalance": (
        (PODS, generation(1, NEW_POD, B, replacement=True)),
        (Cause.STATIC_REPLACEMENT,),
    ),
    "a static member under a new id": ((PODS, generation(2, NEW_POD, B)), (Cause.STATIC_REPLACEMENT,)),
    "a static member goes": ((PODS, generation(2, B)), (Cause.DEPARTURE,)),
    "a static member comes back": ((PODS, generation(2, B), generation(3, NEW_POD, B)), (Cause.JOIN,)),
    "other topics": ((BOTH, generation(2, OTHER, B)), (Cause.SUBSCRIPTION,)),
    "other topics and a join": ((FIRST, generation(2, OTHER, B)), (Cause.JOIN, Cause.SUBSCRIPTION)),
    "a pattern matches more": ((MATCHED, of_broker(MATCHES, (Cause.PATTERN, ".*s"))), (Cause.PATTERN,)),
    "other names beside a pattern": ((MATCHED, of_broker(MATCHES)), (Cause.SUBSCRIPTION,)),
    "another pattern": (
        (MATCHED, of_broker(generation(3, subscribed("orders", pattern="o.*")))),
        (Cause.PATTERN,),
    ),
    "partitions were added": ((BOTH, generation(2, A, had("b", MORE))), (Cause.PARTITIONS_ADDED,)),
    "partitions were added, and a member joins": (
        (BOTH, generation(2, A, B, had("c", {"orders": [4, 5]}))),
        (Cause.JOIN, Cause.PARTITIONS_ADDED),
    ),
    "partitions that were withheld for a round were not added": (
        (GAVE_MORE, WITHHELD, HANDED),
        (Cause.HAND_OVER,),
    ),
    "the first round of a cooperative rebalance": ((COOPERATIVE, WITHHOLDS), (Cause.JOIN,)),
    "its second round hands over what the first withheld": (
        (COOPERATIVE, WITHHOLDS, generation(3, A, B, protocol="cooperative-sticky")),
        (Cause.HAND_OVER,),
    ),
    "what all members revoked is not handed over": (
        (COOPERATIVE, REVOKED, generation(3, A, B)),
        (Cause.UNKNOWN,),
    ),
    "another assignor": ((FIRST, generation(2, A, protocol="sticky")), (Cause.ASSIGNOR,)),
    "another leader while the old one is there": ((LED, one(2, A, B, leader="b")), (Cause.LEADER,)),
    "another leader after the old one": ((LED, one(2, B, leader="b")), (Cause.DEPARTURE,)),
    "from classic to KIP-848": (
        (CLASSIC, of_broker(MOVED, (Cause.MIGRATION, "classic to consumer"))),
        (Cause.MIGRATION,),
    ),
    "and back": ((of_broker(CLASSIC), MOVED), (Cause.MIGRATION,)),
    "the round after it": ((of_broker(CLASSIC), MOVED, generation(6, A, B)), (Cause.MIGRATION,)),
    "a departure after it": ((of_broker(CLASSIC), MOVED, generation(6, A)), (Cause.DEPARTURE,)),
    "two rounds after it": (
        (of_broker(CLASSIC), MOVED, generation(6, A, B), generation(7, A, B)),
        (Cause.UNKNOWN,),
    ),
    "topics changed": ((BROKERS, of_broker(generation(3, A, B), TOPICS)), (Cause.TOPICS,)),
    "topics changed by more partitions": (
        (BROKERS, of_broker(generation(3, A, had("b", MORE)), TOPICS)),
        (Cause.PARTITIONS_ADDED,),
    ),
    "nothing changed": ((BOTH, generation(2, A, B)), (Cause.UNKNOWN,)),
    "the history starts late": ((generation(7, A, starts_late=True),), (Cause.UNKNOWN,)),
    "it does not decode": ((FIRST, one(2, A, B, reason="a byte is missing")), (Cause.UNKNOWN,)),
    "the one before does not decode": (
        (one(1, A, reason="a byte is missing"), generation(2, A, B)),
        (Cause.UNKNOWN,),
    ),
    "it has a problem": ((FIRST, one(2, A, B, problem="a reason")), (Cause.UNKNOWN,)),
    "the one before has a problem": ((one(1, A, problem="a reason"), generation(2, A, B)), (Cause.UNKNOWN,)),
    "records before it are lost": ((FIRST, one(2, A, B, lost=1)), (Cause.UNKNOWN,)),
    "it shows a loss": ((FIRST, one(4, A, B, skipped=2, shows_loss=True)), (Cause.UNKNOWN,)),
    "skipped numbers alone": ((FIRST, generation(4, A, B, skipped=2)), (Cause.JOIN,)),
}


def causes(*records: Generation, catalogue: Catalogue = GROWN) -> tuple[Cause, ...]:
    """The causes of the last of these generations."""
    finder = CauseFinder(catalogue)
    *_, found = [finder.feed(record) for record in records]
    return found


@pytest.mark.parametrize(("records", "found"), CAUSES.values(), ids=CAUSES)
def test_the_causes_of_a_generation(records: tuple[Generation, ...], found: tuple[Cause, ...]) -> None:
    assert causes(*records) == found


def test_without_a_catalogue_partitions_were_added_if_the_broker_says_so() -> None:
    nothing = Catalogue(())
    assert causes(BOTH, generation(2, A, had("b", MORE)), catalogue=nothing) == (Cause.UNKNOWN,)
    said = of_broker(generation(3, A, B), (Cause.PARTITIONS_ADDED, "orders"))
    assert causes(BROKERS, said, catalogue=nothing) == (Cause.PARTITIONS_ADDED,)
