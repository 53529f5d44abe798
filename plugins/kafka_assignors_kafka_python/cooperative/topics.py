"""The topics that make a member join again when their metadata change: for a leader, those of its group.

All of it runs on kafka-python's I/O thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from functools import partial
from operator import attrgetter
from typing import Any

from kafka import errors as Errors

from kafka_assignors.group import Topic
from kafka_assignors.messages import MOST_MISSING_TOPICS, RackWatch, topics_from, watched_topics
from kafka_assignors.rebalance import events
from kafka_assignors_kafka_python.cooperative.requests import RequestingCoordinator

_UNKNOWN_TOPICS_TIMEOUT_MS = 5000.0
"""After this time a leader assigns the topics that it knows; it rejoins when it learns of more."""

_REFRESH_TIMEOUT_MS = 1000.0
"""How long a member waits for newer metadata when an assignment has partitions that it does not know."""


class WatchingCoordinator(RequestingCoordinator):
    """kafka-python's coordinator with its watched topics: `_assignment_snapshot`, None if it watches none.

    A snapshot has the partitions of each topic; while racks are followed, those of their replicas instead
    (`RackWatch`).
    """

    _assignment_snapshot: Any
    _unknown_topics: Set[str] | None = None
    """The assigned topics of a static member that does not watch them before it has their metadata."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._racks = RackWatch()
        self._partitions_at_join: Mapping[str, Set[int]] = {}
        self._requested_before = self._requested_next = None
        super().__init__(*arguments, **settings)

    def stop_leading(self) -> None:
        self._assignment_snapshot = self._unknown_topics = None
        self._subscription.reset_group_subscription()
        self._partitions_at_join = self._partitions()

    async def know_topics_if_static(self, topics: Iterable[str]) -> None:
        """Wait for the metadata of the topics of a static member, which joins next, if they come soon.

        What is added after that is a change: see `rejoin_if_topics_changed`.
        """
        if self.group_instance_id is not None and None in map(self.partition_count, topics):
            with suppress(Errors.KafkaError):
                await self.wait_for(self._cluster.request_update(), _REFRESH_TIMEOUT_MS)

    async def watch(self, topics: Set[str], *, racks: bool, waits: bool) -> None:
        """See `Client.watch`. If many are unknown, a request for all topics tells which exist.

        The response to that has no error for each missing topic. While all members go on consuming, the
        leader does not wait for newer metadata of known topics: the request follows a fetch, which may take
        `fetch_max_wait_ms`. If they differ, the leader rejoins.
        """
        subscription, cluster = self._subscription, self._cluster
        own = subscription.subscription
        self._racks.following = racks
        subscription.group_subscribe(topics)
        unknown = topics - cluster._partitions.keys()
        asks_for_all = len(unknown) > MOST_MISSING_TOPICS
        if asks_for_all:
            cluster.need_all_topic_metadata = True
        else:
            cluster.set_topics(subscription.group_subscription())
        refreshed = self.metadata_from_now()
        if unknown and not waits:
            # A response that is on its way may have them; the next request waits for `retry_backoff_ms`.
            with suppress(Errors.KafkaError):
                await self.wait_for(cluster.request_update(), _UNKNOWN_TOPICS_TIMEOUT_MS)
            unknown = topics - cluster._partitions.keys()
        if waits or unknown:
            with suppress(Errors.KafkaError):
                await self.wait_for(refreshed, _UNKNOWN_TOPICS_TIMEOUT_MS)
        if asks_for_all:
            with subscription._lock:
                if subscription.subscription is own:  # Otherwise the user has changed it, which sets both.
                    watched = watched_topics(topics, topics - cluster._partitions.keys(), own)
                    cluster.need_all_topic_metadata = subscription.subscribed_pattern is not None
                    cluster._topics = set(watched)  # `set_topics` only adds topics

    def remember_topics(self) -> Callable[[Iterable[str]], list[Topic]]:
        self._assignment_snapshot = self._snapshot()
        return self._known_topics()

    def _known_topics(self) -> Callable[[Iterable[str]], list[Topic]]:
        racks = self._racks.see((broker.node_id, broker.rack) for broker in self._cluster.brokers())
        return partial(topics_from, self._cluster._partitions, racks, attrgetter("replica_nodes"))

    def _snapshot(self) -> Any:
        return self._build_metadata_snapshot(self._subscription, self._cluster)

    def _partitions(self) -> Mapping[str, Set[int]]:
        """The partitions of each watched topic; none of one that is missing."""
        found: Mapping[str, Set[int]] = super()._build_metadata_snapshot(self._subscription, self._cluster)
        return found

    def _build_metadata_snapshot(self, subscription: Any, cluster: Any) -> Any:
        return self._racks.snapshot(
            super()._build_metadata_snapshot(subscription, cluster), lambda names: self._known_topics()(names)
        )

    def assigned(self, partitions: events.Partitions, *, racks: bool) -> None:
        if self._assignment_snapshot is None and self.group_instance_id is not None:
            # A static leader stays the leader after a restart, but the versions of JoinGroup that are used
            # here do not tell it so. So every static member watches its own topics.
            self._racks.following = racks
            self._unknown_topics = {topic for topic, _ in partitions}
        self.rejoin_if_topics_changed()

    def rejoin_if_topics_changed(self) -> None:
        """Join again if the watched topics have changed since they were assigned."""
        if self._assignment_snapshot is None and self._unknown_topics is None:
            return
        self._metadata_snapshot = self._snapshot()
        if self._unknown_topics is not None:
            # A restarted process may get its partitions back before the metadata of its topics. When they
            # arrive, that is no change, and must not cause the rebalance that static membership avoids.
            if not all(map(self._metadata_snapshot.get, self._unknown_topics)):
                return
            were_known = all(map(self._partitions_at_join.get, self._unknown_topics))
            have_changed = were_known and self._partitions_at_join != self._partitions()
            self._unknown_topics = None
        else:
            have_changed = self._metadata_snapshot != self._assignment_snapshot
        self._assignment_snapshot = self._metadata_snapshot
        if have_changed:
            self.handle(events.RejoinRequested("topics of the group have changed"))

    def partition_count(self, topic: str) -> int | None:
        known = self._cluster.partitions_for_topic(topic)
        return None if known is None else len(known)

    async def refresh_metadata(self) -> None:
        with suppress(Errors.KafkaError):
            await self.wait_for(self.metadata_from_now(), _REFRESH_TIMEOUT_MS)

    def metadata_from_now(self) -> Any:
        """A future: metadata have arrived that were requested after this call.

        Calls share it until then: a group may rebalance faster than a broker sends metadata.
        """
        arriving = self._cluster.request_update()
        if not self._cluster.metadata_refresh_in_progress:
            return arriving
        if arriving is not self._requested_before:  # The request that is on its way was sent before.
            self._requested_before, self._requested_next = arriving, self.start(self._after, arriving)
        return self._requested_next

    async def _after(self, arriving: Any) -> None:
        await arriving
        await self._cluster.request_update()
