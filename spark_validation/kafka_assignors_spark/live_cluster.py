"""A live cluster for the jobs and the watch: the offsets topic, its offsets and records, one kind of error,
and the brokers' topics. It needs confluent-kafka, and neither Spark nor pyarrow.

The admin client, its errors and the description of topics are those of `kafka_assignors_confluent`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kafka_assignors.group import Topic, some_of
from kafka_assignors_confluent import (
    ClusterError,
    Connection,
    describe_topics,
    replica_racks,
    silent_logger,
    topic_of,
)
from kafka_assignors_spark.catalogue import Catalogue, CatalogueEntry

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_SHOWN_TOPICS = 5


class SourceError(RuntimeError):
    """The cluster cannot be read as asked: one line that says why."""


class NoTopicError(SourceError):
    """There is no offsets topic: the cluster never had a group."""


class NoLeaderError(SourceError):
    """A partition has no leader that answers now."""


@contextlib.contextmanager
def source_errors() -> Iterator[None]:
    """Turn every `ClusterError` into a `SourceError`, which jobs and Spark's workers report."""
    try:
        yield
    except ClusterError as error:
        raise SourceError(str(error)) from error


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """A topic as its brokers describe it now.

    `complete` says that the rack of every replica is known. The rack of a broker that is down is not known.
    """

    topic: Topic
    complete: bool

    def changed(self, known: CatalogueEntry | None, now: datetime) -> CatalogueEntry | None:
        """The entry from `now` on, after the latest `known` one; None if that still holds.

        The first entry holds for all times. Unknown racks are no change.
        """
        if known is None:
            return CatalogueEntry(None, self.topic)
        before, topic = known.topic, self.topic
        same_racks = not self.complete or before.replica_racks == topic.replica_racks
        same = (before.id, before.partitions) == (topic.id, topic.partitions) and same_racks
        return None if same else CatalogueEntry(now, topic)


def describe_offsets_topic(connection: Connection, topic: str) -> Any:
    """confluent-kafka's description of the offsets topic, which is never created.

    `NoTopicError` if it does not exist, `SourceError` if it is hidden, `ClusterError` for other errors.
    """
    described = describe_topics(connection, [topic])
    if topic in described.found:
        return described.found[topic]
    if topic in described.hidden:
        raise _not_readable(topic, connection.servers)
    raise NoTopicError(
        f"there is no topic {topic!r} at {connection.servers}, so no consumer group has ever been there: "
        f"{described.refused[topic]}"
    )


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """The topic whose records are read, with its id and its cluster."""

    cluster_id: str
    topic: str
    topic_id: str
    partitions: int


def identify_topic(connection: Connection, topic: str) -> TopicIdentity:
    """`SourceError` if there is no such topic, `ClusterError` if the cluster does not tell."""
    request = connection.admin.describe_cluster(request_timeout=connection.timeout_s)
    cluster = connection.result("cannot describe the cluster", request)
    described = describe_offsets_topic(connection, topic)
    return TopicIdentity(str(cluster.cluster_id), topic, str(described.topic_id), len(described.partitions))


def list_offsets(
    connection: Connection, topic: str, partitions: Iterable[int], wait_s: float
) -> dict[int, tuple[int, int]]:
    """The earliest and the latest offset of each partition; uncommitted records count too.

    `NoLeaderError` if a partition has no leader now, `ClusterError` for other errors.
    """
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import OffsetSpec  # pyright: ignore[reportPrivateImportUsage]

    what, numbers = f"cannot read the offsets of topic {topic!r}", tuple(partitions)

    def ends(spec: Any) -> dict[int, int]:
        futures = connection.admin.list_offsets(
            {TopicPartition(topic, partition): spec for partition in numbers},
            # Group records belong to no transaction: neither a hanging nor an aborted one hides them.
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            request_timeout=wait_s,
        )
        found: dict[int, int] = {}
        for asked, future in futures.items():
            offset = connection.result(what, future, f"Describe on Topic {topic!r}").offset
            if offset < 0:
                # The client's result for a partition whose leader has just gone, without an error.
                place = f"{topic}[{asked.partition}]"
                raise NoLeaderError(f"{what}: {place} has no leader that answers; try again")
            found[asked.partition] = offset
        return found

    earliest = ends(OffsetSpec.earliest())  # type: ignore[no-untyped-call]
    latest = ends(OffsetSpec.latest())  # type: ignore[no-untyped-call]
    return {number: (earliest[number], latest[number]) for number in numbers}


