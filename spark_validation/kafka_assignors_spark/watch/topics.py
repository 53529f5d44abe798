"""The topics of a running cluster, as they change while it is watched."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime

from kafka_assignors_spark.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_spark.live_cluster import LiveTopic

__all__ = ["WatchedTopics"]

_MOST_ENTRIES = 8
"""The latest changes of a topic that are remembered."""

_MOST_GONE = 1_000
"""Deleted topics that are remembered: the latest records of a group may still be about them."""


class WatchedTopics:
    """Keeps the `catalogue` that all folds share, from one look at the brokers to the next."""

    def __init__(self) -> None:
        self.catalogue = Catalogue(())
        self._entries: dict[str, deque[CatalogueEntry]] = {}
        self._gone: dict[str, None] = {}

    def note(self, found: Iterable[LiveTopic], now: datetime) -> int:
        """Remember the topics that changed since the last look, and return how many they are."""
        changes = 0
        seen = set()
        for live in found:
            name = live.topic.name
            seen.add(name)
            entries = self._entries.setdefault(name, deque(maxlen=_MOST_ENTRIES))
            if not entries or live.differs_from(entries[-1]):
                entries.append(live.entry(now if entries else None))
                changes += 1
        self._gone = {name: None for name in (*self._gone, *self._entries) if name not in seen}
        for name in [*self._gone][:-_MOST_GONE]:
            del self._gone[name], self._entries[name]
        if changes:
            self.catalogue.set_entries(entry for history in self._entries.values() for entry in history)
        return changes
