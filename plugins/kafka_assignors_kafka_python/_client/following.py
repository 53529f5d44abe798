"""What of the metadata makes a leader rejoin under a strategy that follows racks.

kafka-python compares the partitions of the topics that a member watches. Then the racks of all their replicas
are compared as well (see `kafka_assignors.leader_bytes.RackWatch`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafka_assignors.leader_bytes import RackWatch
from kafka_assignors_kafka_python._client.version import interface

__all__ = ["follow_racks"]


def follow_racks(coordinator: Any, following: bool) -> RackWatch:
    """Have changed replica racks count as changed metadata, or no longer; what it knows of racks is kept."""
    watch: RackWatch | None = getattr(coordinator, "_kafka_assignors_racks", None)
    if watch is None:
        watch = coordinator._kafka_assignors_racks = RackWatch()
        coordinator._build_metadata_snapshot = partial(_snapshot, coordinator._build_metadata_snapshot, watch)
    watch.following = following
    return watch


def _snapshot(
    stock_snapshot: Callable[[Any, Any], Mapping[str, Any]], watch: RackWatch, subscription: Any, cluster: Any
) -> Mapping[str, Any]:
    """Of each topic that the member watches, what makes it rejoin if it changes; falsy if it is unknown."""
    partitions = stock_snapshot(subscription, cluster)
    if not watch.following:
        return partitions
    topics = interface.topics_of(cluster, watch, partitions)
    racks = {topic.name: topic.replica_racks for topic in topics}
    return {name: racks.get(name) or numbers for name, numbers in partitions.items()}
