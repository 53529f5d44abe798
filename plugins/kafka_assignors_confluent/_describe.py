"""Groups, topics and settings as brokers describe them, from results of the admin client to values.

`describe_consumer_groups` returns types, states, instance ids and KIP-848 targets, but not the metadata that
members of a classic group have joined with. The older `list_groups` returns these bytes, but nothing of
KIP-848 groups. The two results are snapshots of different moments: a member's bytes are used only if the
member is in both. The session and rebalance timeouts of members are only in the group's record.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_assignors.group import Topic, TopicPartitions, is_topic_name, quoted
from kafka_assignors.live_group import CLASSIC, CONSUMER, Coordinator, LiveGroup, LiveMember
from kafka_assignors.wire import (
    GroupMetadata,
    GroupMetadataKey,
    ProtocolError,
    decode_assignment,
    decode_group_metadata,
    encode_key,
    group_partition,
)
from kafka_assignors_confluent._connection import ClusterError, Connection, is_timeout, reason

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

TOPICS_AT_ONCE = 200
"""How many topics one request asks for."""

_NO_NAME = "no topic can have this name"

_OFFSETS_TOPIC = "__consumer_offsets"
_NEWEST_RECORDS = 200_000
"""How many records to read at most: commits fill the topic, and older records are not worth the wait."""

_CANNOT_READ = f"cannot read {_OFFSETS_TOPIC}"
_READ_RIGHT = f"Read on Topic {_OFFSETS_TOPIC!r}"
_POLL_S = 0.2
_RECORDS_AT_ONCE = 2_000


# ---- groups


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


# ---- topics


@dataclass(frozen=True, slots=True)
class DescribedTopics:
    """The brokers' descriptions of some topics, by name.

    Attributes:
        found: confluent-kafka's `TopicDescription`.
        hidden: topics that this principal may not describe, and that may not exist.
        refused: the reason why a topic has no description: it does not exist, or its name is invalid.
    """

    found: dict[str, Any] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


def describe_topics(
    connection: Connection, names: Sequence[str], on_progress: Callable[[int, int], None] = lambda *_: None
) -> DescribedTopics:
    """Describe topics; none of them is created. `ClusterError` if the cluster does not answer.

    Args:
        names: any strings. A member may subscribe to "" and to other names that no topic can have.
        on_progress: called with how many topics are done, and how many there are.
    """
    described = DescribedTopics(refused={name: _NO_NAME for name in names if not is_topic_name(name)})
    # An invalid name would fail the whole request, or would be reported as hidden.
    possible = [name for name in names if is_topic_name(name)]
    for start in range(0, len(possible), TOPICS_AT_ONCE):
        on_progress(start, len(possible))
        _describe_batch(connection, possible[start : start + TOPICS_AT_ONCE], described)
    return described


def _describe_batch(connection: Connection, names: Sequence[str], described: DescribedTopics) -> None:
    from confluent_kafka import KafkaError, TopicCollection

    futures = connection.admin.describe_topics(
        TopicCollection(list(names)), request_timeout=connection.timeout_s
    )
    for name, result in connection.gather(futures).items():
        if not isinstance(result, KafkaError):
            described.found[name] = result
        elif result.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            described.hidden.add(name)
        elif result.code() in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT):
            raise connection.failure("cannot describe topics", result)
        else:
            described.refused[name] = reason(result)


def replica_racks(description: Any) -> Iterator[list[str | None]]:
    """The racks of the replicas of each partition; None for a broker that has no rack or is down."""
    for partition in sorted(description.partitions, key=lambda partition: int(partition.id)):
        yield [node.rack for node in partition.replicas]


def topic_of(name: str, description: Any) -> Topic:
    """The description as a `Topic`, with its id as Kafka prints it."""
    racks = tuple(frozenset(rack for rack in replicas if rack) for replicas in replica_racks(description))
    # librdkafka's base64 is not the URL-safe one.
    topic_id = str(description.topic_id).replace("+", "-").replace("/", "_")
    return Topic(name, len(racks), racks if any(racks) else None, topic_id)


# ---- settings of a broker


def read_broker_settings(
    servers: str, config: Mapping[str, str], names: Collection[str], timeout_s: float
) -> dict[str, str]:
    """The values of these settings on one broker of the cluster, without names that the broker does not know.

    `config` has librdkafka's properties. Raises `ClusterError`; without the right to describe the cluster's
    configuration it is a `NotAuthorizedError`.
    """
    from confluent_kafka.admin import ConfigResource, ResourceType  # pyright: ignore[reportPrivateImportUsage]

    connection = Connection(servers, config, timeout_s)
    cluster = connection.result(
        "cannot find a broker", connection.admin.describe_cluster(request_timeout=timeout_s)
    )
    resource = ConfigResource(ResourceType.BROKER, str(min(node.id for node in cluster.nodes)))
    told = connection.result(
        "cannot read the settings of a broker",
        connection.admin.describe_configs([resource], request_timeout=timeout_s)[resource],
        "DescribeConfigs on Cluster 'kafka-cluster'",
    )
    return {name: str(told[name].value) for name in names if name in told and told[name].value is not None}


# ---- the record of a group


def read_group_record(
    servers: str, config: Mapping[str, str], group: str, timeout_s: float
) -> GroupMetadata | None:
    """The newest record of a classic group; None if the last 200,000 records of its partition have none.

    `config` has librdkafka's properties. Joins no group and commits nothing. Raises `ClusterError` if the
    principal may not read the topic, after `timeout_s`, and if the record does not decode.
    """
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

    deadline = time.monotonic() + timeout_s
    connection = Connection(servers, config, timeout_s)
    futures = connection.admin.describe_topics(TopicCollection([_OFFSETS_TOPIC]), request_timeout=timeout_s)
    described = connection.result(_CANNOT_READ, futures[_OFFSETS_TOPIC], _READ_RIGHT)
    partition = group_partition(group, len(described.partitions))
    first = _offset(connection, partition, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    end = _offset(connection, partition, OffsetSpec.latest())  # type: ignore[no-untyped-call]
    value = _newest_value(
        connection, config, partition, max(first, end - _NEWEST_RECORDS), end, group, deadline
    )
    try:
        return None if value is None else decode_group_metadata(value)
    except ProtocolError as error:
        raise ClusterError(f"the record of group {group!r} does not decode: {error}") from None


def _offset(connection: Connection, partition: int, spec: object) -> int:
    from confluent_kafka import IsolationLevel, TopicPartition

    futures = connection.admin.list_offsets(
        {TopicPartition(_OFFSETS_TOPIC, partition): spec},  # type: ignore[dict-item]
        isolation_level=IsolationLevel.READ_UNCOMMITTED,
        request_timeout=connection.timeout_s,
    )
    (future,) = futures.values()
    return int(connection.result(_CANNOT_READ, future, _READ_RIGHT).offset)


def _newest_value(
    connection: Connection,
    config: Mapping[str, str],
    partition: int,
    start: int,
    end: int,
    group: str,
    deadline: float,
) -> bytes | None:
    """The value of the group's last record in this range of offsets."""
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    key, value = encode_key(GroupMetadataKey(group)), None
    consumer = Consumer(
        {
            "fetch.wait.max.ms": 50,
            **config,
            "bootstrap.servers": connection.servers,
            "group.id": "kafka-assignors-unused",  # librdkafka requires one; no request contains it
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(_OFFSETS_TOPIC, partition, start)])
        position = start
        while position < end:
            if time.monotonic() > deadline:
                raise ClusterError(f"{_OFFSETS_TOPIC} is long: timeout at offset {position} of {end}")
            for message in consumer.consume(min(_RECORDS_AT_ONCE, end - position), timeout=_POLL_S):
                error, offset = message.error(), message.offset()
                if error is None and offset is not None:
                    position = offset + 1
                    value = message.value() if message.key() == key else value
                elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                    position = end
                elif error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise connection.failure(_CANNOT_READ, error, _READ_RIGHT)
                # librdkafka retries all other errors, or they concern the unused group.
    finally:
        consumer.close()
    return value
