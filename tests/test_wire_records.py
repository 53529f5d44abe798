"""Records of `__consumer_offsets`, compared with bytes that a broker wrote.

`data/offsets_topic.jsonl` has records of a Kafka 4.3.1 broker, with the output of its kafka-dump-log. Bytes
of Java's generated classes, in every version, are in `test_java_bytes`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compat_tests.support.group_records import encode_group_metadata, encode_key
from kafka_assignors import wire
from kafka_assignors_replay.history.consumer_offsets import (
    GroupMember,
    GroupMetadata,
    decode_group_metadata,
    decode_key,
)
from tests.java_fields import decode_fields

Json = dict[str, Any]
_LINES = (Path(__file__).parent / "data" / "offsets_topic.jsonl").read_text().splitlines()
BY_BROKER: list[Json] = [json.loads(line) for line in _LINES]
GENERATIONS = [record for record in BY_BROKER if record["dumped_key"]["type"] == "2" and record["value"]]

MEMBER = GroupMember("m-1", "client", "/10.0.0.1", 45_000, b"subscription", b"assignment", 300_000, "pod-0")


def generation(version: int, *members: GroupMember) -> GroupMetadata:
    return GroupMetadata(version, "consumer", 9, "range", "m-1", members, 123_456_789)


def where(record: Json) -> str:
    return f"{record['partition']}@{record['offset']}"


# Keys.


@pytest.mark.parametrize("record", BY_BROKER, ids=where)
def test_a_key_reads_as_the_broker_dumps_it(record: Json) -> None:
    data = bytes.fromhex(record["key"])
    assert decode_fields("record_key", 0, data) == record["dumped_key"]["data"]
    assert encode_key(decode_key(data)) == data


@pytest.mark.parametrize("kind", [9, 15, 17, 99, -1])
def test_other_kinds_of_records_are_told_apart_and_not_looked_into(kind: int) -> None:
    assert decode_key(kind.to_bytes(2, "big", signed=True) + b"anything") is None


# Values.


def test_the_broker_and_its_clients_wrote_the_very_bytes_that_we_write() -> None:
    members = [
        member
        for record in GENERATIONS
        for member in decode_group_metadata(bytes.fromhex(record["value"])).members
    ]
    assert len(members) > 40
    for member in members:
        subscription = wire.decode_subscription(member.subscription)
        end = len(wire.encode_subscription(replace(subscription, version=0)))
        written = with_null(member.subscription, subscription.user_data, end)
        assert wire.encode_subscription(subscription) == written
        # The order of topics in an assignment has no meaning; here it is the leader's.
        assignment = wire.decode_assignment(member.assignment)
        written = with_null(member.assignment, assignment.user_data, len(member.assignment))
        assert sorted(wire.encode_assignment(assignment)) == sorted(written)


def with_null(data: bytes, user_data: bytes, end: int) -> bytes:
    """The bytes with null for empty user data, which some clients write, and which end there."""
    return data if user_data else data[: end - 4] + b"\xff\xff\xff\xff" + data[end:]


@pytest.mark.parametrize("version", [5, 32767, -1])
def test_a_version_that_is_not_known_is_refused(version: int) -> None:
    data = version.to_bytes(2, "big", signed=True) + encode_group_metadata(generation(4, MEMBER))[2:]
    with pytest.raises(wire.ProtocolError, match=f"version at byte 0: {version} is not known"):
        decode_group_metadata(data)


def test_tagged_fields_of_a_later_broker_are_skipped() -> None:
    value = generation(4, MEMBER, MEMBER)
    data = encode_group_metadata(value)
    tagged = b"\x02" + b"\x00\x03abc" + b"\x85\x01\x00"  # field 0 with three bytes, and field 133 without any
    of_member = data.index(b"assignment") + len(b"assignment")
    with_tags = data[:of_member] + tagged + data[of_member + 1 : -1] + tagged
    assert decode_group_metadata(with_tags) == value


def test_tagged_fields_cannot_reach_beyond_the_record() -> None:
    data = encode_group_metadata(generation(4, MEMBER))
    with pytest.raises(wire.ProtocolError) as error:
        decode_group_metadata(data[:-1] + b"\x01\x00\x05abcd")
    assert (error.value.field, error.value.offset) == ("tagged_fields[0].data", len(data) + 2)
