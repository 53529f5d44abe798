"""The topics that make a member join again when their metadata change: for a leader, those of its group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Set
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaError

from kafka_assignors.group import Topic
from kafka_assignors.messages import MOST_MISSING_TOPICS, RackWatch, topics_from, watched_topics
from kafka_assignors.rebalance import events
from kafka_assignors.rebalance.session import MOST_PAUSE_S
from kafka_assignors_aiokafka.cooperative.requests import RequestingCoordinator

_REFRESH_TIMEOUT_S = 1.0
"""How long a member waits for newer metadata of topics that it knows already.

A broker that does not answer must not stop the group. Metadata that arrive later make a leader rejoin.
"""


class WatchingCoordinator(RequestingCoordinator):
    """aiokafka's coordinator with its watched topics: the set `_group_subscription`, None if it watches none.

    aiokafka compares the partition counts of these topics; while racks are followed, those of their replicas
    are compared too (`RackWatch`).
    """

    _group_subscription: set[str] | None

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._racks = RackWatch()
        self._assigned_by: Any = None
        self._metadata_changed = asyncio.Event()
        super().__init__(*arguments, **settings)

    def stop_leading(self) -> None:
        self._group_subscription = None

    async def watch(self, topics: Set[str], *, racks: bool, waits: bool) -> None:
        """See `Client.watch`. If many are unknown, a request for all topics tells which exist.

        The response to that has no error for each missing topic. Without `waits`, a leader learns a moment
        later that a known topic has new partitions, and rejoins. While all members go on consuming, that
        costs less than a wait in every round: the request follows a fetch, which a broker answers when there
        are records or `fetch_max_wait_ms` have passed.
        """
        client = self._client
        self._racks.following = racks
        unknown = topics - self._cluster._partitions.keys()
        if len(unknown) > MOST_MISSING_TOPICS and self._subscription.subscribed_pattern is None:
            with suppress(KafkaError):  # After an error, they stay unknown until the next rebalance.
                unknown = unknown - (await client.fetch_all_metadata())._partitions.keys()
        own = self._own_topics
        self._group_subscription = set(watched_topics(topics, unknown, own))
        if self._subscription.subscribed_pattern:
            # It has requested the metadata of all topics just before it joined.
            await client._maybe_wait_metadata()
            return
        # The user may have subscribed to something else in the meantime.
        learning = client.set_topics(self._group_subscription | own)
        if not learning.done():
            await learning
            return
        update = client.force_metadata_update()  # What it knows may be five minutes old.
        if waits:
            await asyncio.wait([update], timeout=_REFRESH_TIMEOUT_S)

    @property
    def _own_topics(self) -> frozenset[str]:
        """The topics of the user; none after an `unsubscribe`."""
        subscription = self._subscription.subscription
        return frozenset() if subscription is None else frozenset(subscription.topics)

    def remember_topics(self) -> Callable[[Iterable[str]], list[Topic]]:
        # aiokafka updates `_metadata_snapshot` with the metadata, also before SyncGroup is sent.
        self._assigned_by = self._metadata_snapshot = self._get_metadata_snapshot()
        return self._known_topics()

    def _known_topics(self) -> Callable[[Iterable[str]], list[Topic]]:
        racks = self._racks.see((broker.nodeId, broker.rack) for broker in self._cluster.brokers())
        return partial(topics_from, self._cluster._partitions, racks, attrgetter("replicas"))

    def _get_metadata_snapshot(self) -> Any:
        return self._racks.snapshot(
            super()._get_metadata_snapshot(), lambda names: self._known_topics()(names)
        )

    def assigned(self, partitions: events.Partitions, *, racks: bool) -> None:
        self._metadata_changed.set()
        if self._group_subscription is not None:  # The topics may have changed since it began to assign.
            if self._get_metadata_snapshot() != self._assigned_by:
                self.request_rejoin()
        elif self._group_instance_id is not None:
            # A static leader stays the leader after a restart, but the versions of JoinGroup that aiokafka
            # uses do not tell it so. So every static member watches its own topics.
            self._group_subscription = set(self._own_topics)
            self._racks.following = racks
            self.remember_topics()

    def partition_count(self, topic: str) -> int | None:
        known = self._cluster.partitions_for_topic(topic)
        return None if known is None else len(known)

    async def refresh_metadata(self) -> None:
        await asyncio.wait([self._client.force_metadata_update()], timeout=_REFRESH_TIMEOUT_S)

    async def ask_for_missing_topics(self) -> None:
        """While a topic that it watches is missing, ask for it again and again, as Java does.

        aiokafka itself asks every `metadata_max_age_ms`, five minutes by default.
        """
        while True:
            pause_s = self._retry_backoff_ms / 1000
            while missing := frozenset(self._group_subscription or ()).difference(self._cluster._partitions):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, MOST_PAUSE_S)
                if await _any_exists(self._client, missing):
                    await self._client.force_metadata_update()
            self._metadata_changed.clear()
            await self._metadata_changed.wait()


class _Existing(ClusterMetadata):  # type: ignore[misc]  # aiokafka has no types
    """The names in one Metadata response. aiokafka logs an error for each missing topic of a response."""

    names: frozenset[str] = frozenset()

    def update_metadata(self, metadata: Any) -> None:
        self.names = frozenset(topic[1] for topic in metadata.topics if topic[0] == 0)


async def _any_exists(client: Any, missing: Iterable[str]) -> bool:
    """Whether a broker knows one of these topics; False if no broker answers."""
    existing = _Existing()
    with suppress(KafkaError):
        await client._metadata_update(existing, missing)
    return bool(existing.names)
