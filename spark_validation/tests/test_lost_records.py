"""What the members of a generation claim shows whether records before it are lost."""

from __future__ import annotations

import pytest

from kafka_assignors_replay.catalogue import Catalogue
from kafka_assignors_replay.history.consumer_offsets import GroupMember
from kafka_assignors_replay.history.generations import LifeFold, Record
from kafka_assignors_replay.history.kip848_fold import EpochFold
from kafka_assignors_replay.history.records import decode_record
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, member


def shows_loss(log: Log) -> list[bool]:
    """Whether each generation of the log shows that a record before it is missing."""
    life = LifeFold(EpochFold(Catalogue(())), torn=False)
    found = []
    for each in log.records:
        key, value = each["key"], each["value"]
        record = Record(0, len(found), 0, key, value)
        found += [seen.shows_loss for seen in life.feed(record, decode_record(key, value))]
    return found


def test_a_member_that_owns_what_no_record_gave_it_proves_that_records_are_lost() -> None:
    log = Log()
    log.generation("g", 1, member("a", gets=ALL))
    kept, came = member("a", gets=LOW, owned=LOW, generation=4), member("b", gets=HIGH)
    log.generation("g", 5, kept, came)
    log.generation("g", 8, kept, member("c", gets=HIGH, owned=HIGH, generation=7))
    assert shows_loss(log) == [False, False, True]


@pytest.mark.parametrize(
    "rejoins",
    [member("a", gets=ALL), member("a", gets=ALL, owned=ALL, generation=4)],
    ids=["skipped numbers alone", "what it had, by a generation that was overtaken"],
)
def test_nothing_shows_a_loss(rejoins: GroupMember) -> None:
    log = Log()
    log.generation("g", 1, member("a", gets=ALL))
    log.generation("g", 5, rejoins)
    assert shows_loss(log) == [False, False]


def test_a_member_may_still_have_what_it_had_before_the_last_assignment() -> None:
    log = Log()
    log.generation("g", 1, member("a", gets=ALL))
    log.generation("g", 2, member("a", gets=LOW, owned=ALL, generation=1), member("b"))
    log.generation("g", 5, member("a", gets=LOW, owned=ALL, generation=4), member("b", gets=HIGH))
    assert shows_loss(log) == [False, False, False]


def test_what_a_member_had_before_it_left_is_no_longer_its_own() -> None:
    log = Log()
    log.generation("g", 1, member("a", gets=ALL), member("b"))
    log.generation("g", 2, member("b", gets=ALL))
    log.generation("g", 5, member("a", gets=LOW, owned=LOW, generation=4), member("b", gets=HIGH))
    assert shows_loss(log) == [False, False, True]


def test_a_claim_is_not_compared_with_another_life_of_the_group() -> None:
    log = Log()
    log.generation("g", 7, member("a", gets=ALL))
    log.tombstone("g")
    log.generation("g", 1, member("b", gets=ALL))
    log.generation("g", 5, member("b", gets=ALL), member("a", owned=LOW, generation=4))
    assert shows_loss(log) == [False, False, True]


def test_a_record_that_does_not_decode_is_lost() -> None:
    log = Log()
    log.generation("g", 1, member("a", gets=ALL))
    log.append(log.records[-1]["key"], b"broken")
    log.generation("g", 3, member("a", gets=ALL))
    assert shows_loss(log) == [False, True]
