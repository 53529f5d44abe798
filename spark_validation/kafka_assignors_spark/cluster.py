"""A live cluster: quiet clients, one kind of error, and the topics as its brokers know them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kafka_assignors.group import Topic
from kafka_assignors_spark.catalogue import Catalogue, CatalogueEntry

__all__ = [
    "LiveTopic",
    "SourceError",
    "admin_client",
    "live_catalogue",
    "live_topics",
    "printed_topic_id",
    "silent_logger",
]

_TOPICS_AT_ONCE = 500


class SourceError(RuntimeError):
    """The cluster cannot be read as asked: one line that says why."""


def admin_client(bootstrap_servers: str, config: Mapping[str, str], errors: list[str]) -> Any:
    """A quiet admin client whose latest trouble is appended to `errors`; `SourceError` names a wrong
    property."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    properties: dict[str, Any] = {
        **config,
        "bootstrap.servers": bootstrap_servers,
        "error_cb": lambda error: errors.append(error.str()),
        "logger": silent_logger(),
    }
    try:
        return AdminClient(properties)
    except KafkaException as error:
        raise SourceError(f"client configuration: {error.args[0].str()}") from None


def silent_logger() -> logging.Logger:
    """librdkafka's log goes nowhere: what matters of it is part of our errors."""
    logger = logging.getLogger("kafka_assignors_spark.librdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    return logger


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """A topic as its brokers describe it now.

    `complete` says that the rack of every replica is known. A broker that is down has none, until it is back.
    """

    name: str
    id: str
    replica_racks: tuple[frozenset[str], ...]
    complete: bool

    def entry(self, since: datetime | None) -> CatalogueEntry:
        """What the catalogue says of it, from `since` on."""
        racks = self.replica_racks if any(self.replica_racks) else None
        return CatalogueEntry(since, self.id, Topic(self.name, len(self.replica_racks), racks, self.id))


def printed_topic_id(topic_id: object) -> str:
    """A topic id of confluent-kafka as Kafka prints it: librdkafka's base64 is not the URL-safe one."""
    return str(topic_id).replace("+", "-").replace("/", "_")


def live_catalogue(
    bootstrap_servers: str, config: Mapping[str, str], topics: Iterable[str], timeout_seconds: float
) -> Catalogue:
    """The topics of a live cluster as they are now, taken to have been so all along; missing ones are left
    out.

    Raises `SourceError` if the cluster does not answer.
    """
    names = sorted(set(topics))
    if not names:
        return Catalogue(())
    admin = admin_client(bootstrap_servers, config, [])
    return Catalogue(topic.entry(None) for topic in _describe(admin, names, timeout_seconds))


def live_topics(
    bootstrap_servers: str, config: Mapping[str, str], timeout_seconds: float
) -> Iterator[LiveTopic]:
    """All topics of a live cluster but the brokers' own; `SourceError` if it does not answer."""
    from confluent_kafka import KafkaException

    admin = admin_client(bootstrap_servers, config, [])
    try:
        names = sorted(admin.list_topics(timeout=timeout_seconds).topics)
    except KafkaException as error:
        raise SourceError(f"cannot list the topics: {error.args[0].str()}") from None
    for start in range(0, len(names), _TOPICS_AT_ONCE):
        yield from _describe(admin, names[start : start + _TOPICS_AT_ONCE], timeout_seconds, internal=False)


def _describe(
    admin: Any, names: Sequence[str], timeout_seconds: float, *, internal: bool = True
) -> Iterator[LiveTopic]:
    from confluent_kafka import KafkaError, KafkaException, TopicCollection

    request = admin.describe_topics(TopicCollection(list(names)), request_timeout=timeout_seconds)
    found: list[tuple[str, str, list[list[str | None]]]] = []
    for name, future in request.items():
        try:
            description = future.result()
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION):
                continue
            raise SourceError(f"cannot describe topic {name!r}: {error.args[0].str()}") from None
        if internal or not description.is_internal:
            partitions = sorted(description.partitions, key=lambda partition: int(partition.id))
            replicas = [[node.rack for node in partition.replicas] for partition in partitions]
            found.append((name, printed_topic_id(description.topic_id), replicas))
    has_racks = any(rack for _, _, replicas in found for racks in replicas for rack in racks)
    for name, topic_id, replicas in found:
        complete = not has_racks or all(rack for racks in replicas for rack in racks)
        known = tuple(frozenset(rack for rack in racks if rack) for racks in replicas)
        yield LiveTopic(name, topic_id, known, complete)
