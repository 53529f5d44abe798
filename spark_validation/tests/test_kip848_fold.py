"""Records of KIP-848 groups become generations; facts that the records lack are reported."""

from __future__ import annotations

import json
from collections import Counter
from datetime import timedelta
from operator import attrgetter
from pathlib import Path

import pytest

from kafka_assignors.group import Topic
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from kafka_assignors_replay.history.kip848_fold import (
    DEFAULT_ASSIGNOR,
    MEMBERS_FROM_BEFORE,
    MEMBERS_WENT,
    UNPROVEN,
    UNREADABLE,
    WITHOUT_METADATA,
)
from kafka_assignors_replay.history.kip848_records import (
    ConsumerGroupMemberState,
    PartitionMetadata,
    ResolvedRegularExpression,
    TopicMetadata,
)
from kafka_assignors_replay.history.rebalances import Cause, Generation
from kafka_assignors_replay.history_files import catalogue_of, catalogue_rows
from spark_validation.tests.folding import History, history_of, raw_rows, sums_of
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, Partitions, member, new_member, topic_id

PAYMENTS = {"payments": [0, 1]}
AWAY = -2


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


def shares(generation: Generation) -> dict[str, dict[str, list[int]]]:
    return {
        each.member_id: {topic: list(numbers) for topic, numbers in each.assigned.items()}
        for each in generation.members.values()
    }


def settled(log: Log | None = None) -> Log:
    """A group of a and b in epoch 3."""
    log = log or Log()
    log.assigns("g", 2, {"a": ALL}, a=new_member())
    log.reaches("g", "a", 2, ALL)
    log.assigns("g", 3, {"a": LOW, "b": HIGH}, b=new_member())
    return log


def test_a_generation_is_a_target_assignment_that_is_complete() -> None:
    first, second = fold(settled())
    assert (first.generation, first.offset, shares(first)) == (2, 3, {"a": ALL})
    assert (second.generation, second.offset, shares(second)) == (3, 9, {"a": LOW, "b": HIGH})
    assert {each.problem for each in (first, second)} == {None}
    assert not first.starts_late
    assert (first.lost, second.lost, second.facts) == (0, 0, ())


@pytest.mark.parametrize(
    ("targets", "share"),
    [({"c": PAYMENTS}, PAYMENTS), ({}, {})],
    ids=["targets that stay are not written again", "a member without a target has nothing"],
)
def test_targets_that_are_not_written(targets: dict[str, Partitions], share: Partitions) -> None:
    log = settled()
    log.assigns("g", 4, targets, c=new_member(["orders", "payments"]))
    assert shares(fold(log)[-1]) == {"a": LOW, "b": HIGH, "c": share}


def test_members_are_what_they_said_of_themselves() -> None:
    log = Log()
    described = new_member(["orders"], instance="pod-0", pattern="pay.*", assignor="range", client="c")
    log.describes("g", "a", described)
    resolved = ResolvedRegularExpression(("payments",))
    log.part("g", ConsumerGroupRecord.REGULAR_EXPRESSION, resolved, pattern="pay.*")
    log.assigns("g", 2, {"a": {**ALL, **PAYMENTS}})
    (generation,) = fold(log)
    (only,) = generation.members.values()
    assert (only.instance_id, only.client_id, only.client_host) == ("pod-0", "c", "/127.0.0.1")
    assert (only.topics, only.pattern) == (("orders", "payments"), "pay.*")
    assert generation.protocol == "range"


@pytest.mark.parametrize(
    ("asked", "protocol"),
    [
        ([None, None], DEFAULT_ASSIGNOR),
        (["uniform", None], "uniform"),
        (["range", "uniform", "range"], "range"),
        (["uniform", "range"], "range or uniform"),
    ],
)
def test_the_assignor_is_that_of_most_members_if_the_records_show_it(
    asked: list[str | None], protocol: str
) -> None:
    log = Log()
    members = {f"m{number}": new_member(assignor=assignor) for number, assignor in enumerate(asked)}
    log.assigns("g", 2, {"m0": ALL}, **members)
    assert fold(log)[0].protocol == protocol


