"""Topics as brokers describe them, and what reads the records of the offsets topic. None of it writes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from kafka_assignors.group import Topic, is_topic_name
from kafka_assignors_confluent.connection import (
    SILENT_LOGGER,
    ClusterError,
    Connection,
    NotAuthorizedError,
    NoTopicError,
    UnreachableError,
    is_timeout,
    reason,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

_TOPICS_AT_ONCE = 200
"""How many topics one request asks for."""

_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class DescribedTopics:
    """The brokers' descriptions of some topics: `found` has confluent-kafka's `TopicDescription` by name.

    The principal may not describe the `hidden` topics, which may not exist. `refused` has the reason why a
    topic has no description: it does not exist, or its name is invalid.
    """

    found: dict[str, Any] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


def describe_topics(connection: Connection, names: Iterable[str]) -> DescribedTopics:
    """Describe topics. A member may subscribe to any string. `ClusterError` without an answer."""
    from confluent_kafka import KafkaError, TopicCollection

    # An invalid name would fail the whole request, or would be reported as hidden.
    refused = {name: "no topic can have this name" for name in names if not is_topic_name(name)}
    described = DescribedTopics(refused=refused)
    possible = [name for name in names if name not in refused]
    deadline = time.monotonic() + connection.timeout_s
    for start in range(0, len(possible), _TOPICS_AT_ONCE):
        batch = TopicCollection(possible[start : start + _TOPICS_AT_ONCE])
        ask = partial(connection.admin.describe_topics, batch, request_timeout=connection.timeout_s)
        results = connection.gather(ask())
        # A controller that goes fails at once what is on its way to it. The next metadata name another one.
        while any(map(is_timeout, results.values())) and time.monotonic() < deadline:
            time.sleep(_PAUSE_S)
            results = connection.gather(ask())
        for name, result in results.items():
            if not isinstance(result, KafkaError):
                described.found[name] = result
            elif result.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                described.hidden.add(name)
            elif is_timeout(result):
                raise connection.failure("cannot describe topics", result)
            else:
                described.refused[name] = reason(result)
    return described


def topic_of(name: str, description: Any) -> Topic:
    """The description as a `Topic`, with its id as Kafka prints it."""
    partitions = sorted(description.partitions, key=lambda partition: int(partition.id))
    racks = tuple(frozenset(node.rack for node in one.replicas if node.rack) for one in partitions)
    # librdkafka's base64 is not the URL-safe one.
    topic_id = str(description.topic_id).replace("+", "-").replace("/", "_")
    return Topic(name, len(racks), racks if any(racks) else None, topic_id)


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """A topic now. `complete`: the brokers of all its replicas are up. One that is down has no known rack."""

    topic: Topic
    complete: bool


def live_topics(connection: Connection) -> Iterator[LiveTopic]:
    """All topics that this principal may describe, without the brokers' own."""
    from confluent_kafka import KafkaException

    try:
        names = sorted(connection.admin.list_topics(timeout=connection.timeout_s).topics)
    except KafkaException as error:
        raise connection.failure("cannot list the topics", error.args[0]) from None
    described = describe_topics(connection, names).found
    found = {name: one for name, one in described.items() if not one.is_internal}
    for name, one in found.items():
        # Brokers describe each other while they are up; of one that is down, a topic has no more than the id.
        complete = all(node.host for each in one.partitions for node in each.replicas)
        yield LiveTopic(topic_of(name, one), complete)


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """The topic whose records are read, with its id and its cluster."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int


def identify_topic(connection: Connection, topic: str) -> TopicIdentity:
    """The offsets topic; `NoTopicError` if it does not exist."""
    request = connection.admin.describe_cluster(request_timeout=connection.timeout_s)
    cluster = connection.result("cannot describe the cluster", request)
    described = describe_topics(connection, [topic])
    if topic in described.hidden:
        raise _not_readable(topic, connection.servers)
    if (problem := described.refused.get(topic)) is not None:
        raise NoTopicError(
            f"there is no topic {topic!r} at {connection.servers}, so no consumer group has ever been there: "
            f"{problem}"
        )
    found = described.found[topic]
    return TopicIdentity(str(cluster.cluster_id), topic, str(found.topic_id), len(found.partitions))


def list_offsets(
    connection: Connection, topic: str, partitions: Iterable[int], wait_s: float
) -> dict[int, tuple[int, int]]:
    """The earliest and the latest offset of each partition; uncommitted records count too.

    `UnreachableError` if a partition has no leader now.
    """
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

    what = f"cannot read the offsets of topic {topic!r}"
    ends: tuple[Any, ...] = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
    found: dict[int, list[int]] = {number: [] for number in partitions}
    for end in ends:
        futures = connection.admin.list_offsets(
            {TopicPartition(topic, number): end for number in found},
            # Group records belong to no transaction: neither a hanging nor an aborted one hides them.
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=wait_s,
        )
        for asked, future in futures.items():
            offset = connection.result(what, future, f"Describe on Topic {topic!r}").offset
            if offset < 0:
                # The client's result for a partition whose leader has just gone, without an error.
                place = f"{topic}[{asked.partition}]"
                raise UnreachableError(f"{what}: {place} has no leader that answers; try again")
            found[asked.partition].append(offset)
    return {number: (first, last) for number, (first, last) in found.items()}


def open_reader(
    connection: Connection, defaults: Mapping[str, str], on_error: Callable[[KafkaError], None]
) -> Consumer:
    """A consumer that assigns itself partitions of the topic; the properties of the connection override the
    `defaults`.

    The end of a partition, and an offset that is gone, are errors.
    """
    from confluent_kafka import Consumer

    properties = {
        # The default back-off after a full queue costs four times the wall time.
        "fetch.queue.backoff.ms": 10,
        "fetch.wait.max.ms": 50,
        **defaults,
        **connection.config,
        "bootstrap.servers": connection.servers,
        "group.id": "kafka-assignors-unused",  # librdkafka requires one; no request contains it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_uncommitted",
        "error_cb": on_error,
        "logger": SILENT_LOGGER,
    }
    return connection.client(Consumer, properties)


def is_end(message: Message, topic: str, servers: str) -> bool:
    """Whether an error message says that its partition has no more records for now.

    False for a harmless error; all others are raised.
    """
    error = message.error()
    assert error is not None
    if error.name() == "TOPIC_AUTHORIZATION_FAILED":
        raise _not_readable(topic, servers)
    # librdkafka looks up the coordinator of the unused group, which this principal may not see.
    if error.name() not in ("_PARTITION_EOF", "GROUP_AUTHORIZATION_FAILED"):
        raise ClusterError(f"{topic}[{message.partition()}]: {error.str()}")
    return bool(error.name() == "_PARTITION_EOF")


def _not_readable(topic: str, servers: str) -> NotAuthorizedError:
    # Each request gives the same text, since a watch tells each text once.
    return NotAuthorizedError(
        f"cannot read topic {topic!r} at {servers}: this principal needs Read on Topic {topic!r}"
    )
