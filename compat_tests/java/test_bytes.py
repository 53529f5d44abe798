"""Our codecs and Java's read each other's bytes, for every kind and version, and write the same ones."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

import pytest

from compat_tests.java.java_bytes import KINDS, JavaBytes, JavaBytesError, random_fields
from kafka_assignors.group import NO_GENERATION, Member
from kafka_assignors.protocol import (
    ConsumerAssignment,
    ConsumerGroupKey,
    ConsumerGroupRecord,
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommitKey,
    Subscription,
    decode_assignment,
    decode_group_metadata,
    decode_key,
    decode_member,
    decode_subscription,
    encode_assignment,
    encode_group_metadata,
    encode_key,
    encode_subscription,
)
from kafka_assignors.protocol.sticky_user_data import (
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
)

SAMPLES = 300
"""Of each kind and version."""


@pytest.fixture(scope="module")
def java() -> Iterator[JavaBytes]:
    with JavaBytes() as process:
        yield process


def samples(kind: str, version: int) -> Iterator[dict[str, Any]]:
    rng = random.Random(f"{kind} {version}")
    for _ in range(SAMPLES):
        yield random_fields(kind, version, rng)


def user_data(fields: dict[str, Any]) -> bytes:
    return bytes.fromhex(fields["user_data"] or "")


def plain(partitions: Any) -> dict[str, list[int]]:
    return {topic: list(numbers) for topic, numbers in partitions.items()}


def of_kind(kind: str) -> list[int]:
    return [version for name, version in KINDS if name == kind]


@pytest.mark.parametrize("version", of_kind("subscription"))
def test_subscriptions(java: JavaBytes, version: int) -> None:
    for fields in samples("subscription", version):
        ours = Subscription(
            version,
            tuple(fields["topics"]),
            user_data(fields),
            fields["owned"],
            fields["generation"],
            fields["rack"],
        )
        written = java.write("subscription", version, fields)
        read = decode_subscription(written)
        assert (read.version, read.topics, read.user_data) == (ours.version, ours.topics, ours.user_data)
        assert (plain(read.owned), read.generation, read.rack) == (ours.owned, ours.generation, ours.rack)
        assert java.read("subscription", version, encode_subscription(ours)) == {
            **fields,
            "user_data": fields["user_data"] or "",
        }
        # Where Java writes null for no user data, we write none, as librdkafka does.
        if fields["user_data"] is not None:
            assert encode_subscription(read) == encode_subscription(ours) == written


@pytest.mark.parametrize("version", of_kind("assignment"))
def test_assignments(java: JavaBytes, version: int) -> None:
    for fields in samples("assignment", version):
        ours = ConsumerAssignment(version, fields["partitions"], user_data(fields))
        written = java.write("assignment", version, fields)
        read = decode_assignment(written)
        assert (read.version, plain(read.partitions), read.user_data) == (
            version,
            ours.partitions,
            ours.user_data,
        )
        assert java.read("assignment", version, encode_assignment(ours)) == {
            **fields,
            "user_data": fields["user_data"] or "",
        }
        # Java writes the topics in the order of a hash table, we in that of their names.
        if fields["user_data"] is not None and len(fields["partitions"]) < 2:
            assert encode_assignment(read) == encode_assignment(ours) == written


def test_user_data_of_sticky(java: JavaBytes) -> None:
    for fields in samples("sticky", 1):
        written = java.write("sticky", 1, fields)
        member = member_with("sticky", written)
        assert (plain(member.owned), member.generation) == (fields["owned"], fields["generation"])
        assert member.revoked == bool(fields["owned"])
        ours = encode_sticky_user_data(fields["owned"], fields["generation"])
        assert java.read("sticky", 1, ours) == fields
        # Java writes the topics in the order of a hash table, we in that of their names.
        assert len(ours) == len(written)
        if len(fields["owned"]) < 2:
            assert ours == written


def test_user_data_of_sticky_before_it_had_a_generation(java: JavaBytes) -> None:
    for fields in samples("sticky", 0):
        version_0 = encode_sticky_user_data(fields["owned"], NO_GENERATION)[:-4]
        member = member_with("sticky", version_0)
        assert plain(member.owned) == java.read("sticky", 0, version_0)["owned"]
        assert member.generation == NO_GENERATION


def test_user_data_of_cooperative_sticky(java: JavaBytes) -> None:
    for fields in samples("cooperative-sticky", 0):
        written = java.write("cooperative-sticky", 0, fields)
        assert member_with("cooperative-sticky", written).generation == fields["generation"]
        assert encode_cooperative_sticky_user_data(fields["generation"]) == written
        assert java.read("cooperative-sticky", 0, written) == fields


def member_with(name: str, data: bytes) -> Member:
    return decode_member(name, "m", encode_subscription(Subscription(1, ("t",), data)))


@pytest.mark.parametrize("record_type", of_kind("record_key"))
def test_record_keys(java: JavaBytes, record_type: int) -> None:
    for fields in samples("record_key", record_type):
        written = java.write("record_key", record_type, fields)
        key: OffsetCommitKey | GroupMetadataKey | ConsumerGroupKey
        if record_type < 2:
            key = OffsetCommitKey(fields["group"], fields["topic"], fields["partition"], record_type)
        elif record_type == 2:
            key = GroupMetadataKey(fields["group"])
        else:
            kind = ConsumerGroupRecord(record_type)
            key = ConsumerGroupKey(kind, fields["groupId"], fields.get("memberId"))
        assert decode_key(written) == key
        assert encode_key(key) == written


@pytest.mark.parametrize("version", of_kind("group_metadata"))
def test_group_metadata(java: JavaBytes, version: int) -> None:
    for fields in samples("group_metadata", version):
        written = java.write("group_metadata", version, fields)
        ours = group_metadata(version, fields)
        assert decode_group_metadata(written) == ours
        assert encode_group_metadata(ours) == written


def group_metadata(version: int, fields: dict[str, Any]) -> GroupMetadata:
    return GroupMetadata(
        version=version,
        protocol_type=fields["protocolType"],
        generation=fields["generation"],
        protocol=fields["protocol"],
        leader=fields["leader"],
        state_timestamp_ms=fields.get("currentStateTimestamp", -1),
        members=tuple(
            GroupMember(
                member_id=member["memberId"],
                instance_id=member.get("groupInstanceId"),
                client_id=member["clientId"],
                client_host=member["clientHost"],
                rebalance_timeout_ms=member.get("rebalanceTimeout", -1),
                session_timeout_ms=member["sessionTimeout"],
                subscription=base64.b64decode(member["subscription"]),
                assignment=base64.b64decode(member["assignment"]),
            )
            for member in fields["members"]
        ),
    )


def test_java_refuses_what_breaks_off(java: JavaBytes) -> None:
    data = java.write("group_metadata", 3, random_fields("group_metadata", 3, random.Random(1)))
    with pytest.raises(JavaBytesError, match="BufferUnderflow"):
        java.read("group_metadata", 3, data[:-1])