def test_an_epoch_that_was_overtaken_is_no_generation_and_nothing_is_lost_with_it() -> None:
    log = settled()
    log.describes("g", "c", new_member())
    log.epoch("g", 4)
    log.removes("g", "b")
    log.assigns("g", 5, {"a": LOW, "c": HIGH})
    last = fold(log)[-1]
    assert (last.generation, last.lost, last.problem) == (5, 0, None)
    assert shares(last) == {"a": LOW, "c": HIGH}


def test_a_target_that_comes_after_the_next_epoch_has_the_members_of_its_own() -> None:
    log = settled()
    for epoch, name in ((4, "c"), (5, "d")):
        log.describes("g", name, new_member())
        log.epoch("g", epoch)
    log.targets("g", 4, {"c": {}})
    log.targets("g", 5, {"d": {}})
    before, last = fold(log)[-2:]
    assert (before.generation, sorted(shares(before)), before.problem) == (4, ["a", "b", "c"], None)
    assert (last.generation, sorted(shares(last))) == (5, ["a", "b", "c", "d"])


def test_an_assignment_is_unknown_if_a_member_left_while_it_was_made() -> None:
    log = settled()
    log.describes("g", "c", new_member())
    log.epoch("g", 4)
    log.removes("g", "b")
    log.epoch("g", 5)
    log.targets("g", 4, {"c": {}})
    assert fold(log)[-1].problem == MEMBERS_WENT


def test_a_group_that_starts_over_without_a_tombstone_is_another_one() -> None:
    log = settled()
    log.assigns("g", 2, {"z": ALL}, z=new_member())
    again = fold(log)[-1]
    assert (again.generation, shares(again), again.problem) == (2, {"z": ALL}, None)


# Static members.


def test_a_static_member_that_returns_with_another_subscription_makes_a_further_epoch() -> None:
    log = Log()
    pods = {name: new_member(instance=f"pod-{number}") for number, name in enumerate("ab")}
    log.assigns("g", 2, {"a": LOW, "b": HIGH}, **pods)
    log.reaches("g", "a", AWAY, LOW)
    log.removes("g", "a")
    log.describes("g", "a2", new_member(instance="pod-0"))
    log.target("g", "a2", LOW)
    log.reaches("g", "a2", 2, LOW)
    log.assigns("g", 3, {"a2": PAYMENTS, "b": ALL}, a2=new_member(["payments"], instance="pod-0"))
    generations = fold(log)
    assert [each.generation for each in generations] == [2, 2, 3]
    assert generations[-1].facts == ()


@pytest.mark.parametrize(
    ("waited", "state", "facts"),
    [
        (30, ConsumerGroupMemberState.UNREVOKED_PARTITIONS, ((Cause.POLL_INTERVAL, "a"),)),
        (29, ConsumerGroupMemberState.UNREVOKED_PARTITIONS, ()),
        (32, ConsumerGroupMemberState.UNREVOKED_PARTITIONS, ()),
        (30, ConsumerGroupMemberState.STABLE, ()),
    ],
)
def test_a_member_that_does_not_revoke_in_time_is_told_by_the_time(
    waited: int, state: ConsumerGroupMemberState, facts: tuple[tuple[str, str], ...]
) -> None:
    log = Log()
    log.assigns("g", 2, {"a": LOW, "b": HIGH}, a=new_member(rebalance_timeout_ms=30_000), b=new_member())
    log.reaches("g", "a", 2, LOW, state)
    asked = log.records[-1]["timestamp"]
    log.removes("g", "a")
    for record in log.records[-3:]:
        record["timestamp"] = asked + timedelta(seconds=waited)
    log.assigns("g", 3, {"b": ALL})
    assert fold(log)[-1].facts == facts


