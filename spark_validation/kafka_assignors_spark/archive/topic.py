"""The archived topic as its brokers see it: which one it is, and how long its records are safe."""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors_confluent import Connection, NotAuthorizedError
from kafka_assignors_spark.archive.manifest import Manifest
from kafka_assignors_spark.archive.result import ArchiveOptions
from kafka_assignors_spark.source.cluster import describe_offsets_topic, source_errors

__all__ = ["SAFE_LAG_MS", "compaction_warnings", "identify"]

SAFE_LAG_MS = 24 * 3_600_000
"""With less than a day, an archiver that stops in the evening has lost history by the morning."""

_SUGGESTED_LAG_MS = 7 * 24 * 3_600_000


def identify(options: ArchiveOptions) -> Manifest:
    """The cluster and the topic; `SourceError` if the cluster does not tell, or there is no such topic."""
    with source_errors():
        connection = _connection(options)
        cluster = connection.result(
            "cannot describe the cluster",
            connection.admin.describe_cluster(request_timeout=connection.timeout_s),
        )
        topic = describe_offsets_topic(connection, options.topic)
    return Manifest(
        cluster_id=str(cluster.cluster_id),
        topic=options.topic,
        topic_id=str(topic.topic_id),
        partitions=len(topic.partitions),
    )


def _connection(options: ArchiveOptions) -> Connection:
    return Connection(options.bootstrap_servers, options.client_config, options.timeout_seconds)


@dataclass(frozen=True, slots=True)
class _Settings:
    """Of the topic, as the brokers apply them."""

    cleanup_policy: str
    min_compaction_lag_ms: int
    retention_ms: int


def compaction_warnings(options: ArchiveOptions) -> list[str]:
    """What to change so that records stay until they are archived; nothing if they do.

    `SourceError` if the cluster does not answer.
    """
    with source_errors():
        found = _settings(options)
    if isinstance(found, str):
        return [f"it is not known for how long {options.topic} keeps its records: {found}"]
    warnings = []
    if "compact" in found.cleanup_policy and found.min_compaction_lag_ms < SAFE_LAG_MS:
        warnings.append(
            f"min.compaction.lag.ms of {options.topic} is {found.min_compaction_lag_ms}: what the log "
            "cleaner takes while no archiver runs is lost; to keep every record for a week: kafka-configs.sh "
            f"--bootstrap-server {options.bootstrap_servers} --alter --entity-type topics --entity-name "
            f"{options.topic} --add-config min.compaction.lag.ms={_SUGGESTED_LAG_MS}"
        )
    if "delete" in found.cleanup_policy and 0 <= found.retention_ms < SAFE_LAG_MS:
        warnings.append(
            f"cleanup.policy of {options.topic} is {found.cleanup_policy} and retention.ms "
            f"{found.retention_ms}: what is deleted while no archiver runs is lost"
        )
    return warnings


def _settings(options: ArchiveOptions) -> _Settings | str:
    """The settings, or why they cannot be seen."""
    from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

    resource = ConfigResource(ResourceType.TOPIC, options.topic)
    connection = _connection(options)
    request = connection.admin.describe_configs([resource], request_timeout=connection.timeout_s)
    try:
        told = connection.result(
            "its settings are not shown",
            request[resource],
            f"DescribeConfigs on Topic {options.topic!r}",
        )
    except NotAuthorizedError as error:
        return str(error)
    return _Settings(
        cleanup_policy=str(told["cleanup.policy"].value),
        min_compaction_lag_ms=int(told["min.compaction.lag.ms"].value),
        retention_ms=int(told["retention.ms"].value),
    )
