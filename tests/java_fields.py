"""Our codecs in the terms of `src/JavaBytes.java`: fields to bytes and back, for comparison with Java.

No JVM is needed here: the tests of the core compare with bytes that Java wrote earlier.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from compat_tests.support.group_records import encode_group_metadata, encode_key
from kafka_assignors import wire
from kafka_assignors.strategies import CooperativeSticky, MemberContext
from kafka_assignors.wire.consumer_protocol import encode_sticky_user_data
from kafka_assignors_replay.history.consumer_offsets import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommitKey,
    decode_group_metadata,
    decode_key,
)
from kafka_assignors_replay.history.kip848_records import decode_consumer_group_value
from tests.java_group_fields import consumer_group_fields, encode_consumer_group_fields, read_fields

Fields = dict[str, Any]


def encode_fields(kind: str, version: int, fields: Fields) -> bytes:
    """The bytes that our codecs write for these fields."""
    if kind == "subscription":
        topics, data = tuple(fields["topics"]), bytes.fromhex(fields["user_data"] or "")
        return wire.encode_subscription(
            wire.Subscription(version, topics, data, fields["owned"], fields["generation"], fields["rack"])
        )
    if kind == "assignment":
        data = bytes.fromhex(fields["user_data"] or "")
        return wire.encode_assignment(wire.ConsumerAssignment(version, fields["partitions"], data))
    if kind == "sticky":
        return encode_sticky_user_data(fields["owned"], fields["generation"])
    if kind == "cooperative-sticky":
        context = MemberContext(frozenset(), generation=fields["generation"])
        return wire.encode_user_data(CooperativeSticky(), context, held=True)
    if kind == "record_key":
        return encode_key(_record_key(version, fields))
    if kind == "consumer_group":
        return encode_consumer_group_fields(ConsumerGroupRecord(version), fields)
    return encode_group_metadata(_group_metadata(version, fields))


def decode_fields(kind: str, version: int, data: bytes) -> Fields:
    """The fields that our codecs read from these bytes.

    Only `consumer_group` uses `version`: it is the type of the record.
    """
    if kind == "subscription":
        subscription = wire.decode_subscription(data)
        return {
            "topics": list(subscription.topics),
            "user_data": subscription.user_data.hex(),
            "owned": _plain(subscription.owned),
            "generation": subscription.generation,
            "rack": subscription.rack,
        }
    if kind == "assignment":
        assignment = wire.decode_assignment(data)
        return {"partitions": _plain(assignment.partitions), "user_data": assignment.user_data.hex()}
    if kind in ("sticky", "cooperative-sticky"):
        member = wire.decode_member(kind, "m", wire.encode_subscription(wire.Subscription(1, (), data)))
        return {"owned": _plain(member.owned), "generation": member.generation}
    if kind == "record_key":
        return _record_key_fields(data)
    if kind == "consumer_group":
        return consumer_group_fields(decode_consumer_group_value(ConsumerGroupRecord(version), data))
    return _group_metadata_fields(decode_group_metadata(data))


def without_null_user_data(fields: Fields) -> Fields:
    """The fields with empty user data instead of null, as our codecs read them."""
    return fields | {"user_data": ""} if fields.get("user_data", "") is None else fields


def fields_as_read(kind: str, fields: Fields) -> Fields:
    """The fields that `decode_fields` gives for bytes of these: of some records it reads only a part."""
    read: Fields = read_fields(fields) if kind == "consumer_group" else without_null_user_data(fields)
    return read


def comparable_bytes(kind: str, fields: Fields) -> bool:
    """Whether Java and our codecs must write the same bytes.

    Empty user data are null with our codecs; Java writes null only if it has none. Java writes the topics of
    an assignment and of user data in the order of a hash table; our codecs write them in the order of their
    names.
    """
    by_hash = {"assignment": "partitions", "sticky": "owned"}
    in_one_order = kind not in by_hash or len(fields[by_hash[kind]]) < 2
    return in_one_order and fields.get("user_data") != ""


def _plain(partitions: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {topic: list(numbers) for topic, numbers in partitions.items()}


def _record_key(record_type: int, fields: Fields) -> OffsetCommitKey | GroupMetadataKey | ConsumerGroupKey:
    if record_type in (0, 1):
        return OffsetCommitKey(fields["group"], fields["topic"], fields["partition"], record_type)
    if record_type == 2:
        return GroupMetadataKey(fields["group"])
    return ConsumerGroupKey(
        ConsumerGroupRecord(record_type),
        fields["groupId"],
        fields.get("memberId"),
        fields.get("regularExpression"),
    )


def _record_key_fields(data: bytes) -> Fields:
    key = decode_key(data)
    if isinstance(key, OffsetCommitKey):
        return {"group": key.group, "topic": key.topic, "partition": key.partition}
    if isinstance(key, GroupMetadataKey):
        return {"group": key.group}
    if key is None:
        return {}
    named = {"memberId": key.member_id, "regularExpression": key.regular_expression}
    return {"groupId": key.group} | {name: value for name, value in named.items() if value is not None}


_GENERATION = {
    "protocolType": ("protocol_type", 0),
    "generation": ("generation", 0),
    "protocol": ("protocol", 0),
    "leader": ("leader", 0),
    "currentStateTimestamp": ("state_timestamp_ms", 2),
}
_MEMBER = {
    "memberId": ("member_id", 0),
    "groupInstanceId": ("instance_id", 3),
    "clientId": ("client_id", 0),
    "clientHost": ("client_host", 0),
    "rebalanceTimeout": ("rebalance_timeout_ms", 1),
    "sessionTimeout": ("session_timeout_ms", 0),
    "subscription": ("subscription", 0),
    "assignment": ("assignment", 0),
}
"""Attributes by Java's names, each with the version from which on records have it."""


def _group_metadata(version: int, fields: Fields) -> GroupMetadata:
    def attributes(of: Fields, named: Mapping[str, tuple[str, int]]) -> dict[str, Any]:
        return {named[name][0]: value for name, value in of.items() if name in named}

    members = []
    for member in fields["members"]:
        data = {name: base64.b64decode(member[name]) for name in ("subscription", "assignment")}
        members.append(GroupMember(**attributes(member | data, _MEMBER)))
    return GroupMetadata(version=version, members=tuple(members), **attributes(fields, _GENERATION))


def _group_metadata_fields(value: GroupMetadata) -> Fields:
    def fields(of: GroupMetadata | GroupMember, named: Mapping[str, tuple[str, int]]) -> Fields:
        return {name: getattr(of, at) for name, (at, since) in named.items() if value.version >= since}

    members = []
    for member in value.members:
        data = {
            name: base64.b64encode(getattr(member, name)).decode() for name in ("subscription", "assignment")
        }
        members.append(fields(member, _MEMBER) | data)
    return fields(value, _GENERATION) | {"members": members}
