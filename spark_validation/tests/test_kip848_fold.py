"""Records of KIP-848 groups become generations; facts that the records lack are reported."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_assignors.group import Topic
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.history import kip848_fold
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from kafka_assignors_replay.history.kip848_records import PartitionMetadata, TopicMetadata
from kafka_assignors_replay.history.rebalances import Cause, Generation
from kafka_assignors_replay.history_files import catalogue_of, catalogue_rows
from spark_validation.tests.folding import History, history_of, raw_rows, sums_of
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, Partitions, member, new_member, topic_id

PAYMENTS = {"payments": (0, 1)}
BOTH_TOPICS = ("orders", "payments")
WITH = {"a": LOW, "b": HIGH}
NEW = new_member()


def catalogue(**partitions: int) -> Catalogue:
    return Catalogue(
        CatalogueEntry(None, Topic(name, count, None, topic_id(name))) for name, count in partitions.items()
    )


ORDERS = catalogue(orders=4, payments=2)


def fold(log: Log, topics: Catalogue = ORDERS) -> list[Generation]:
    """The generations from the records of one group."""
    return [each for each, _ in history_of(log.records, topics).get("g", [])]


def of(found: History, group: str, *names: str) -> list[tuple[object, ...]]:
    """The values of these names in each generation of the group."""
    return [attrgetter(*names)(generation) for generation, _ in found[group]]


class Epoch(NamedTuple):
    """What the fold should give of a generation."""

    number: int
    shares: Mapping[str, Partitions]
    problem: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    lost: int = 0
    starts_late: bool = False


def epochs(log: Log, topics: Catalogue = ORDERS) -> list[Epoch]:
    return [
        Epoch(
            each.generation,
            {name: member.assigned for name, member in each.members.items()},
            *(each.problem, each.facts, each.lost, each.starts_late),
        )
        for each in fold(log, topics)
    ]


def settled(log: Log | None = None) -> Log:
    """A group of a and b in epoch 3."""
    log = (log or Log()).assigns("g", 2, {"a": ALL}, a=NEW).progresses("g", "a")
    return log.assigns("g", 3, WITH, b=NEW)


def joining(epoch: int, name: str) -> Log:
    """The group when an epoch has begun with another member, and has no targets yet."""
    return settled().describes("g", name, NEW).epoch("g", epoch)


def pods() -> Log:
    """A static member that returns with another subscription, which makes a further epoch."""
    a, b = (new_member(instance=f"pod-{number}") for number in range(2))
    log = Log().assigns("g", 2, WITH, a=a, b=b).progresses("g", "a").removes("g", "a")
    log.describes("g", "a2", a).target("g", "a2", LOW).progresses("g", "a2")
    other = new_member(["payments"], instance="pod-0")
    return log.assigns("g", 3, {"a2": PAYMENTS, "b": ALL}, a2=other)


def listed() -> Log:
    """Brokers that list the topics name them, and show that partitions were added."""
    log = Log().describes("g", "a", NEW)
    for epoch, share in ((1, ALL), (2, GROWN)):
        topics = PartitionMetadata((TopicMetadata(topic_id("orders"), "orders", len(share["orders"])),))
        log.part("g", ConsumerGroupRecord.PARTITION_METADATA, topics).assigns("g", epoch, {"a": share})
    return log


def matching() -> Log:
    """A pattern that matches more topics, and then the same ones in another order."""
    log = Log().assigns("g", 2, {}, a=new_member((), pattern=".*s"))
    log.resolves("g", ".*s", "orders").assigns("g", 3, {})
    log.resolves("g", ".*s", "orders", "payments").assigns("g", 4, {})
    return log.resolves("g", ".*s", "payments", "orders").assigns("g", 5, {})


def broken() -> Log:
    """A target that does not decode until it is written anew."""
    log = settled().assigns("g", 4, {"a": HIGH, "b": LOW})
    log.records[-2]["value"] = b"broken"
    return log.assigns("g", 5, {"b": LOW})


GROWN = {"orders": (0, 1, 2, 3, 4, 5)}
PATTERN = ((Cause.PATTERN, ".*s"),)

STORIES: dict[str, tuple[Log, list[Epoch]]] = {
    "each complete target assignment is a generation": (settled(), [Epoch(2, {"a": ALL}), Epoch(3, WITH)]),
    "targets that stay are not written again": (
        settled().assigns("g", 4, {"c": PAYMENTS}, c=new_member(BOTH_TOPICS)),
        [Epoch(4, {**WITH, "c": PAYMENTS})],
    ),
    "a member without a target has nothing": (
        settled().assigns("g", 4, {}, c=new_member(BOTH_TOPICS)),
        [Epoch(4, {**WITH, "c": {}})],
    ),
    "an epoch that was overtaken is none, and nothing is lost with it": (
        joining(4, "c").removes("g", "b").assigns("g", 5, {"a": LOW, "c": HIGH}),
        [Epoch(3, WITH), Epoch(5, {"a": LOW, "c": HIGH})],
    ),
    "a target after the next epoch has the members of its own": (
        joining(4, "c")
        .describes("g", "d", NEW)
        .epoch("g", 5)
        .targets("g", 4, {"c": {}})
        .targets("g", 5, {"d": {}}),
        [Epoch(4, {**WITH, "c": {}}), Epoch(5, {**WITH, "c": {}, "d": {}})],
    ),
    "a member left while the assignment was made": (
        joining(4, "c").removes("g", "b").epoch("g", 5).targets("g", 4, {"c": {}}),
        [Epoch(4, {"a": LOW, "c": {}}, kip848_fold.MEMBERS_WENT)],
    ),
    "a group that starts over without a tombstone is another one": (
        settled().assigns("g", 2, {"z": ALL}, z=NEW),
        [Epoch(2, {"z": ALL})],
    ),
    "a static member returns with another subscription": (
        pods(),
        [Epoch(2, WITH), Epoch(2, {"a2": LOW, "b": HIGH}), Epoch(3, {"a2": PAYMENTS, "b": ALL})],
    ),
    "other topics behind the same names show in the hash": (
        settled().assigns("g", 4, {}, metadata_hash=2),
        [Epoch(4, WITH, facts=((Cause.TOPICS, ""),))],
    ),
    "with other names the hash changes anyway": (
        settled().assigns("g", 4, {"c": PAYMENTS}, metadata_hash=2, c=new_member(BOTH_TOPICS)),
        [Epoch(4, {**WITH, "c": PAYMENTS})],
    ),
    "older brokers write no hash": (settled().assigns("g", 4, {}, metadata_hash=0), [Epoch(4, WITH)]),
    "a pattern matches other topics": (
        matching(),
        [Epoch(number, {"a": {}}, facts=facts) for number, facts in enumerate(((), PATTERN, PATTERN, ()), 2)],
    ),
    "a history that starts late is complete once every partition has an owner": (
        Log().assigns("g", 7, {"a": LOW}, a=NEW).assigns("g", 8, {"b": HIGH}, b=NEW).assigns("g", 9, {}),
        [
            Epoch(7, {"a": LOW}, kip848_fold.MEMBERS_FROM_BEFORE, starts_late=True),
            Epoch(8, WITH),
            Epoch(9, WITH),
        ],
    ),
    "without a record of an epoch, members count once they are heard of again": (
        settled().assigns("g", 6, {"a": LOW}).progresses("g", "b").assigns("g", 7, {}),
        [Epoch(6, WITH, kip848_fold.UNPROVEN, lost=2), Epoch(7, WITH)],
    ),
    "a member's description is missing": (
        settled().assigns("g", 4, {"a": LOW, "b": {"orders": (2,)}, "c": {"orders": (3,)}}),
        [Epoch(4, {"a": LOW, "b": {"orders": (2,)}}, kip848_fold.WITHOUT_METADATA)],
    ),
    "and it leaves": (
        settled().assigns("g", 4, {"c": {}}).removes("g", "c").assigns("g", 5, {}),
        [Epoch(4, WITH, kip848_fold.WITHOUT_METADATA), Epoch(5, WITH)],
    ),
    "a record that does not decode counts until it is written anew": (
        broken(),
        [Epoch(4, {"a": HIGH, "b": HIGH}, kip848_fold.UNREADABLE), Epoch(5, {"a": HIGH, "b": LOW})],
    ),
    "tombstones of what is not known do nothing": (
        settled(Log().removes("g", "a").deletes("g")),
        [Epoch(2, {"a": ALL}), Epoch(3, WITH)],
    ),
}


@pytest.mark.parametrize(("log", "last"), STORIES.values(), ids=STORIES)
def test_the_last_generations_of_a_group(log: Log, last: list[Epoch]) -> None:
    assert epochs(log)[-len(last) :] == last


def test_brokers_that_list_the_topics_name_them_and_show_that_partitions_were_added() -> None:
    grown = Epoch(2, {"a": GROWN}, facts=((Cause.PARTITIONS_ADDED, "orders"),))
    assert epochs(listed(), Catalogue(())) == [Epoch(1, {"a": ALL}), grown]


def test_topics_that_the_catalogue_does_not_name_are_reported_and_not_guessed() -> None:
    last = epochs(settled(), catalogue(payments=2))[-1]
    assert topic_id("orders") in (last.problem or "")
    assert last.shares == {"a": {}, "b": {}}


def test_members_are_what_they_said_of_themselves() -> None:
    described = new_member(["orders"], instance="pod-0", pattern="pay.*", assignor="range", client="c")
    log = Log().describes("g", "a", described).resolves("g", "pay.*", "payments")
    (generation,) = fold(log.assigns("g", 2, {"a": {**ALL, **PAYMENTS}}))
    (only,) = generation.members.values()
    assert (only.instance_id, only.client_id, only.client_host) == ("pod-0", "c", "/127.0.0.1")
    assert (only.topics, only.pattern) == (BOTH_TOPICS, "pay.*")
    assert (generation.offset, generation.protocol) == (4, "range")


@pytest.mark.parametrize(
    ("asked", "protocol"),
    [
        ([None, None], kip848_fold.DEFAULT_ASSIGNOR),
        (["uniform", None], "uniform"),
        (["range", "uniform", "range"], "range"),
        (["uniform", "range"], "range or uniform"),
    ],
)
def test_the_assignor_is_that_of_most_members_if_the_records_show_it(
    asked: list[str | None], protocol: str
) -> None:
    members = {f"m{number}": new_member(assignor=assignor) for number, assignor in enumerate(asked)}
    assert fold(Log().assigns("g", 2, {"m0": ALL}, **members))[0].protocol == protocol


# Groups that change their protocol, or end.


def story() -> Log:
    """A group that moves to KIP-848 and back, a KIP-848 group that is recreated, and a classic group."""
    log = Log().generation("g", 5, member("a", gets=LOW), member("b", gets=HIGH)).tombstone("g")
    log.assigns("g", 5, WITH, a=NEW, b=NEW)
    log.assigns("g", 6, {"a": LOW, "b": {"orders": (2,)}, "c": {"orders": (3,)}}, c=NEW)
    for kind in (8, 7, 5):
        for name in ("a", "b", "c"):
            log.part("g", ConsumerGroupRecord(kind), None, name)
    log.deletes("g").generation("g", 6, member("a", gets=LOW), member("b", gets=HIGH))
    log.generation("g", 7, member("a", gets=ALL))

    log.assigns("again", 2, {"x": ALL}, x=NEW)
    log.progresses("again", "x").removes("again", "x")
    log.epoch("again", 3, 0).deletes("again").assigns("again", 2, {"y": ALL}, y=NEW)
    return log.generation("old", 1, member("m", gets=ALL))


@pytest.fixture(scope="module")
def found() -> History:
    return history_of(story().records, ORDERS)


def test_a_group_keeps_its_life_when_it_changes_its_protocol(found: History) -> None:
    assert of(found, "g", "type", "generation", "incarnation", "replacement") == [
        ("classic", 5, 1, False),
        ("consumer", 5, 1, True),
        ("consumer", 6, 1, False),
        ("classic", 6, 1, True),
        ("classic", 7, 1, False),
    ]
    assert of(found, "g", "starts_late") == [True, False, False, False, False]
    assert set(of(found, "g", "skipped", "lost", "problem")) == {(0, 0, None)}
    assert [causes for _, causes in found["g"]] == [
        ["unknown"],  # the history starts with it
        *(["migration"], ["join"], ["departure", "migration"], ["departure"]),
    ]


def test_a_group_that_was_deleted_and_made_again_begins_another_life(found: History) -> None:
    assert of(found, "again", "generation", "incarnation", "empty", "starts_late", "problem") == [
        (2, 1, False, False, None),
        (3, 1, True, False, None),
        (2, 2, False, False, None),
    ]
    assert [[*each.members] for each, _ in found["again"]] == [["x"], [], ["y"]]
    assert [causes for _, causes in found["again"]] == [["join"], ["departure"], ["join"]]


CONSUMER = (("consumer", 2, 2), ("consumer", 3, 2))

LIVES: dict[str, tuple[Log, list[tuple[str, int, int]]]] = {
    "a group of the other protocol that was deleted": (
        settled(Log().generation("g", 1, member("a", gets=ALL)).generation("g", 2).tombstone("g"))
        .removes("g", *"ab")
        .epoch("g", 4, 0)
        .deletes("g")
        .generation("g", 4, member("a", gets=ALL)),
        [("classic", 1, 1), ("classic", 2, 1), *CONSUMER, ("consumer", 4, 2), ("classic", 4, 3)],
    ),
    "a group of the other protocol whose end is not recorded": (
        settled(Log().generation("g", 1, member("a", gets=ALL))),
        [("classic", 1, 1), *CONSUMER],
    ),
    "a classic group of another generation": (
        settled(Log().generation("g", 1, member("a", gets=ALL)).tombstone("g")),
        [("classic", 1, 1), *CONSUMER],
    ),
    "a KIP-848 group of another epoch": (
        settled().removes("g", *"ab").deletes("g").generation("g", 4, member("a", gets=ALL)),
        [("consumer", 2, 1), ("consumer", 3, 1), ("classic", 4, 2)],
    ),
    "one life, with tombstones of a KIP-848 group that never was": (
        Log().generation("g", 1, member("a", gets=ALL)).deletes("g").generation("g", 2),
        [("classic", 1, 1), ("classic", 2, 1)],
    ),
}


@pytest.mark.parametrize(("log", "lives"), LIVES.values(), ids=LIVES)
def test_lives_of_a_group(log: Log, lives: list[tuple[str, int, int]]) -> None:
    assert of(history_of(log.records, ORDERS), "g", "type", "generation", "incarnation") == lives
    assert not any(each.facts for each in fold(log))


def test_a_part_that_does_not_decode_is_listed_and_leaves_its_group_in_doubt() -> None:
    log = settled().epoch("g", 4).targets("g", 4, {"a": HIGH})
    log.records[-2]["value"] = b"\0\0\x05"
    ((_, offset, group, reason),) = sums_of(log.records, ORDERS)["g"].undecodable
    assert (offset, group) == (11, "g")
    assert "topic_partitions" in reason
    assert epochs(log)[-1] == Epoch(4, WITH, kip848_fold.UNREADABLE)


# Real brokers.

SCENES = Path(__file__).parent / "data" / "kip848"
"""The records of a Kafka 4.4.0 broker while `spark_validation.recording.kip848` played."""


def test_groups_of_a_real_broker_are_what_was_done_to_them() -> None:
    found = history_of(raw_rows(SCENES), catalogue_of(catalogue_rows(str(SCENES))))
    for group in found:
        assert set(of(found, group, "problem", "lost", "skipped", "starts_late")) == {(None, 0, 0, False)}
    lives = {group: {*of(found, group, "incarnation")} for group in ("moved", "pods", "again")}
    assert lives == {"moved": {1}, "pods": {1}, "again": {1, 2}}

    def causes_in(group: str) -> list[tuple[int, str]]:
        return [(each.generation, "+".join(causes)) for each, causes in found[group]]

    assert causes_in("moved") == [
        *[(0, "created"), (1, "join"), (2, "join"), (2, "migration"), (3, "join")],
        *[(3, "departure+migration"), (4, "migration"), (5, "departure"), (6, "departure")],
    ]
    assert causes_in("pods") == [
        *[(2, "join"), (3, "join"), (3, "static-replacement"), (4, "partitions-added"), (5, "departure")],
    ]
    assert causes_in("patterns") == [(2, "join"), (3, "pattern"), (4, "departure")]
    assert causes_in("again") == [
        *[(2, "join"), (3, "join"), (4, "departure"), (5, "departure")],
        *[(2, "join"), (3, "departure")],
    ]


def test_a_real_group_has_all_of_its_epochs_and_what_was_done_to_it_caused_them(recorded: str) -> None:
    raw = [row for row in raw_rows(recorded) if (row["key"] or b"")[4:].startswith(b"audit-trail")]
    found = history_of(raw, catalogue_of(catalogue_rows(recorded)))
    (counts,) = [sums.records for sums in sums_of(raw).values()]
    assert counts["records"] == counts["kip848_records"]
    assert of(found, "audit-trail", "generation") == list(range(2, 59))
    assert {*of(found, "audit-trail", "skipped", "problem", "incarnation")} == {(0, None, 1)}

    causes = Counter("+".join(causes) for _, causes in found["audit-trail"])
    happened = Counter(
        each["what"]
        for each in json.loads((Path(recorded) / "events.json").read_text())
        if each["group"] == "audit-trail"
    )
    # One of the members (process 22963) was killed before it joined.
    assert causes["join"] == happened["start"] - 1 == 29
    assert causes["departure"] == happened["stop"] + happened["killed"] - 1 == 26
    assert causes["partitions-added"] == 2  # of stock and of payments
    assert causes.total() == 57
