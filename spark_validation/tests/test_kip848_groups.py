"""Groups of both protocols, in the same tables."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from kafka_assignors_replay.history.kip848_records import ConsumerGroupMemberState
from spark_validation.tests.folding import Folded, fold, raw_rows
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, member, new_member, topic_id
from spark_validation.tests.test_kip848_fold import (
    ORDERS,
    catalogue,
    moved_to_kip848,
    recorded_catalogue,
    settled,
)

SCENES = Path(__file__).parent / "data" / "kip848"
"""The records of a Kafka 4.4.0 broker while `spark_validation.recording.kip848` played."""


def story() -> Log:
    """A group that moves to KIP-848 and back, a KIP-848 group that is recreated, and a classic group."""
    log = Log()
    moved_to_kip848(log)
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
def folded() -> Folded:
    return fold(story().records, ORDERS)


def of(folded: Folded, group: str) -> list[dict[str, Any]]:
    return folded.rows("generations", group=group)


def test_a_group_keeps_its_life_when_it_changes_its_protocol(folded: Folded) -> None:
    rows = of(folded, "g")
    assert [(row["type"], row["generation"], row["incarnation"], row["replacement"]) for row in rows] == [
        ("classic", 5, 1, False),
        ("consumer", 5, 1, True),
        ("consumer", 6, 1, False),
        ("classic", 6, 1, True),
        ("classic", 7, 1, False),
    ]
    assert [row["starts_late"] for row in rows] == [True, False, False, False, False]
    assert {(row["skipped"], row["lost"], row["problem"]) for row in rows} == {(0, 0, None)}


def test_a_group_that_was_deleted_and_made_again_begins_another_life(folded: Folded) -> None:
    rows = of(folded, "again")
    assert [(row["generation"], row["incarnation"], row["empty"], row["starts_late"]) for row in rows] == [
        (2, 1, False, False),
        (3, 1, True, False),
        (2, 2, False, False),
    ]


def test_classic_groups_pass_as_they_are(folded: Folded) -> None:
    (row,) = of(folded, "old")
    assert (row["type"], row["generation"], row["starts_late"]) == ("classic", 1, False)
    assert (row["lost"], row["problem"], row["unknown_topics"], row["facts"]) == (0, None, (), [])


def test_members_of_both_protocols_share_a_table(folded: Folded) -> None:
    rows = folded.rows("assignments", group="g", generation=6)
    assert {(row["offset"], row["member_id"], row["topic"], tuple(row["partitions"])) for row in rows} == {
        (13, "a", "orders", (0, 1)),
        (13, "b", "orders", (2,)),
        (13, "c", "orders", (3,)),
        (26, "a", "orders", (0, 1)),
        (26, "b", "orders", (2, 3)),
    }


def test_each_generation_has_its_causes(folded: Folded) -> None:
    rows = [row for row in folded.rows("causes") if row["group"] != "old"]
    in_order = sorted((row["group"], row["offset"], row["causes"]) for row in rows)
    assert [causes for *_, causes in in_order] == [
        *(["join"], ["departure"], ["join"]),
        ["unknown"],  # the history starts with it
        *(["migration"], ["join"], ["departure", "migration"], ["departure"]),
    ]


def test_how_far_members_have_come_is_a_table_of_its_own(folded: Folded) -> None:
    reached, removed = folded.rows("current", group="again")
    assert (reached["member_id"], reached["epoch"], reached["state"]) == ("x", 2, "unreleased partitions")
    assert (reached["assigned"], reached["pending_revocation"]) == (ALL, {})
    assert (removed["member_id"], removed["epoch"], removed["assigned"]) == ("x", None, None)
    elsewhere = fold(story().records, catalogue(payments=2)).rows("current", group="again")
    (strange,) = [row for row in elsewhere if row["epoch"] is not None]
    assert (strange["assigned"], strange["unknown_topics"]) == ({}, [topic_id("orders")])


def test_a_part_that_does_not_decode_is_listed_and_leaves_its_group_in_doubt() -> None:
    log = settled()
    log.epoch("g", 4)
    log.targets("g", 4, {"a": HIGH})
    log.records[-2]["value"] = b"\0\0\x05"
    found = fold(log.records, ORDERS)
    ((_, offset, group, reason),) = found.sums["g"].undecodable
    assert (offset, group) == (11, "g")
    assert "topic_partitions" in reason
    last = of(found, "g")[-1]
    assert (last["generation"], last["problem"]) == (4, "a record that it rests on does not decode")


def test_groups_of_a_real_broker_are_what_was_done_to_them() -> None:
    folded = fold(raw_rows(SCENES), recorded_catalogue(SCENES))
    for row in folded.rows("generations"):
        assert (row["problem"], row["lost"], row["skipped"], row["starts_late"]) == (None, 0, 0, False)
    lives = {group: {row["incarnation"] for row in of(folded, group)} for group in ("moved", "pods", "again")}
    assert lives == {"moved": {1}, "pods": {1}, "again": {1, 2}}

    def causes_in(group: str) -> list[tuple[int, str]]:
        rows = folded.rows("causes", group=group)
        return [(row["generation"], "+".join(row["causes"])) for row in rows]

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
    folded = fold(raw, recorded_catalogue(Path(recorded)))
    (counts,) = [sums.records for sums in folded.sums.values()]
    assert counts.records == counts.kip848_records
    rows = of(folded, "audit-trail")
    assert [row["generation"] for row in rows] == list(range(2, 59))
    assert {(row["skipped"], row["problem"], row["incarnation"]) for row in rows} == {(0, None, 1)}

    causes = Counter("+".join(row["causes"]) for row in folded.rows("causes"))
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
