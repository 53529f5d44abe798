"""Metadata of topics: how a leader gets and reads them, and what makes a member rejoin when they change.

aiokafka compares the partition counts of what a member watches. Under a strategy that follows racks those of
all replicas are compared as well: see `kafka_assignors.leader_bytes.RackWatch`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

from aiokafka.errors import KafkaError

from kafka_assignors.group import Topic
from kafka_assignors.leader_bytes import MOST_MISSING_TOPICS, RackWatch, topics_from, watched_topics

REFRESH_TIMEOUT_S = 1.0
"""How long the group waits for newer metadata of topics that the leader knows already.

A broker that does not answer is no reason to let the group stand still. What arrives later makes the leader
rejoin.
"""


async def watch(coordinator: Any, topics: Iterable[str]) -> None:
    """Have the leader watch the topics of the group, but for most of those that do not exist.

    If many are unknown, one request for all topics of the cluster tells which exist: its response has no
    error for each of the others.
    """
    topics, client = frozenset(topics), coordinator._client
    unknown = topics.difference(coordinator._cluster._partitions)
    knows_all = coordinator._subscription.subscribed_pattern is not None
    if len(unknown) > MOST_MISSING_TOPICS and not knows_all:
        with suppress(KafkaError):  # Those that exist are unknown then, until the next rebalance.
            unknown = unknown.difference((await client.fetch_all_metadata())._partitions)
    own = coordinator._subscription.subscription.topics
    coordinator._group_subscription = set(watched_topics(topics, unknown, own))


async def refresh(coordinator: Any, topics: Iterable[str]) -> None:
    """Get the metadata of all topics of the group, which the leader watches from here on."""
    client = coordinator._client
    await watch(coordinator, topics)
    if coordinator._subscription.subscribed_pattern:
        # Such a member has asked for the metadata of all topics just before it joined.
        await client._maybe_wait_metadata()
        return
    learning = client.set_topics(coordinator._group_subscription)
    if learning.done():  # It knows them all: perhaps since five minutes ago, and partitions were added since.
        await asyncio.wait([client.force_metadata_update()], timeout=REFRESH_TIMEOUT_S)
    else:
        await learning


def known_topics(cluster: Any, watch: RackWatch) -> Callable[[Iterable[str]], list[Topic]]:
    """A function that returns the client's current topics by name; another thread may call it."""
    racks = watch.see((broker.nodeId, broker.rack) for broker in cluster.brokers())
    partitions = cluster._partitions
    return lambda names: topics_from(partitions, racks, attrgetter("replicas"), names)


def topics_of(cluster: Any, names: Iterable[str]) -> list[Topic]:
    """Those of the named topics that the client has metadata of."""
    return known_topics(cluster, RackWatch())(names)


def follow_racks(coordinator: Any, following: bool) -> RackWatch:
    """Have changed replica racks count as changed metadata, or no longer; what it knows of racks is kept."""
    watch: RackWatch | None = getattr(coordinator, "_kafka_assignors_racks", None)
    if watch is None:
        watch = coordinator._kafka_assignors_racks = RackWatch()
        coordinator._get_metadata_snapshot = partial(
            _snapshot, coordinator, coordinator._get_metadata_snapshot, watch
        )
    watch.following = following
    return watch


def _snapshot(coordinator: Any, stock_snapshot: Callable[[], Mapping[str, int]], watch: RackWatch) -> Any:
    """For each watched topic, the value that makes the member rejoin if it changes."""
    partition_counts = stock_snapshot()
    if not watch.following:
        return partition_counts
    topics = known_topics(coordinator._cluster, watch)(partition_counts)
    racks = {topic.name: topic.replica_racks for topic in topics}
    return {name: racks.get(name) or count for name, count in partition_counts.items()}


def watch_topics_if_static(coordinator: Any, *, racks: bool) -> None:
    """Have a static member, once it was assigned, rejoin when partitions are added to its topics.

    A static member that was the leader still is after a restart, but the versions of JoinGroup that aiokafka
    speaks do not tell it. It takes itself for a follower, no member watches the topics, and added partitions
    would have no consumer until the next rebalance. So every static member watches its own topics, and with
    `racks` those of their replicas.
    """
    if coordinator._group_instance_id is None or coordinator._group_subscription is not None:
        return
    coordinator._group_subscription = set(coordinator._subscription.subscription.topics)
    follow_racks(coordinator, racks)
    coordinator._metadata_snapshot = coordinator._get_metadata_snapshot()


def assign_by_what_is_known(coordinator: Any, generation: int) -> None:
    """Remember what of the metadata the leader of this generation assigns by: what the client knows now."""
    snapshot = coordinator._metadata_snapshot = coordinator._get_metadata_snapshot()
    coordinator._kafka_assignors_assigned_by = generation, snapshot


def rejoin_if_topics_changed(coordinator: Any) -> None:
    """Have a leader, once it was assigned, rejoin if metadata have changed since it began to assign.

    `_metadata_snapshot` does not tell: it follows what arrives, and the rejoin that aiokafka asks for then is
    forgotten if SyncGroup is not sent yet.
    """
    generation, assigned_by = getattr(coordinator, "_kafka_assignors_assigned_by", (None, None))
    if coordinator._group_subscription is None or generation != coordinator.generation:
        return
    if coordinator._get_metadata_snapshot() != assigned_by:
        coordinator.request_rejoin()
