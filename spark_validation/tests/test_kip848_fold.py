"""Records of a KIP-848 group become generations; facts that the records lack are reported."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafka_assignors.group import Topic
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.history.consumer_offsets import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    decode_group_metadata,
    decode_key,
)
from kafka_assignors_replay.history.kip848_fold import (
    DEFAULT_ASSIGNOR,
    MEMBERS_FROM_BEFORE,
    MEMBERS_WENT,
    UNPROVEN,
    UNREADABLE,
    WITHOUT_METADATA,
    EpochFold,
)
from kafka_assignors_replay.history.kip848_records import (
    ConsumerGroupMemberState,
    PartitionMetadata,
    ResolvedRegularExpression,
    TopicMetadata,
    decode_consumer_group_value,
)
from kafka_assignors_replay.history.rebalances import Cause, Generation
from kafka_assignors_replay.history.records import to_micros
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, Partitions, member, new_member, topic_id

PAYMENTS = {"payments": [0, 1]}
AWAY = -2


def catalogue(**partitions: int) -> Catalogue:
    return Catalogue(
        CatalogueEntry(None, Topic(name, count, None, topic_id(name))) for name, count in partitions.items()
    )


ORDERS = catalogue(orders=4, payments=2)


def feed(folder: EpochFold, record: dict[str, Any]) -> Iterator[Generation | None]:
    """What a record completes: generations, and None where the group ends. b"broken" does not decode."""
    key, value = decode_key(record["key"]), record["value"]
    if not isinstance(key, ConsumerGroupKey):
        if value is None:
            folder.classic_tombstone()
        else:
            classic = decode_group_metadata(value)
            folder.classic(classic.generation, bool(classic.members))
    elif value == b"broken":
        folder.unreadable(key)
    else:
        said = None if value is None else decode_consumer_group_value(key.type, value)
        for each in folder.feed(record["timestamp"], key, said):
            yield each and replace(each, offset=record["offset"])


def fold_with_ends(log: Log, topics: Catalogue = ORDERS) -> list[Generation | None]:
    folder = EpochFold(topics)
    return [each for record in log.records for each in feed(folder, record)]


def fold(log: Log, topics: Catalogue = ORDERS) -> list[Generation]:
    """The generations from the records of one group."""
    return [each for each in fold_with_ends(log, topics) if each is not None]


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


def test_a_group_without_members_is_an_empty_generation_and_its_end_a_tombstone() -> None:
    log = settled()
    log.removes("g", "a")
    log.epoch("g", 4)
    log.removes("g", "b")
    log.assigns("g", 5, {}, metadata_hash=0)
    log.deletes("g")
    log.assigns("g", 2, {"z": ALL}, z=new_member())
    *_, empty, end, again = fold_with_ends(log)
    assert (empty.empty, empty.generation, empty.members) == (True, 5, {})
    assert end is None
    assert (again.generation, shares(again), again.problem) == (2, {"z": ALL}, None)
    assert not again.continues
    assert not again.starts_late


def test_a_group_that_starts_over_without_a_tombstone_is_another_one() -> None:
    log = settled()
    log.assigns("g", 2, {"z": ALL}, z=new_member())
    again = fold(log)[-1]
    assert (again.generation, shares(again), again.problem) == (2, {"z": ALL}, None)


# Static members.


def a_static_member_leaves() -> Log:
    """pod-0 and pod-1, of which pod-0 leaves temporarily."""
    log = Log()
    pods = {name: new_member(instance=f"pod-{number}") for number, name in enumerate("ab")}
    log.assigns("g", 2, {"a": LOW, "b": HIGH}, **pods)
    log.reaches("g", "a", AWAY, LOW)
    log.removes("g", "a")
    return log


def a_static_member_returns() -> Log:
    """The same, and pod-0 returns with another member id."""
    log = a_static_member_leaves()
    log.describes("g", "a2", new_member(instance="pod-0"))
    log.target("g", "a2", LOW)
    log.reaches("g", "a2", 2, LOW)
    return log


def test_a_static_member_that_returns_with_another_subscription_makes_a_further_epoch() -> None:
    log = a_static_member_returns()
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


# Groups that change their protocol.


def moved_to_kip848(log: Log) -> Log:
    log.generation("g", 5, member("a", gets=LOW), member("b", gets=HIGH))
    log.tombstone("g")
    log.assigns("g", 5, {"a": LOW, "b": HIGH}, a=new_member(), b=new_member())
    log.assigns("g", 6, {"a": LOW, "b": {"orders": [2]}, "c": {"orders": [3]}}, c=new_member())
    return log


def test_a_classic_group_that_moves_to_kip848_goes_on_with_its_life() -> None:
    same, joined = fold(moved_to_kip848(Log()))
    assert (same.generation, same.continues, same.starts_late) == (5, True, False)
    assert same.facts == ((Cause.MIGRATION, "classic to consumer"),)
    assert (joined.generation, joined.continues, joined.problem) == (6, False, None)


def test_a_classic_group_that_was_deleted_before_has_no_part_in_it() -> None:
    log = Log()
    log.generation("g", 1, member("a", gets=ALL))
    log.generation("g", 2)
    log.tombstone("g")
    settled(log)
    first = fold(log)[0]
    assert not first.continues
    assert first.facts == ()


@pytest.mark.parametrize("with_members", [True, False])
def test_a_group_that_moves_back_goes_on_with_its_life_and_a_deleted_one_does_not(with_members: bool) -> None:
    log, folder = settled(), EpochFold(ORDERS)
    if with_members:
        for kind in (7, 5):
            for name in ("a", "b"):
                log.part("g", ConsumerGroupRecord(kind), None, name)
    else:
        for name in ("a", "b"):
            log.removes("g", name)
        log.epoch("g", 4, 0)
    log.deletes("g")
    for record in log.records:
        list(feed(folder, record))
    assert folder.classic(3 if with_members else 4, True) is with_members


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


# Real brokers.


def recorded_catalogue(folder: Path) -> Catalogue:
    rows = pq.read_table(folder / "topics.parquet").to_pylist()
    return Catalogue.from_rows({**row, "from": to_micros(row["from"])} for row in rows)
