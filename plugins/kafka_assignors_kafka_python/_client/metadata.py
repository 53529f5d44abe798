"""Topics from the client's metadata, whatever its records are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafka_assignors.group import Topic

__all__ = ["topics_from"]


def topics_from(
    partitions_by_topic: Mapping[str, Mapping[int, Any]],
    racks: Mapping[int, str],
    replicas_of: Callable[[Any], Iterable[int]],
    names: Iterable[str],
) -> list[Topic]:
    """Those of `names` that there is metadata of; `racks` are those of the brokers that have one."""
    topics = []
    for name in names:
        partitions = partitions_by_topic.get(name)
        if partitions is None:
            continue
        replica_racks = None
        if racks:
            replica_racks = tuple(
                frozenset(racks[node] for node in replicas_of(partitions[number]) if node in racks)
                for number in sorted(partitions)
            )
        topics.append(Topic(name, len(partitions), replica_racks))
    return topics
