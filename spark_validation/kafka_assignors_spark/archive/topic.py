"""The archived topic: whose records an archive holds, and how long its brokers keep them.

An archive is of one topic of one cluster. Its manifest names both; it is written once, and every later run is
compared with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from kafka_assignors_confluent import Connection, NotAuthorizedError
from kafka_assignors_spark.archive.result import ArchiveError, ArchiveOptions
from kafka_assignors_spark.jobs.directory import Directory
from kafka_assignors_spark.live_cluster import TopicIdentity, identify_topic, source_errors
from kafka_assignors_spark.options import MANIFEST

__all__ = [
    "SAFE_LAG_MS",
    "agree",
    "compaction_warnings",
    "identify",
    "require_same",
    "require_whole",
]

FORMAT = 1


def agree(folder: Directory, found: TopicIdentity) -> bool:
    """Whether an archive is there that is of this topic; an empty folder becomes one.

    `ArchiveError` if what is there is an archive of something else, or no archive.
    """
    if folder.exists(MANIFEST):
        require_same(folder.path, _read_manifest(folder), found)
        return True
    if foreign := [name for name in folder.names("") if name != "_archive"]:
        raise ArchiveError(
            f"{folder.path}: {', '.join(foreign[:3])} is there already, and no {MANIFEST}: this is not an "
            "archive; give a folder of its own"
        )
    folder.write(MANIFEST, json.dumps({"format": FORMAT, **asdict(found)}, indent=1) + "\n")
    return False


def _read_manifest(folder: Directory) -> TopicIdentity:
    where = folder.at(MANIFEST)
    try:
        read: dict[str, Any] = json.loads(folder.read(MANIFEST))
        number = read["format"]
        if number != FORMAT:
            raise ArchiveError(f"{where}: format {number!r}, and this version knows {FORMAT}")
        return TopicIdentity(**{field.name: read[field.name] for field in fields(TopicIdentity)})
    except (ValueError, TypeError, KeyError) as error:
        raise ArchiveError(f"{where}: not the manifest of an archive: {error!r}") from None


def require_same(where: str, archived: TopicIdentity, found: TopicIdentity) -> None:
    """`ArchiveError` if `found` is not what the archive at `where` is of."""
    if archived.cluster_id != found.cluster_id:
        raise ArchiveError(
            f"{where} is the archive of cluster {archived.cluster_id}, and this is cluster "
            f"{found.cluster_id}: give each cluster a folder of its own"
        )
    if archived.topic != found.topic:
        raise ArchiveError(
            f"{where} is the archive of topic {archived.topic}, not of {found.topic}: "
            "give each a folder of its own"
        )
    if archived.topic_id != found.topic_id:
        raise ArchiveError(
            f"topic {found.topic} was created anew since {where} was begun (its id was {archived.topic_id}, "
            f"and is {found.topic_id}): offsets start over, so begin another archive; this one stays readable"
        )
    if archived.partitions != found.partitions:
        raise ArchiveError(
            f"topic {found.topic} has {found.partitions} partitions, and had {archived.partitions} when "
            f"{where} was begun: groups live in other partitions now, so begin another archive; this one "
            "stays readable"
        )


def require_whole(where: str, topic: str, archived: Mapping[int, int], ends: Mapping[int, int]) -> None:
    """`ArchiveError` if the log of a partition ends before the offset up to which it is archived.

    `archived` and `ends` are next offsets by partition; `archived` is from before `ends` were asked for. New
    records take the offsets of those that are gone, so to wait until the log is long enough would skip them.
    """
    for partition, end in sorted(ends.items()):
        if end < archived[partition]:
            raise ArchiveError(
                f"{topic}[{partition}]: the log ends at offset {end}, and {where} has it up to "
                f"{archived[partition]}: the log was truncated (an unclean leader election, or a broker that "
                "lost its disk), and other records get these offsets now; begin another archive; this one "
                "stays readable"
            )


SAFE_LAG_MS = 24 * 3_600_000
"""With less than a day, an archiver that stops in the evening has lost history by the morning."""

_SUGGESTED_LAG_MS = 7 * 24 * 3_600_000


def identify(options: ArchiveOptions) -> TopicIdentity:
    """The cluster and the topic; `SourceError` if the cluster does not tell, or there is no such topic."""
    with source_errors():
        return identify_topic(_connection(options), options.topic)


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
