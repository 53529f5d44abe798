"""Groups as brokers describe them: from two answers of the admin client to one value.

`describe_consumer_groups` tells kinds, states, instance ids and KIP-848 targets, and hides with what bytes a
member of a classic group has joined. The older `list_groups` shows those bytes, and nothing of KIP-848
groups. Both answers are snapshots, one a moment after the other: a member's bytes are used only if the same
member is in both.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafka_assignors.group import TopicPartitions
from kafka_assignors.live_group import CLASSIC, CONSUMER, Coordinator, LiveGroup, LiveMember
from kafka_assignors.wire import ProtocolError, decode_assignment
from kafka_assignors_confluent._connection import Connection, reason

__all__ = ["describe_groups", "state_name", "type_name"]

_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}

_FEW_GROUPS = 5
"""Up to so many are asked for one by one in `list_groups`; more by asking for all groups at once."""


def state_name(described: Any) -> str:
    """The state as Kafka names it, of a listing or a description."""
    state = getattr(described, "state", None)
    return _STATES.get(getattr(state, "name", ""), "Unknown")


def type_name(described: Any) -> str:
    """`classic`, `consumer` or `unknown`."""
    name = getattr(getattr(described, "type", None), "name", "UNKNOWN").lower()
    return name if name in (CLASSIC, CONSUMER) else "unknown"


def describe_groups(connection: Connection, ids: Sequence[str], *, skip_hidden: bool) -> list[LiveGroup]:
    """These groups without topics and offsets.

    One that we may not describe is left out if `skip_hidden`, and a `NotAuthorizedError` otherwise.
    """
    from confluent_kafka import KafkaError

    futures = connection.admin.describe_consumer_groups(list(ids), request_timeout=connection.timeout_s)
    described = connection.gather(futures)
    shown = []
    for group in ids:
        found = described[group]
        if hasattr(found, "members"):
            shown.append(group)
        elif not skip_hidden or found.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise connection.failure(
                f"cannot describe group {group!r}", found, f"Describe on Group {group!r}"
            )
    classic = [
        group for group in shown if type_name(described[group]) != CONSUMER and described[group].members
    ]
    raw, problem = _raw_groups(connection, classic)
    return [
        _group(described[group], raw.get(group), problem if group in classic else None) for group in shown
    ]


def _raw_groups(connection: Connection, ids: Sequence[str]) -> tuple[Mapping[str, Any], str | None]:
    """What `list_groups` shows of classic groups, and why it shows less, if it does."""
    from confluent_kafka import KafkaException

    if not ids:
        return {}, None
    questions: Iterable[tuple[str, ...]] = [(group,) for group in ids] if len(ids) <= _FEW_GROUPS else [()]
    wanted = set(ids)
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        # It is deprecated in favour of a call that hides the bytes.
        warnings.simplefilter("ignore", DeprecationWarning)
        for question in questions:
            try:
                groups = connection.admin.list_groups(*question, timeout=connection.timeout_s)
            except (KafkaException, AttributeError) as error:
                why = reason(error.args[0]) if isinstance(error, KafkaException) else str(error)
                return found, f"subscriptions and racks are not shown: {connection.without_secrets(why)}"
            found.update({str(group.id): group for group in groups if group.id in wanted})
    return found, None


def _group(described: Any, raw: Any, problem: str | None) -> LiveGroup:
    group_type, state = type_name(described), state_name(described)
    raw_members = {member.id: member for member in raw.members} if raw is not None else {}
    protocol = described.partition_assignor or None
    if raw is not None and (raw.protocol or None) != protocol:
        raw_members = {}  # A rebalance came between the two answers; its bytes are of another assignor.
    node = described.coordinator
    return LiveGroup(
        id=described.group_id,
        group_type=group_type,
        state=state,
        protocol=protocol,
        protocol_type=(raw.protocol_type or None)
        if raw is not None
        else "consumer"
        if group_type == CONSUMER
        else None,
        coordinator=None if node is None else Coordinator(node.id, node.host, node.port),
        members=tuple(
            _member(member, raw_members.get(member.member_id), group_type == CONSUMER or state == "Stable")
            for member in sorted(described.members, key=lambda member: str(member.member_id))
        ),
        problems=() if problem is None else (problem,),
    )


def _member(described: Any, raw: Any, settled: bool) -> LiveMember:
    target = described.target_assignment
    member = LiveMember(
        id=described.member_id,
        client_id=described.client_id or "",
        host=(described.host or "").removeprefix("/"),
        instance_id=described.group_instance_id or None,
        assigned=_by_topic(described.assignment.topic_partitions) if settled else None,
        target=None if target is None else _by_topic(target.topic_partitions),
    )
    if not settled or raw is None or not raw.metadata:
        return member
    member = member.with_metadata(bytes(raw.metadata))
    if raw.assignment:
        try:
            partitions = decode_assignment(bytes(raw.assignment)).partitions
        except ProtocolError as error:
            return replace(member, assigned={}, problem=str(error))
        return replace(member, assigned={t: sorted(numbers) for t, numbers in partitions.items() if numbers})
    return member


def _by_topic(partitions: Iterable[Any]) -> TopicPartitions:
    found: dict[str, list[int]] = {}
    for one in partitions or ():
        found.setdefault(one.topic, []).append(one.partition)
    return {topic: sorted(numbers) for topic, numbers in sorted(found.items())}
