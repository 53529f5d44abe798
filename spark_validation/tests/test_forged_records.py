"""Records that no coordinator wrote, forged by a program with write access to the offsets topic.

The replay ends, each such record is counted and named, and the figures of other groups do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.group_records import encode_group_metadata, encode_key
from kafka_assignors.wire import ConsumerAssignment, encode_assignment
from kafka_assignors_replay.history.consumer_offsets import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
)
from kafka_assignors_replay.replay_tables import print_replay
from kafka_assignors_replay.report.as_html import html_report
from kafka_assignors_replay.result import RECORDED
from spark_validation.tests.groups import ALL, HIGH, LOW, Log, member, new_member, write_history
from spark_validation.tests.replaying import Replayed, replay
from tests.hostile_names import NAMES, assert_harmless

LEAST, MOST = -(2**31), 2**31 - 1
LONG = "n" * (2**15 - 1)
MILLION = 1_000_000


def value(*members: GroupMember, generation: int = 2, version: int = 3, **fields: Any) -> bytes:
    leader = members[0].member_id if members else None
    whole = GroupMetadata(version, "consumer", generation, "range", leader, members)
    return encode_group_metadata(whole._replace(**fields))


def with_count(members: int) -> bytes:
    """A generation of one member with a wrong member count."""
    one = value(member("a", gets=ALL))
    before = value()[:-4]
    assert one.startswith(before[:2])
    at = one.index(b"\0\0\0\1\0\1a")
    return one[:at] + members.to_bytes(4, "big", signed=True) + one[at + 4 :]


def with_length(length: int) -> bytes:
    """A generation with a wrong length of the leader's name."""
    one = value(member("a", gets=ALL), leader="leader")
    at = one.index(b"\0\6leader")
    return one[:at] + length.to_bytes(2, "big", signed=True) + one[at + 2 :]


def gives(partitions: Sequence[int], topic: str = "orders") -> GroupMember:
    return member("a", (topic,), gets={topic: partitions})


def claims(partitions: Sequence[int], generation: int = 1) -> GroupMember:
    return member("a", gets=ALL, owned={"orders": partitions}, generation=generation)


UNDECODABLE: dict[str, bytes] = {
    "a count of 2^31 - 1 members": with_count(MOST),
    "a negative count of members": with_count(-2),
    "more members than there are": with_count(2),
    "a length beyond the end": with_length(MOST >> 16),
    "a negative length": with_length(-2),
    "an unknown version": b"\0\x63" + value(member("a", gets=ALL))[2:],
    "a version of -1": b"\xff\xff" + value(member("a", gets=ALL))[2:],
    "no bytes": b"",
    "zero bytes": bytes(100_000),
    "other bytes": b"\xff" * 100_000,
    "a value cut off": value(member("a", gets=ALL))[:-1],
    "bytes behind the value": value(member("a", gets=ALL)) + bytes(MILLION),
    "an assignment that lies": value(
        member("a")._replace(
            assignment=encode_assignment(ConsumerAssignment(0, ALL))[:6] + b"\x7f\xff\xff\xff"
        )
    ),
    "a subscription that lies": value(member("a", gets=ALL)._replace(subscription=b"\0\3\x7f\xff\xff\xff")),
    "a subscription of -1": value(member("a", gets=ALL)._replace(subscription=b"\xff\xff")),
}
"""Values in the middle of a group's life that do not decode, or have a member that does not decode."""

DECODABLE: dict[str, bytes] = {
    "the least generation": value(member("a", gets=ALL), generation=LEAST),
    "the greatest generation": value(member("a", gets=ALL), generation=MOST),
    "a member twice": value(member("a", gets=LOW), member("a", gets=HIGH)),
    "an instance twice": value(member("a", gets=LOW, instance="i"), member("b", gets=HIGH, instance="i")),
    "names without letters": value(
        member("", ("",), gets={"": [0]}, instance="")._replace(client_id="", client_host=""),
        protocol="",
        leader="",
    ),
    "long names": value(
        member(LONG, (LONG,), gets={LONG: [0]}, instance=LONG)._replace(client_id=LONG, client_host=LONG),
        protocol=LONG,
    ),
    "a long protocol type": value(member("a", gets=ALL), protocol_type=LONG),
    "no protocol and no leader": value(member("a", gets=ALL), protocol=None, leader=None),
    "a leader that is no member": value(member("a", gets=ALL), leader="x"),
    "a million partitions": value(gives(range(MILLION))),
    "a million claims": value(claims(range(MILLION))),
    "a claim of the greatest generation": value(claims([0, 1], MOST)),
    "a claim of the least generation": value(claims([0, 1], LEAST)),
    "partitions at the ends of their type": value(gives([LEAST, -1, 4, MOST])),
    "a partition twice": value(gives([0, 0, 1, 1])),
    "a partition of two members": value(member("a", gets=ALL), member("b", gets=ALL)),
    "partitions of another's topic": value(member("a", gets={"payments": [0]}), member("b", gets=ALL)),
    "10,000 topics": value(member("a", [f"t{number}" for number in range(10_000)], gets=ALL)),
    "3,000 members": value(*(member(f"m{number}", gets={}) for number in range(3_000))),
    "times at the ends of their type": value(member("a", gets=ALL), state_timestamp_ms=-(2**63)),
}
"""Values in the middle of a group's life that decode."""

