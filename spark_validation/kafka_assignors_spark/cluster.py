"""A live cluster: quiet clients, one kind of error, and the topics as its brokers know them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from kafka_assignors.group import Topic
from kafka_assignors_spark.catalogue import Catalogue, CatalogueEntry

__all__ = ["SourceError", "admin_config", "live_catalogue", "silent_logger"]


class SourceError(RuntimeError):
    """The cluster cannot be read as asked: one line that says why."""


def admin_config(servers: str, config: Mapping[str, str], errors: list[str]) -> dict[str, Any]:
    """Properties of a quiet admin client whose latest trouble is appended to `errors`."""
    return {
        **config,
        "bootstrap.servers": servers,
        "error_cb": lambda error: errors.append(error.str()),
        "logger": silent_logger(),
    }


def silent_logger() -> logging.Logger:
    """librdkafka's log goes nowhere: what matters of it is part of our errors."""
    logger = logging.getLogger("kafka_assignors_spark.librdkafka")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    return logger


def live_catalogue(
    bootstrap_servers: str, config: Mapping[str, str], topics: Iterable[str], timeout_seconds: float
) -> Catalogue:
    """The topics of a live cluster as they are now, taken to have been so all along; missing ones are left
    out.

    Raises `SourceError` if the cluster does not answer.
    """
    from confluent_kafka import KafkaError, KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient

    names = sorted(set(topics))
    if not names:
        return Catalogue(())
    errors: list[str] = []
    admin = AdminClient(admin_config(bootstrap_servers, config, errors))
    entries = []
    request = admin.describe_topics(TopicCollection(names), request_timeout=timeout_seconds)
    for name, future in request.items():
        try:
            description = future.result()
        except KafkaException as error:
            if error.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION):
                continue
            raise SourceError(f"cannot describe topic {name!r}: {error.args[0].str()}") from None
        racks = tuple(
            frozenset(node.rack for node in partition.replicas if node.rack)
            for partition in sorted(description.partitions, key=lambda partition: partition.id)
        )
        topic = Topic(name, len(racks), racks if any(racks) else None)
        entries.append(CatalogueEntry(None, str(description.topic_id), topic))
    return Catalogue(entries)
