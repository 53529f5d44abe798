"""Groups as brokers describe them, from results of the admin client to values.

`describe_consumer_groups` returns types, states, instance ids and KIP-848 targets, but not the metadata that
members of a classic group have joined with. The older `list_groups` returns these bytes, but nothing of
KIP-848 groups. The two results are snapshots of different moments: a member's bytes are used only if the
member is in both. The session and rebalance timeouts of members are only in the group's record.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka_assignors.group import TopicPartitions, quoted
from kafka_assignors.wire import ProtocolError, decode_assignment
from kafka_assignors_confluent.connection import Connection, is_timeout, reason
from kafka_assignors_ops.live_group import CLASSIC, CONSUMER, Coordinator, LiveGroup, LiveMember

_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}

_LONGEST_ASSIGNMENT = 400_000
"""librdkafka refuses more than 100,000 partitions of a topic, which take four bytes each."""

_NOT_OF_CONSUMERS = "is listed, and not described as a consumer group: it is a share or a streams group"

_FEW_GROUPS = 5
"""Up to this many groups get one `list_groups` request each; for more, one request reads all groups."""


def state_name(described: Any) -> str:
    """Kafka's name for the state of a listed or described group."""
    state = getattr(described, "state", None)
    return _STATES.get(getattr(state, "name", ""), "Unknown")


def type_name(described: Any) -> str:
    """`classic`, `consumer` or `unknown`."""
    name = getattr(getattr(described, "type", None), "name", "UNKNOWN").lower()
    return name if name in (CLASSIC, CONSUMER) else "unknown"


def describe_groups(connection: Connection, ids: Sequence[str], *, skip_hidden: bool) -> list[LiveGroup]:
    """These groups without topics and offsets.

    A group that cannot be described has the reason in `error`, or in `problems` if the older request shows
    its members. If `skip_hidden`, a group that this principal may not describe is left out. Raises
    `UnreachableError` if no group is answered for.
    """
    from confluent_kafka import KafkaError

    raw, problem = _raw_groups(connection, ids)
    # librdkafka decodes assignments when it describes a group: bytes that do not decode end this process, or
    # the request. A member that sends such bytes between the two requests is not recognised.
    undecodable = {group for group, found in raw.items() if not _is_decodable(found)}
    asked = [group for group in ids if group not in undecodable]
    described: Mapping[str, Any] = {}
    if asked:
        described = connection.gather(
            connection.admin.describe_consumer_groups(asked, request_timeout=connection.timeout_s)
        )
    shown = []
    for group in ids:
        found: Any = described.get(group)
        from_list = raw.get(group)
        if group in undecodable:
            shown.append(_listed_group(from_list, "a member's assignment does not decode"))
        elif hasattr(found, "members"):
            of_members = problem if found.members and type_name(found) != CONSUMER else None
            if from_list is not None and state_name(found) == "Dead":
                of_members = _NOT_OF_CONSUMERS
            shown.append(_group(found, from_list, of_members))
        elif from_list is not None and from_list.state not in ("", "Dead"):
            shown.append(_listed_group(from_list, connection.explained(found)))
        elif is_timeout(found) and not raw and not any(hasattr(one, "members") for one in described.values()):
            raise connection.failure(f"cannot describe group {quoted(group)}", found)
        elif not skip_hidden or found.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            why = connection.explained(found, f"Describe on Group {quoted(group)}")
            error = f"cannot describe group {quoted(group)}: {why}"
            shown.append(LiveGroup(group, "unknown", "Unknown", error=error, problems=(error,)))
    return shown


def _is_decodable(raw: Any) -> bool:
    try:
        for member in raw.members:
            if len(member.assignment) > _LONGEST_ASSIGNMENT:
                return False
            if member.assignment:
                decode_assignment(member.assignment)
    except ProtocolError:
        return False
    return True


def _listed_group(raw: Any, why: str) -> LiveGroup:
    """A classic group of `list_groups` alone; `why` says why it is not described."""
    settled = raw.state in ("Stable", "Empty")
    members = (
        LiveMember(
            member.id,
            member.client_id or "",
            (member.client_host or "").removeprefix("/"),
            assigned={} if settled else None,
        ).with_bytes(bytes(member.metadata or b""), bytes(member.assignment or b""), settled=settled)
        for member in sorted(raw.members, key=lambda member: str(member.id))
    )
    return LiveGroup(
        id=str(raw.id),
        group_type=CLASSIC,
        state=raw.state,
        protocol=raw.protocol or None,
        protocol_type=raw.protocol_type or None,
        coordinator=Coordinator(raw.broker.id, raw.broker.host, raw.broker.port),
        members=tuple(members),
        problems=(f"instance ids of members are not shown: {why}",),
    )


def _raw_groups(connection: Connection, ids: Sequence[str]) -> tuple[Mapping[str, Any], str | None]:
    """The groups that `list_groups` returns, and the reason if some are missing."""
    from confluent_kafka import KafkaException

    if not ids:
        return {}, None
    questions: Iterable[tuple[str, ...]] = [(group,) for group in ids] if len(ids) <= _FEW_GROUPS else [()]
    wanted = set(ids)
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        # `list_groups` is deprecated in favour of a call that does not return the bytes.
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
        raw_members = {}  # A rebalance came between the two snapshots: the bytes are of another assignor.
    protocol_type = "consumer" if group_type == CONSUMER else None
    if raw is not None:
        protocol_type = raw.protocol_type or None
    node = described.coordinator
    return LiveGroup(
        id=described.group_id,
        group_type=group_type,
        state=state,
        protocol=protocol,
        protocol_type=protocol_type,
        coordinator=None if node is None else Coordinator(node.id, node.host, node.port),
        members=tuple(
            _member(
                member, raw_members.get(member.member_id), settled=group_type == CONSUMER or state == "Stable"
            )
            for member in sorted(described.members, key=lambda member: str(member.member_id))
        ),
        problems=() if problem is None else (problem,),
    )


def _member(described: Any, raw: Any, *, settled: bool) -> LiveMember:
    target = described.target_assignment
    member = LiveMember(
        id=described.member_id,
        client_id=described.client_id or "",
        host=(described.host or "").removeprefix("/"),
        instance_id=described.group_instance_id or None,
        assigned=_by_topic(described.assignment.topic_partitions) if settled else None,
        target=None if target is None else _by_topic(target.topic_partitions),
    )
    if raw is None:
        return member
    return member.with_bytes(bytes(raw.metadata), bytes(raw.assignment), settled=settled)


def _by_topic(partitions: Iterable[Any]) -> TopicPartitions:
    found: dict[str, list[int]] = {}
    for one in partitions or ():
        found.setdefault(one.topic, []).append(one.partition)
    return {topic: sorted(numbers) for topic, numbers in sorted(found.items())}