# Other events between generations.


def test_other_topics_behind_the_same_names_show_in_the_hash() -> None:
    log = settled()
    log.assigns("g", 4, {}, metadata_hash=2)
    log.assigns("g", 5, {"c": PAYMENTS}, metadata_hash=3, c=new_member(["orders", "payments"]))
    changed, joined = fold(log)[-2:]
    assert changed.facts == ((Cause.TOPICS, ""),)
    assert joined.facts == ()  # with other names the hash changes anyway


def test_a_hash_that_older_brokers_do_not_write_shows_nothing() -> None:
    log = settled()
    log.assigns("g", 4, {}, metadata_hash=0)
    assert fold(log)[-1].facts == ()


def test_brokers_that_list_the_topics_name_them_and_show_that_partitions_were_added() -> None:
    log = Log()
    log.describes("g", "a", new_member())
    grown = {"orders": [0, 1, 2, 3, 4, 5]}
    for epoch, share in ((1, ALL), (2, grown)):
        listed = PartitionMetadata((TopicMetadata(topic_id("orders"), "orders", len(share["orders"])),))
        log.part("g", ConsumerGroupRecord.PARTITION_METADATA, listed)
        log.assigns("g", epoch, {"a": share})
    first, second = fold(log, Catalogue(()))
    assert (shares(first), first.problem) == ({"a": ALL}, None)
    assert second.facts == ((Cause.PARTITIONS_ADDED, "orders"),)


def test_a_pattern_that_matches_other_topics_is_said() -> None:
    log = Log()
    log.assigns("g", 2, {}, a=new_member((), pattern=".*s"))
    for epoch, topics in ((3, ("orders",)), (4, ("orders", "payments")), (5, ("payments", "orders"))):
        resolved = ResolvedRegularExpression(topics)
        log.part("g", ConsumerGroupRecord.REGULAR_EXPRESSION, resolved, pattern=".*s")
        log.assigns("g", epoch, {})
    pattern = ((Cause.PATTERN, ".*s"),)
    assert [each.facts for each in fold(log)] == [(), pattern, pattern, ()]


# Groups that change their protocol, or end.


def story() -> Log:
    """A group that moves to KIP-848 and back, a KIP-848 group that is recreated, and a classic group."""
    log = Log()
    log.generation("g", 5, member("a", gets=LOW), member("b", gets=HIGH))
    log.tombstone("g")
    log.assigns("g", 5, {"a": LOW, "b": HIGH}, a=new_member(), b=new_member())
    log.assigns("g", 6, {"a": LOW, "b": {"orders": [2]}, "c": {"orders": [3]}}, c=new_member())
    for kind in (8, 7, 5):
        for name in ("a", "b", "c"):
            log.part("g", ConsumerGroupRecord(kind), None, name)
    log.deletes("g")
    log.generation("g", 6, member("a", gets=LOW), member("b", gets=HIGH))
    log.generation("g", 7, member("a", gets=ALL))

    log.assigns("again", 2, {"x": ALL}, x=new_member())
    log.reaches("again", "x", 2, ALL, ConsumerGroupMemberState.UNRELEASED_PARTITIONS)
    log.removes("again", "x")
    log.epoch("again", 3, 0)
    log.deletes("again")
    log.assigns("again", 2, {"y": ALL}, y=new_member())

    log.generation("old", 1, member("m", gets=ALL))
    return log


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


def test_a_deleted_group_has_no_part_in_the_life_of_one_with_the_other_protocol() -> None:
    log = Log()
    log.generation("g", 1, member("a", gets=ALL))
    log.generation("g", 2)
    log.tombstone("g")
    settled(log)
    for name in "ab":
        log.removes("g", name)
    log.epoch("g", 4, 0)
    log.deletes("g")
    log.generation("g", 4, member("a", gets=ALL))
    assert [(each.type, each.generation, each.incarnation, each.facts) for each in fold(log)] == [
        *(("classic", 1, 1, ()), ("classic", 2, 1, ())),
        *(("consumer", 2, 2, ()), ("consumer", 3, 2, ()), ("consumer", 4, 2, ())),
        ("classic", 4, 3, ()),
    ]


