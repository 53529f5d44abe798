"""Raw records become generations and members, and unreadable records are reported."""

from __future__ import annotations

from operator import attrgetter

import pytest

from compat_tests.support.group_records import encode_key
from kafka_assignors_replay.history.consumer_offsets import GroupMember, OffsetCommitKey
from kafka_assignors_replay.history.records import RecordKind, decode_record, group_of
from spark_validation.tests.folding import History, history_of, sums_of
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, member


def story() -> Log:
    """One partition with every kind of event of a group."""
    log = Log().generation("g", 0)
    log.append(encode_key(OffsetCommitKey("g", "orders", 0)), b"")
    log.generation("g", 1, member("a", gets=ALL))
    log.generation("g", 1, member("a2", gets=ALL))
    log.generation("late", 7, member("x", gets=ALL))
    log.generation("g", 4, member("a2", gets={"orders": [0, 1]}), member("b", gets={"orders": [2, 3]}))
    log.generation("g", 5)
    log.tombstone("g")
    log.tombstone("g")
    log.generation("g", 1, member("c", gets=ALL))
    log.epoch("g-kip848-static", 2)
    return log.append(b"\x7f\xff", b"\1")


@pytest.fixture(scope="module")
def found() -> History:
    return history_of(story().records)


def test_each_record_is_of_one_kind() -> None:
    kinds = [decode_record(row["key"], row["value"]).kind for row in story().records]
    assert kinds == [
        RecordKind.EMPTY,
        RecordKind.OFFSET_COMMIT,
        *[RecordKind.GENERATION] * 4,
        RecordKind.EMPTY,
        *[RecordKind.TOMBSTONE] * 2,
        RecordKind.GENERATION,
        RecordKind.KIP848,
        RecordKind.OTHER,
    ]


def test_records_are_counted_by_kind_and_offset_commits_are_left_out() -> None:
    sums = sums_of(story().records)
    counts = sums["g"].records
    names = "records", "generations", "empty_generations", "tombstones"
    assert [counts[name] for name in names] == [8, 4, 2, 2]
    assert sums["g-kip848-static"].records["kip848_records"] == 1
    assert sums[None].records["other_records"] == 1


def test_generations_know_their_place_in_the_life_of_the_group(found: History) -> None:
    names = ("incarnation", "generation", "empty", "replacement", "skipped", "starts_late")
    assert [attrgetter(*names)(each) for each, _ in found["g"]] == [
        (1, 0, True, False, 0, False),
        (1, 1, False, False, 0, False),
        (1, 1, False, True, 0, False),
        (1, 4, False, False, 2, False),
        (1, 5, True, False, 0, False),
        (2, 1, False, False, 0, False),
    ]


def test_a_first_generation_that_cannot_be_the_first_starts_late(found: History) -> None:
    ((first, _),) = found["late"]
    assert first.starts_late
    assert first.skipped == 0


def test_a_group_that_starts_over_without_a_tombstone_is_another_incarnation() -> None:
    log = Log()
    for number in (1, 2, 1, 2):
        log.generation("g", number, member("a", gets=ALL))
    assert [each.incarnation for each, _ in history_of(log.records)["g"]] == [1, 1, 2, 2]


def test_members_have_what_they_asked_for_and_what_they_got(found: History) -> None:
    (members,) = (each.members for each, _ in found["g"] if each.generation == 4)
    said = {name: (each.member_id, each.topics, each.assigned, each.client) for name, each in members.items()}
    assert said == {
        "a2": ("a2", ("orders",), {"orders": (0, 1)}, "java"),
        "b": ("b", ("orders",), {"orders": (2, 3)}, "java"),
    }
    assert not any(each.holds for each in members.values())


def test_timestamps_stay_the_instants_they_were(found: History) -> None:
    times = {row["offset"]: row["timestamp"] for row in story().records}
    assert all(each.timestamp == times[each.offset] for own in found.values() for each, _ in own)


def test_records_that_do_not_decode_are_listed_with_place_and_reason() -> None:
    log = Log().generation("g", 1, member("a", gets=ALL))
    key, whole = log.records[0]["key"], log.records[0]["value"]
    log.append(key, whole[:-3])
    log.append(key[:-1], whole)
    log.append(None, whole)
    log.append(key, whole.replace(b"orders", b"\xff\xfe\xfd\xfc\xfb\xfa"))
    sums = sums_of(log.records)
    of_group = sums["g"].undecodable
    assert [(partition, offset) for partition, offset, *_ in of_group] == [(0, 1), (0, 4)]
    assert "assignment" in of_group[0][3]
    assert "member 'a'" in of_group[1][3]
    assert sums["g"].records["generations"] == 2


@pytest.mark.parametrize("group", ["g", "gg", "ü", "g-1", ""])
def test_the_group_is_cut_from_the_key_without_decoding_it(group: str) -> None:
    log = Log().generation(group, 1, member("a", gets=ALL))
    log.epoch(group, 2)
    for record in log.records:
        assert group_of(record["key"]) == group.encode()


# What the members of a generation claim shows whether records before it are lost


def shows_loss(log: Log) -> list[bool]:
    """Whether each generation of the log shows that a record before it is missing."""
    return [each.shows_loss for each, _ in history_of(log.records)["g"]]


HAS_ALL, HAS_HIGH = member("a", gets=ALL), member("b", gets=HIGH)
CLAIMS_LOW = member("a", gets=LOW, owned=LOW, generation=4)
CLAIMS_ALL = member("a", gets=LOW, owned=ALL, generation=4)
SHARES = member("a", gets=LOW, owned=ALL, generation=1), member("b")
CLAIMS_HIGH = member("c", gets=HIGH, owned=HIGH, generation=7)

CLAIMS: dict[str, tuple[dict[int, tuple[GroupMember, ...]], bool]] = {
    "skipped numbers alone": ({1: (HAS_ALL,), 5: (HAS_ALL,)}, False),
    "what no record gave it": (
        {1: (HAS_ALL,), 5: (CLAIMS_LOW, HAS_HIGH), 8: (CLAIMS_LOW, CLAIMS_HIGH)},
        True,
    ),
    "what it had, by a generation that was overtaken": ({1: (HAS_ALL,), 5: (CLAIMS_ALL,)}, False),
    "what it had in another life of the group": (
        {7: (HAS_ALL,), 1: (member("a", gets=HIGH),), 5: (CLAIMS_LOW,)},
        True,
    ),
    "as of the generation before": ({4: (member("a", gets=HIGH),), 6: (CLAIMS_LOW,)}, False),
    "what it had before the last assignment": (
        {1: (HAS_ALL,), 2: SHARES, 5: (CLAIMS_ALL, HAS_HIGH)},
        False,
    ),
    "what it had before it left": (
        {1: (HAS_ALL, member("b")), 2: (member("b", gets=ALL),), 5: (CLAIMS_LOW, HAS_HIGH)},
        True,
    ),
}


@pytest.mark.parametrize(("generations", "lost"), CLAIMS.values(), ids=CLAIMS)
def test_a_member_that_claims(generations: dict[int, tuple[GroupMember, ...]], lost: bool) -> None:
    log = Log()
    for number, members in generations.items():
        log.generation("g", number, *members)
    assert shows_loss(log) == [*[False] * (len(generations) - 1), lost]


def test_a_record_that_does_not_decode_is_lost() -> None:
    log = Log().generation("g", 1, member("a", gets=ALL))
    log.append(log.records[-1]["key"], b"broken")
    log.generation("g", 3, member("a", gets=ALL))
    assert shows_loss(log) == [False, True]
