"""Our codecs in the terms of `src/JavaBytes.java`: fields to bytes and back, for comparison with Java.

No JVM is needed here: the tests of the core compare with bytes that Java wrote earlier.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from kafka_assignors import wire
from kafka_assignors.strategies import CooperativeSticky, MemberContext
from kafka_assignors.wire.consumer_protocol import encode_sticky_user_data
from kafka_assignors_replay.history.consumer_offsets import (
    ConsumerGroupRecord,
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    OffsetCommitKey,
    decode_group_metadata,
    decode_key,
)
from kafka_assignors_replay.history.kip848_records import (
    ConsumerGroupValue,
    TopicMetadata,
    decode_consumer_group_value,
)

Fields = dict[str, Any]

WRITTEN = ("subscription", "assignment", "sticky", "cooperative-sticky")
"""The kinds that our codecs write; they only read records of a broker."""


def encode_fields(kind: str, version: int, fields: Fields) -> bytes:
    """The bytes that our codecs write for these fields of one of the kinds in `WRITTEN`."""
    if kind == "sticky":
        return encode_sticky_user_data(fields["owned"], fields["generation"])
    if kind == "cooperative-sticky":
        context = MemberContext(frozenset(), generation=fields["generation"])
        return wire.encode_user_data(CooperativeSticky(), context, held=True)
    data = bytes.fromhex(fields["user_data"] or "")
    if kind == "assignment":
        return wire.encode_assignment(wire.ConsumerAssignment(version, fields["partitions"], data))
    owned, generation, rack = fields["owned"], fields["generation"], fields["rack"]
    return wire.encode_subscription(
        wire.Subscription(version, tuple(fields["topics"]), data, owned, generation, rack)
    )


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
        return _consumer_group_fields(decode_consumer_group_value(ConsumerGroupRecord(version), data))
    return _group_metadata_fields(decode_group_metadata(data))


def without_null_user_data(fields: Fields) -> Fields:
    """The fields with empty user data instead of null, as our codecs read them."""
    return fields | {"user_data": ""} if fields.get("user_data", "") is None else fields


def fields_as_read(kind: str, fields: Fields) -> Fields:
    """The fields that `decode_fields` gives for bytes of these: of some records it reads only a part."""
    read: Fields = _read_fields(fields) if kind == "consumer_group" else without_null_user_data(fields)
    return read


def comparable_bytes(kind: str, fields: Fields) -> bool:
    """Whether Java and our codecs must write the same bytes.

    Empty user data are null with our codecs; Java writes null only if it has none. Java writes the topics of
    an assignment and of user data in the order of a hash table; our codecs write them in the order of their
    names.
    """
    by_hash = {"assignment": "partitions", "sticky": "owned"}
    in_one_order = kind not in by_hash or len(fields[by_hash[kind]]) < 2
    return kind in WRITTEN and in_one_order and fields.get("user_data") != ""


def _plain(partitions: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {topic: list(numbers) for topic, numbers in partitions.items()}


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


_UNREAD = frozenset(
    {
        *("assignmentEpochs", "assignmentTimestamp", "classicMemberMetadata", "partitionMetadata"),
        *("memberEpoch", "previousMemberEpoch", "state", "assignedPartitions", "partitionsPendingRevocation"),
        *("rebalanceTimeoutMs", "timestamp", "version"),
    }
)
"""Fields of a consumer group's record that our decoder drops."""


def _read_fields(fields: Any) -> Any:
    if isinstance(fields, dict):
        return {name: _read_fields(value) for name, value in fields.items() if name not in _UNREAD}
    return [_read_fields(each) for each in fields] if isinstance(fields, list) else fields


def _consumer_group_fields(value: ConsumerGroupValue | TopicMetadata) -> Fields:
    """The fields in the terms of Java's JSON for their schemas; it omits a tagged field with its default."""
    fields = {_in_java(name): _as_in_java(field) for name, field in value._asdict().items()}
    return {name: field for name, field in fields.items() if (name, field) != ("metadataHash", 0)}


def _in_java(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def _as_in_java(value: Any) -> Any:
    if isinstance(value, TopicMetadata):
        return _consumer_group_fields(value)
    if isinstance(value, Mapping):
        return [{"topicId": topic_id, "partitions": [*numbers]} for topic_id, numbers in value.items()]
    return [_as_in_java(each) for each in value] if isinstance(value, tuple) else value
