"""Groups of both protocols, in one history."""

from __future__ import annotations

import json
from collections import Counter
from operator import attrgetter
from pathlib import Path

import pytest

from kafka_assignors_replay.history.consumer_offsets import ConsumerGroupRecord
from kafka_assignors_replay.history.kip848_records import ConsumerGroupMemberState
from spark_validation.tests.folding import History, history_of, raw_rows, sums_of
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, member, new_member
from spark_validation.tests.test_kip848_fold import ORDERS, moved_to_kip848, recorded_catalogue, settled

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
def found() -> History:
    return history_of(story().records, ORDERS)


def of(found: History, group: str, *names: str) -> list[tuple[object, ...]]:
    """The values of these names in each generation of the group."""
    return [attrgetter(*names)(generation) for generation, _ in found[group]]


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


def test_a_group_that_was_deleted_and_made_again_begins_another_life(found: History) -> None:
    assert of(found, "again", "generation", "incarnation", "empty", "starts_late") == [
        (2, 1, False, False),
        (3, 1, True, False),
        (2, 2, False, False),
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


def test_each_generation_has_its_causes(found: History) -> None:
    assert [causes for _, causes in found["again"]] == [["join"], ["departure"], ["join"]]
    assert [causes for _, causes in found["g"]] == [
        ["unknown"],  # the history starts with it
        *(["migration"], ["join"], ["departure", "migration"], ["departure"]),
    ]


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


def test_groups_of_a_real_broker_are_what_was_done_to_them() -> None:
    found = history_of(raw_rows(SCENES), recorded_catalogue(SCENES))
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
    found = history_of(raw, recorded_catalogue(Path(recorded)))
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
