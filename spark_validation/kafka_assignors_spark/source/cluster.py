"""A live cluster, as the jobs read it: connections, one kind of error, and topics as its brokers know them.

The admin client, its errors and the description of topics are those of `kafka_assignors_confluent`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_assignors.group import Topic, some_of
from kafka_assignors_confluent import ClusterError, Connection, describe_topics, replica_racks, topic_of
from kafka_assignors_spark.catalogue import Catalogue, CatalogueEntry

__all__ = [
    "LiveTopic",
    "SourceError",
    "describe_offsets_topic",
    "live_catalogue",
    "live_topics",
    "source_errors",
]

_SHOWN_TOPICS = 5


class SourceError(RuntimeError):
    """The cluster cannot be read as asked: one line that says why."""


@contextlib.contextmanager
def source_errors() -> Iterator[None]:
    """Every `ClusterError` becomes a `SourceError`, which is what a job, and Spark's workers, report."""
    try:
        yield
    except ClusterError as error:
        raise SourceError(str(error)) from None


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """A topic as its brokers describe it now.

    `complete` says that the rack of every replica is known. A broker that is down has none, until it is back.
    """

    topic: Topic
    complete: bool

    def entry(self, since: datetime | None) -> CatalogueEntry:
        """What the catalogue says of it, from `since` on."""
        return CatalogueEntry(since, self.topic.id, self.topic)


def describe_offsets_topic(connection: Connection, topic: str) -> Any:
    """confluent-kafka's description of the topic that has the groups' records; it is not created.

    `SourceError` if it does not exist, `ClusterError` for all else.
    """
    described = describe_topics(connection, [topic])
    if topic in described.found:
        return described.found[topic]
    if topic in described.hidden:
        raise SourceError(
            f"cannot read topic {topic!r} at {connection.servers}: "
            f"this principal needs Read on Topic {topic!r}"
        )
    raise SourceError(
        f"there is no topic {topic!r} at {connection.servers}, so no consumer group has ever been there: "
        f"{described.refused[topic]}"
    )


def live_catalogue(
    bootstrap_servers: str, config: Mapping[str, str], topics: Iterable[str], timeout_seconds: float
) -> tuple[Catalogue, str | None]:
    """The topics of a live cluster as they are now, taken to have been so all along.

    Topics that do not exist are left out, and so are hidden ones, which a warning names. `SourceError` if the
    cluster does not answer.
    """
    names = sorted(set(topics))
    if not names:
        return Catalogue(()), None
    with source_errors():
        described = describe_topics(Connection(bootstrap_servers, config, timeout_seconds), names)
    found = (topic_of(name, description) for name, description in described.found.items())
    entries = (CatalogueEntry(None, topic.id, topic) for topic in found)
    return Catalogue(entries), _hidden(described.hidden)


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


def _hidden(names: set[str]) -> str | None:
    if not names:
        return None
    shown = some_of([*map(repr, sorted(names))], _SHOWN_TOPICS)
    return (
        f"this principal may not describe {len(names)} topics of the history, {shown}: their "
        "partitions are taken from the records, and their racks are unknown; Describe on Topic shows them"
    )