KEYS: dict[str, bytes | None] = {
    "no key": None,
    "no bytes": b"",
    "a length beyond the end": b"\0\2\x7f\xff",
    "a negative length": b"\0\2\xff\xfe",
    "not UTF-8": b"\0\2\0\2\xff\xfe",
    "many bytes behind the group": b"\0\2" + bytes(MILLION),
    "a key of KIP-848 cut off": encode_key(ConsumerGroupKey(ConsumerGroupRecord(5), "g", "m"))[:-1],
}
"""Keys that do not decode."""

OTHER_KEYS: dict[str, bytes] = {
    f"version {version}": version.to_bytes(2, "big", signed=True) + b"\0\1g\0\1m"
    for version in (9, 10, 15, 17, 99, -1, -(2**15), 2**15 - 1)
}


def forged() -> Log:
    """The sound group `fine`, and records that no coordinator writes."""
    log = Log().three_generations("fine")
    for name, hostile in {**UNDECODABLE, **DECODABLE}.items():
        log.generation(name, 1, member("a", gets=ALL))
        log.append(encode_key(GroupMetadataKey(name)), hostile)
        log.generation(name, 3, member("a", gets=LOW), member("b", gets=HIGH))
        log.generation(name, 4, member("a", gets=ALL))
    for key in {**KEYS, **OTHER_KEYS}.values():
        log.append(key, value(member("a", gets=ALL)))
    for name in ("", LONG, *NAMES.values()):
        log.generation(
            name, 1, member(name, (name,), gets={name: [0]}, instance=name)._replace(client_id=name)
        )
        log.generation(name, 2, member(name, gets=ALL, instance=name)._replace(client_id=name), protocol=name)
    for number in (LEAST, -1, 0, MOST):
        of_kip848 = f"epoch {number}"
        log.assigns(of_kip848, number, {"m": {"orders": [LEAST, 0, 0, MOST]}}, m=new_member())
        log.progresses(of_kip848, "m")
    for record in ConsumerGroupRecord:
        of_member = "m" if b"m" in bytes([record]) or record in (5, 7, 8) else None
        key = ConsumerGroupKey(record, f"part {record:d}", of_member, "x" if record == 16 else None)
        for hostile in (b"", b"\0\0\xff\xff\xff\xff\x0f", b"\0\x63", bytes(1_000), b"\xff" * 1_000, None):
            log.append(encode_key(key), hostile)
    return log.append(encode_key(GroupMetadataKey("fine")), None)


def run(folder: Path, log: Log) -> Replayed:
    """A replay by the local engine; `test_engines` compares that on Spark with it."""
    path = write_history(folder, log, {"orders": 4})
    return Replayed(replay(path, strategies=("cooperative-sticky",), sample_groups=20))


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return run(tmp_path_factory.mktemp("forged"), forged())


def test_sound_groups_are_replayed_as_if_forged_records_were_absent(
    replayed: Replayed, tmp_path: Path
) -> None:
    alone = Log().three_generations("fine").tombstone("fine")
    assert replayed.figures("fine") == run(tmp_path, alone).figures("fine")
    assert any(each["strategy"] == RECORDED for each in replayed.figures("fine"))
    assert replayed.group("fine")["not_replayed"] == {}


@pytest.mark.parametrize("name", UNDECODABLE)
def test_a_value_that_does_not_decode_is_named_and_not_bridged(replayed: Replayed, name: str) -> None:
    (listed,) = (each for each in replayed.document["undecodable"] if each["group"] == name)
    assert 0 < len(listed["reason"]) < 1_000
    assert sum(replayed.group(name)["not_replayed"].values()) >= 1


@pytest.mark.parametrize("name", DECODABLE)
def test_a_value_that_decodes_is_replayed_or_the_reason_is_given(replayed: Replayed, name: str) -> None:
    assert not any(each["group"] == name for each in replayed.document["undecodable"])
    group = replayed.group(name)
    assert group["generations"] == 4
    assert group["replayed_rebalances"] + sum(group["not_replayed"].values()) == group["rebalances"]


def test_a_key_that_does_not_decode_is_counted_and_one_of_another_version_too(replayed: Replayed) -> None:
    listed = [each for each in replayed.document["undecodable"] if each["group"] is None]
    assert len(listed) == len(KEYS)
    assert all(0 < len(each["reason"]) < 1_000 for each in listed)
    assert replayed.document["history"]["other_records"] == len(OTHER_KEYS)


def test_every_name_of_a_group_is_one(replayed: Replayed) -> None:
    for name in ("", LONG, *NAMES.values()):
        assert replayed.group(name)["generations"] == 2


def test_the_terminal_and_the_report_take_all_of_it(
    replayed: Replayed, capsys: pytest.CaptureFixture[str]
) -> None:
    print_replay(replayed.result)
    printed = capsys.readouterr().out
    assert_harmless(printed)
    assert LONG[:5_000] not in printed
    assert "fine" in html_report(replayed.result)