def reader_config(
    bootstrap_servers: str, config: Mapping[str, str], on_error: Callable[[KafkaError], None]
) -> dict[str, Any]:
    """librdkafka's properties for a consumer that assigns itself partitions of the topic.

    It joins no group and commits nothing. The end of a partition, and an offset that is gone, are errors.
    `config` overrides only the properties for speed.
    """
    return {
        # The default back-off after a full queue costs four times the wall time.
        "fetch.queue.backoff.ms": 10,
        "fetch.wait.max.ms": 50,
        **config,
        "bootstrap.servers": bootstrap_servers,
        "group.id": "kafka-assignors-unused",  # librdkafka requires one; no request contains it
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
        "isolation.level": "read_uncommitted",
        "error_cb": on_error,
        "logger": silent_logger(),
    }


def _not_readable(topic: str, servers: str) -> SourceError:
    # Each request gives the same text, since a watch tells each text once.
    return SourceError(
        f"cannot read topic {topic!r} at {servers}: this principal needs Read on Topic {topic!r}"
    )


def is_end(message: Message, topic: str, servers: str) -> bool:
    """Whether an error message says that its partition has no more records for now.

    False for a harmless error; `SourceError` for all others.
    """
    from confluent_kafka import KafkaError

    error = message.error()
    assert error is not None
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return False  # librdkafka looks up the coordinator of the unused group
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise _not_readable(topic, servers)
    raise SourceError(f"{topic}[{message.partition()}]: {error.str()}")


def live_catalogue(
    bootstrap_servers: str, config: Mapping[str, str], topics: Iterable[str], timeout_seconds: float
) -> tuple[Catalogue, str]:
    """The current topics of a live cluster, as if they had never changed, and a warning, or "".

    Missing topics are left out, and hidden ones too, which the warning names. `SourceError` if the cluster
    does not answer.
    """
    names = sorted(set(topics))
    if not names:
        return Catalogue(()), ""
    with source_errors():
        described = describe_topics(Connection(bootstrap_servers, config, timeout_seconds), names)
    found = described.found.items()
    catalogue = Catalogue(CatalogueEntry(None, topic_of(name, description)) for name, description in found)
    return catalogue, hidden_topics_warning(described.hidden, "history")


def live_topics(
    bootstrap_servers: str, config: Mapping[str, str], timeout_seconds: float
) -> Iterator[LiveTopic]:
    """All topics of a live cluster that this principal may describe, without the brokers' own.

    `SourceError` if the cluster does not answer.
    """
    with source_errors():
        connection = Connection(bootstrap_servers, config, timeout_seconds)
        described = describe_topics(connection, connection.topic_names()).found
    racks = {name: list(replica_racks(one)) for name, one in described.items() if not one.is_internal}
    has_racks = any(rack for replicas in racks.values() for each in replicas for rack in each)
    for name, replicas in racks.items():
        complete = not has_racks or all(rack for each in replicas for rack in each)
        yield LiveTopic(topic_of(name, described[name]), complete)


def hidden_topics_warning(names: set[str], where: str) -> str:
    """A warning about hidden topics, with the right that shows them; "" without any."""
    if not names:
        return ""
    shown = some_of([*map(repr, sorted(names))], _SHOWN_TOPICS)
    return (
        f"topics of the {where} are hidden: their partitions are taken from the records, and their racks are "
        f"unknown; this principal needs Describe on Topic {shown}"
    )
