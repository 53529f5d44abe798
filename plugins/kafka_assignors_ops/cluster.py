"""The groups of a running cluster, from results of the admin client to values.

`describe_consumer_groups` returns types, states and instance ids, but not the metadata that members of a
classic group have joined with. The older `list_groups` returns these bytes, but nothing of KIP-848 groups.
The two results are snapshots of different moments: a member's bytes are used only if the member is in both.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafka_assignors.group import TopicPartitions, quoted
from kafka_assignors.wire import ProtocolError, decode_assignment
from kafka_assignors_confluent.connection import Connection, NotAuthorizedError, is_timeout, reason
from kafka_assignors_confluent.topic_metadata import describe_topics, topic_of
from kafka_assignors_ops.live_group import CLASSIC, CONSUMER, LiveGroup, LiveMember

Progress = Callable[[str, int, int], None]
"""Called with the task, how many items are done, and how many there are."""

_GROUPS_AT_ONCE = 100

_FEW_GROUPS = 5
"""Up to this many groups get one `list_groups` request each; for more, one request reads all groups."""

_LONGEST_ASSIGNMENT = 400_000
"""librdkafka refuses more than 100,000 partitions of a topic, which take four bytes each."""

_STATES = {
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "STABLE": "Stable",
    "DEAD": "Dead",
    "EMPTY": "Empty",
}


def list_groups(connection: Connection) -> tuple[list[str], list[str]]:
    """The ids of the consumer groups that this principal may see, and why some may be missing.

    A group whose coordinator moves at this moment may be missing without a reason: no broker lists it.
    `ClusterError` if no broker lists its groups.
    """
    future = connection.admin.list_consumer_groups(request_timeout=connection.timeout_s)
    result = connection.result("cannot list groups", future)
    errors = [error.args[0] if isinstance(error, Exception) else error for error in result.errors or ()]
    ids = sorted(one.group_id for one in result.valid or ())
    if errors and not ids:
        raise connection.failure("cannot list groups", errors[0])
    problems = {f"not all groups are listed: {reason(error)}" for error in errors}
    if not _may_list_all(connection):
        # A broker leaves out groups that a principal may not describe, without an error.
        if not ids:
            raise NotAuthorizedError(
                "no groups are listed, and this principal may not describe the cluster: "
                "it needs Describe on Cluster 'kafka-cluster' for all groups, or on Group for some"
            )
        problems.add(
            "groups that this principal may not describe are not listed: Describe on Cluster "
            "'kafka-cluster' shows all"
        )
    return ids, [connection.without_secrets(problem) for problem in sorted(problems)]


def _may_list_all(connection: Connection) -> bool:
    """Whether a listing leaves no group out; False for a broker before Kafka 2.3, which does not tell."""
    from confluent_kafka.admin import AclOperation  # pyright: ignore[reportPrivateImportUsage]

    future = connection.admin.describe_cluster(
        include_authorized_operations=True, request_timeout=connection.timeout_s
    )
    operations = connection.result("cannot describe the cluster", future).authorized_operations
    return operations is not None and AclOperation.DESCRIBE in operations


def read_groups(
    connection: Connection,
    ids: Iterable[str],
    *,
    topics: bool = True,
    skip_hidden: bool = False,
    on_progress: Progress = lambda *_: None,
) -> tuple[LiveGroup, ...]:
    """The current state of these groups, in the order given; a group that does not exist is `Dead`.

    `topics` says whether to read the topics, too. `problems`, `hidden_topics` and `unknown_topics` of a group
    name the parts that cannot be read; `error` says why it cannot be described at all. A group that this
    principal may not describe is left out if `skip_hidden`. `ClusterError` if no broker answers.
    """
    wanted = list(dict.fromkeys(ids))
    groups: list[LiveGroup] = []
    for start in range(0, len(wanted), _GROUPS_AT_ONCE):
        on_progress("reading groups", start, len(wanted))
        batch = wanted[start : start + _GROUPS_AT_ONCE]
        groups += _describe_groups(connection, batch, skip_hidden=skip_hidden)
    if topics:
        on_progress("reading topics", 0, 0)
        groups = _with_topics(connection, groups)
    return tuple(groups)


def unreadable(connection: Connection, found: Sequence[LiveGroup]) -> str | None:
    """What is wrong with groups that the cluster does not describe, or does not have: the nearest name."""
    errors = [live.error for live in found if live.error is not None]
    dead = [live for live in found if live.state == "Dead"]
    errors += [f"group {quoted(live.id)} {problem}" for live in dead for problem in live.problems]
    unknown = [live.id for live in dead if not live.problems]
    if unknown:
        near = difflib.get_close_matches(unknown[0], list_groups(connection)[0], n=1)
        hint = (
            f"did you mean {near[0]!r}?" if near else "'kafka-assignors groups' lists those that you may see"
        )
        errors.append(f"there is no group {', '.join(map(quoted, unknown))}: {hint}")
    return "; ".join(errors) or None


def _with_topics(connection: Connection, groups: Sequence[LiveGroup]) -> list[LiveGroup]:
    described = describe_topics(connection, sorted(set().union(*(group.subscribed for group in groups))))
    topics = {name: topic_of(name, found) for name, found in described.found.items()}
    return [
        replace(
            group,
            topics={name: topics[name] for name in group.subscribed if name in topics},
            hidden_topics=group.subscribed & described.hidden,
            unknown_topics={
                name: described.refused[name] for name in sorted(group.subscribed & described.refused.keys())
            },
        )
        for group in groups
    ]


# ---- two answers about a group


def _describe_groups(connection: Connection, ids: Sequence[str], *, skip_hidden: bool) -> list[LiveGroup]:
    """These groups without topics.

    A group that cannot be described has the reason in `error`, or in `problems` if the older request shows
    its members.
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
        found, from_list = described.get(group), raw.get(group)
        if group in undecodable:
            shown.append(_listed_group(from_list, "a member's assignment does not decode"))
        elif not isinstance(found, KafkaError):
            shown.append(_described_group(found, from_list, problem))
        elif from_list is not None and from_list.state not in ("", "Dead"):
            shown.append(_listed_group(from_list, connection.explained(found)))
        elif is_timeout(found) and not raw and all(map(is_timeout, described.values())):
            raise connection.failure(f"cannot describe group {quoted(group)}", found)
        elif not skip_hidden or found.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
            why = connection.explained(found, f"Describe on Group {quoted(group)}")
            error = f"cannot describe group {quoted(group)}: {why}"
            shown.append(LiveGroup(group, "unknown", "Unknown", error=error, problems=(error,)))
    return shown