def test_classic_groups_pass_as_they_are(found: History) -> None:
    names = ("type", "generation", "starts_late", "lost", "problem", "facts")
    assert of(found, "old", *names) == [("classic", 1, False, 0, None, ())]


def test_members_of_both_protocols_are_alike(found: History) -> None:
    shares = {
        (each.offset, name): {topic: [*numbers] for topic, numbers in member.assigned.items()}
        for each, _ in found["g"]
        for name, member in each.members.items()
        if each.generation == 6
    }
    assert shares == {
        (13, "a"): LOW,
        (13, "b"): {"orders": [2]},
        (13, "c"): {"orders": [3]},
        (26, "a"): LOW,
        (26, "b"): HIGH,
    }


# Missing records.


def test_a_history_that_starts_late_is_complete_once_every_partition_has_an_owner() -> None:
    log = Log()
    log.assigns("g", 7, {"a": LOW}, a=new_member())
    log.assigns("g", 8, {"b": HIGH}, b=new_member())
    log.assigns("g", 9, {"b": {}})
    first, whole, after = fold(log)
    assert (first.starts_late, first.problem) == (True, MEMBERS_FROM_BEFORE)
    assert (whole.starts_late, whole.problem) == (False, None)
    assert after.problem is None


def test_epochs_without_a_record_are_lost_and_members_count_once_they_are_heard_of_again() -> None:
    log = settled()
    log.assigns("g", 6, {"a": LOW})
    log.reaches("g", "b", 6, HIGH)
    log.assigns("g", 7, {})
    lost, after = fold(log)[-2:]
    assert (lost.lost, lost.problem) == (2, UNPROVEN)
    assert (after.lost, after.problem) == (0, None)


def test_a_member_whose_description_is_missing_is_noticed() -> None:
    log = settled()
    log.assigns("g", 4, {"a": LOW, "b": {"orders": [2]}, "c": {"orders": [3]}})
    assert fold(log)[-1].problem == WITHOUT_METADATA


def test_topics_that_the_catalogue_does_not_name_are_reported_and_not_guessed() -> None:
    generation = fold(settled(), catalogue(payments=2))[-1]
    assert topic_id("orders") in (generation.problem or "")
    assert topic_id("orders") in generation.problem
    assert shares(generation) == {"a": {}, "b": {}}


def test_a_record_that_does_not_decode_counts_until_it_is_written_anew() -> None:
    log = settled()
    log.assigns("g", 4, {"a": HIGH, "b": LOW})
    log.records[-2]["value"] = b"broken"
    log.assigns("g", 5, {"b": LOW})
    broken, mended = fold(log)[-2:]
    assert (broken.problem, mended.problem) == (UNREADABLE, None)


def test_tombstones_of_what_is_not_known_do_nothing() -> None:
    log = Log()
    log.removes("g", "a")
    log.deletes("g")
    assert fold(log) == []
    assert len(fold(settled(log))) == 2


def test_a_part_that_does_not_decode_is_listed_and_leaves_its_group_in_doubt() -> None:
    log = settled()
    log.epoch("g", 4)
    log.targets("g", 4, {"a": HIGH})
    log.records[-2]["value"] = b"\0\0\x05"
    ((_, offset, group, reason),) = sums_of(log.records, ORDERS)["g"].undecodable
    assert (offset, group) == (11, "g")
    assert "topic_partitions" in reason
    last = of(history_of(log.records, ORDERS), "g", "generation", "problem")[-1]
    assert last == (4, "a record that it rests on does not decode")


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
        *[(2, "join"), (3, "join"), (3, "static-replacement"), (4, "partitions-added"), (5, "expiry")],
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
