"""Which records count, which groups are watched, and how bad groups affect others."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from compat_tests.support.group_records import encode_key
from kafka_assignors_ops.watch.fleet import (
    DEAD_KEPT_S,
    EMPTY_KEPT_S,
    RECENT_S,
    Fleet,
    FleetLimits,
    GroupSnapshot,
)
from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.consumer_offsets import GroupMetadataKey
from kafka_assignors_replay.history.generations import Record
from kafka_assignors_replay.history.records import LAST_MICROS, to_micros
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, member


def records(rows: Iterable[Mapping[str, Any]]) -> list[Record]:
    return [
        Record(row["partition"], row["offset"], to_micros(row["timestamp"]), row["key"], row["value"])
        for row in rows
    ]


def feed(fleet: Fleet, log: Log, now_s: float = 0, *, history: bool = False) -> None:
    for record in records(log.records):
        fleet.feed(record, now_s, history=history)


def groups(fleet: Fleet, now_s: float = 0) -> dict[str, GroupSnapshot]:
    return {group.group: group for group in fleet.snapshot(now_s).groups}


def followed(**limits: Any) -> Fleet:
    return Fleet(Catalogue(()), FleetLimits(**limits))


def joined(*names: str) -> Log:
    """Groups with two members; the second joins later."""
    log = Log()
    for name in names:
        log.generation(name, 1, member("a", gets=ALL))
        log.generation(name, 2, member("a", gets=LOW), member("b", gets=HIGH))
    return log


def test_records_from_before_the_start_are_known_and_do_not_count() -> None:
    fleet = followed()
    feed(fleet, joined("g"), history=True)
    found = groups(fleet)["g"]
    assert found.last is not None
    assert (found.last.members, found.last.partitions, found.last.generation) == (2, 4, 2)
    assert (found.counts.generations, found.counts.rebalances, found.recent) == (0, 0, 0)
    feed(fleet, Log().generation("g", 3, member("a", gets=ALL)))
    # The move is measured from the assignment in the history.
    counts = groups(fleet)["g"].counts
    assert (counts.generations, counts.rebalances, counts.unjudged) == (1, 1, 0)
    assert counts.causes == {"departure": 1}


def test_groups_beyond_the_limit_are_counted_and_come_in_when_there_is_room() -> None:
    fleet = followed(max_groups=2)
    feed(fleet, joined("one", "two", "three", "four"))
    found = fleet.snapshot(0)
    assert [group.group for group in found.groups] == ["one", "two"]
    assert found.beyond_limit == 2
    feed(fleet, Log().tombstone("one").tombstone("four"))
    fleet.evict(DEAD_KEPT_S + 1)
    feed(fleet, joined("three"))
    found = fleet.snapshot(0)
    assert [group.group for group in found.groups] == ["three", "two"]
    assert found.beyond_limit == 0


def test_groups_with_earlier_counts_come_before_others_until_the_history_is_read() -> None:
    before = followed(max_groups=2)
    feed(before, joined("one", "two"))
    counts = {key: group.counts for key, group in before.groups.items()}
    limits = FleetLimits(2, lambda name: name != "two")
    for matching, expected in ((FleetLimits(2), {"one": 2, "two": 2}), (limits, {"one": 2, "new": 0})):
        fleet = Fleet(Catalogue(()), matching, counts=counts)
        feed(fleet, joined("new", "two", "one"), history=True)
        assert {name: found.counts.generations for name, found in groups(fleet).items()} == expected
    fleet = Fleet(Catalogue(()), FleetLimits(2), counts=counts)
    feed(fleet, joined("new", "one"), history=True)
    fleet.forget_earlier()
    feed(fleet, joined("new"))
    assert set(groups(fleet)) == {"new", "one"}


def test_a_group_with_members_is_never_forgotten_and_an_empty_or_dead_one_is_seen_for_a_while() -> None:
    fleet = followed()
    log = joined("stable", "empty", "dead")
    log.generation("empty", 3)
    log.tombstone("dead")
    feed(fleet, log)
    fleet.evict(DEAD_KEPT_S - 1)
    assert groups(fleet)["dead"].state == "dead"
    fleet.evict(DEAD_KEPT_S + 1)
    assert "dead" not in groups(fleet)
    fleet.evict(EMPTY_KEPT_S - 1)
    assert set(groups(fleet)) == {"stable", "empty"}
    fleet.evict(10_000_000)
    assert set(groups(fleet)) == {"stable"}
    feed(fleet, joined("dead"))
    assert groups(fleet)["dead"].counts.generations == 2


def test_clocks_that_jump_decide_nothing() -> None:
    fleet = followed()
    log = joined("g")
    log.generation("g", 3, member("a", gets=ALL))
    stamps = [10**15, LAST_MICROS, 0]  # the years 2001, 9999 and 1970
    for record, micros in zip(records(log.records), stamps, strict=True):
        fleet.feed(record._replace(micros=micros), 1)
    fleet.evict(EMPTY_KEPT_S)
    found = groups(fleet)["g"]
    assert found.counts.generations == 3
    assert found.last is not None
    assert found.last.timestamp_s == 0


def test_the_latest_generations_are_counted_over_ten_minutes() -> None:
    fleet = followed()
    feed(fleet, joined("g"), 0)
    assert groups(fleet, RECENT_S)["g"].recent == 2
    assert groups(fleet, RECENT_S + 1)["g"].recent == 0


def test_what_does_not_decode_is_counted_by_part_and_told_once_for_each_group() -> None:
    told: list[str] = []
    fleet = Fleet(Catalogue(()), FleetLimits(), told.append)
    log = joined("healthy")
    for name in ("broken", 'a "name"\nwith \\'):
        key = encode_key(GroupMetadataKey(name))
        log.append(key, b"\x7f\xff")
        log.append(key, b"")
        odd = member("m")
        log.generation(name, 5, odd._replace(subscription=b"\0"), member("n", gets=ALL))
    log.append(b"\0\2\0\x7f", b"short")
    log.append(None, b"")
    log.append(b"\0\x63", b"of a newer broker")
    feed(fleet, log)
    found = groups(fleet)
    for name in ("broken", 'a "name"\nwith \\'):
        assert found[name].counts.undecodable == {"value": 2, "member": 1}
    assert found["healthy"].counts.generations == 2
    assert len(told) == 2
    assert "broken" in told[0]
    assert all("\n" not in line for line in told)
    kinds = fleet.records
    assert (kinds["generation"], kinds["other"], kinds["undecodable"]) == (4, 1, 6)


def test_an_error_in_one_group_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    fleet = Fleet(Catalogue(()), FleetLimits(), told.append)
    feed(fleet, joined("good", "bad"))

    def fail(*_: object) -> None:
        raise ArithmeticError("of the test")

    monkeypatch.setattr(fleet.groups[b"bad"].causes.__class__, "feed", fail)
    feed(fleet, joined("bad"))
    monkeypatch.undo()
    assert "of the test" in told[0]
    assert len(told) == 2
    feed(fleet, joined("bad"))
    assert groups(fleet)["bad"].counts.generations == 2
    assert groups(fleet)["good"].counts.generations == 2


def test_a_snapshot_in_the_middle_of_a_rebalance_is_of_before_or_after_it() -> None:
    fleet = followed(max_groups=5)
    seen: set[tuple[int, int | None]] = set()
    done = threading.Event()

    def scrape() -> None:
        while not done.is_set():
            for group in fleet.snapshot(0).groups:
                assert group.last is not None
                seen.add((group.counts.generations, group.last.generation))

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        log = Log()
        for number in range(1, 400):
            log.generation("g", number, member("a", gets=ALL if number % 2 else LOW), member("b"))
        feed(fleet, log)
    finally:
        done.set()
        thread.join()
    assert all(counted == generation for counted, generation in seen)