def _raw_groups(connection: Connection, ids: Sequence[str]) -> tuple[Mapping[str, Any], str | None]:
    """The groups that `list_groups` returns, and the reason if some are missing."""
    from confluent_kafka import KafkaException

    questions: Iterable[tuple[str, ...]] = [(group,) for group in ids] if len(ids) <= _FEW_GROUPS else [()]
    found: dict[str, Any] = {}
    wanted = set(ids)
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
            member.id, member.client_id or "", _host(member.client_host), assigned={} if settled else None
        )
        for member in sorted(raw.members, key=lambda member: str(member.id))
    )
    by_id = {member.id: member for member in raw.members}
    return LiveGroup(
        id=str(raw.id),
        group_type=CLASSIC,
        state=raw.state,
        protocol=raw.protocol or None,
        protocol_type=raw.protocol_type or None,
        members=tuple(_with_bytes(member, by_id[member.id], settled=settled) for member in members),
        problems=(f"instance ids of members are not shown: {why}",),
    )


def _described_group(described: Any, raw: Any, problem: str | None) -> LiveGroup:
    """A described group; `problem` says why `list_groups` does not show it."""
    group_type = described.type.name.lower()
    group_type = group_type if group_type in (CLASSIC, CONSUMER) else "unknown"
    state = _STATES.get(described.state.name, "Unknown")
    if not described.members or group_type == CONSUMER:
        problem = None
    if raw is not None and state == "Dead":
        problem = "is listed, and not described as a consumer group: it is a share or a streams group"
    protocol = described.partition_assignor or None
    protocol_type = "consumer" if group_type == CONSUMER else None
    raw_members = {}
    if raw is not None:
        protocol_type = raw.protocol_type or None
        # Else a rebalance came between the two snapshots: the bytes are of another assignor.
        if (raw.protocol or None) == protocol:
            raw_members = {member.id: member for member in raw.members}
    settled = group_type == CONSUMER or state == "Stable"
    members = (
        LiveMember(
            id=member.member_id,
            client_id=member.client_id or "",
            host=_host(member.host),
            instance_id=member.group_instance_id or None,
            assigned=_by_topic(member.assignment.topic_partitions) if settled else None,
        )
        for member in sorted(described.members, key=lambda member: str(member.member_id))
    )
    return LiveGroup(
        id=described.group_id,
        group_type=group_type,
        state=state,
        protocol=protocol,
        protocol_type=protocol_type,
        members=tuple(_with_bytes(member, raw_members.get(member.id), settled=settled) for member in members),
        problems=() if problem is None else (problem,),
    )


def _with_bytes(member: LiveMember, raw: Any, *, settled: bool) -> LiveMember:
    """The member with its subscription and assignment; a coordinator shows neither during a rebalance."""
    if raw is None or not settled or not raw.metadata:
        return member
    member = member.with_metadata(bytes(raw.metadata))
    return member.with_assignment(bytes(raw.assignment)) if raw.assignment else member


def _host(host: str | None) -> str:
    return (host or "").removeprefix("/")


def _by_topic(partitions: Iterable[Any]) -> TopicPartitions:
    found: dict[str, list[int]] = {}
    for one in partitions or ():
        found.setdefault(one.topic, []).append(one.partition)
    return {topic: sorted(numbers) for topic, numbers in sorted(found.items())}
