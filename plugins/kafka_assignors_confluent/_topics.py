"""Topics as the brokers of a cluster describe them: partitions, racks, and those it hides from us."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_assignors.group import Topic, is_topic_name
from kafka_assignors_confluent._connection import Connection, reason

__all__ = ["DescribedTopics", "describe_topics", "replica_racks", "topic_of"]

TOPICS_AT_ONCE = 200
"""How many topics one request asks for."""

_NO_NAME = "no topic can have this name"


@dataclass(frozen=True, slots=True)
class DescribedTopics:
    """The brokers' descriptions of some topics, by name.

    Attributes:
        found: confluent-kafka's `TopicDescription`.
        hidden: topics that exist perhaps, and that this principal may not describe.
        refused: why there is no description of a topic: it does not exist, or no topic can have its name.
    """

    found: dict[str, Any] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    refused: dict[str, str] = field(default_factory=dict)


def describe_topics(
    connection: Connection, names: Sequence[str], on_progress: Callable[[int, int], None] = lambda *_: None
) -> DescribedTopics:
    """Describe topics; none of them is created. `ClusterError` if the cluster does not answer.

    Args:
        names: any strings. A member of a group may subscribe to "" and to what no topic is called.
        on_progress: called with how many topics are done, and of how many.
    """
    described = DescribedTopics(refused={name: _NO_NAME for name in names if not is_topic_name(name)})
    # One of them refuses the whole request, or is hidden for want of the right to describe it.
    possible = [name for name in names if is_topic_name(name)]
    for start in range(0, len(possible), TOPICS_AT_ONCE):
        on_progress(start, len(possible))
        _describe(connection, possible[start : start + TOPICS_AT_ONCE], described)
    return described


def _describe(connection: Connection, names: Sequence[str], described: DescribedTopics) -> None:
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
    """The rack of each replica, partition by partition; None for a broker without one, or that is down."""
    for partition in sorted(description.partitions, key=lambda partition: int(partition.id)):
        yield [node.rack for node in partition.replicas]


def topic_of(name: str, description: Any) -> Topic:
    """The core's topic, its id as Kafka prints it."""
    racks = tuple(frozenset(rack for rack in replicas if rack) for replicas in replica_racks(description))
    # librdkafka's base64 is not the URL-safe one.
    topic_id = str(description.topic_id).replace("+", "-").replace("/", "_")
    return Topic(name, len(racks), racks if any(racks) else None, topic_id)
