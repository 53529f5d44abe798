"""The start positions of added partitions, looked up while the others are delivered.

kafka-python's `poll` waits for the committed offsets of what has no position. Here they are asked for on the
I/O thread, and a later poll takes what was found. It does so on the user's thread, so that an answer that
comes late never takes the place of what the user has set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from kafka.errors import NoOffsetForPartitionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance.events import Partitions

__all__ = ["Positions"]

Wanted: TypeAlias = Mapping[TopicPartition, object]
"""Partitions with what `missing_positions` tells them apart by: one that left and came back is another."""


class _Coordinator(Protocol):
    """The part of the coordinator that the lookups use."""

    def start_and_wake(self, function: Callable[..., Any], *arguments: Any) -> Any: ...
    async def fetch_committed_offsets_async(
        self, partitions: set[TopicPartition]
    ) -> Mapping[TopicPartition, OffsetAndMetadata]: ...


class Positions:
    """Looks up positions for one coordinator."""

    def __init__(self, coordinator: _Coordinator, subscription: Any) -> None:
        self._coordinator = coordinator
        self._subscription = subscription
        self._lookup: Any = None

    def look_up(self, deliverable: Partitions) -> None:
        """Take what was found, and look further. Raises what a lookup raised.

        Nothing is looked up for partitions that are not deliverable. Those that are not announced yet are
        among them: the listener may know better.
        """
        lookup = self._lookup
        if lookup is None:
            missing = self._subscription.missing_positions()
            wanted = {tp: state for tp, state in missing.items() if tp in deliverable}
            if wanted:
                self._lookup = self._coordinator.start_and_wake(self._committed, wanted)
        elif lookup.is_done:
            self._lookup = None
            if lookup.exception is not None:
                raise lookup.exception
            self._take(*lookup.value)

    async def _committed(self, wanted: Wanted) -> tuple[Wanted, Mapping[TopicPartition, OffsetAndMetadata]]:
        return wanted, await self._coordinator.fetch_committed_offsets_async(set(wanted))

    def _take(self, wanted: Wanted, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        missing = self._subscription.missing_positions()
        still_wanted = {tp for tp, state in wanted.items() if missing.get(tp) is state}
        for tp in still_wanted & committed.keys():
            self._subscription.seek(tp, committed[tp].offset)
        if uncommitted := still_wanted - committed.keys():
            if not self._subscription.has_default_offset_reset_policy():
                raise NoOffsetForPartitionError(uncommitted)
            for tp in uncommitted:
                self._subscription.request_offset_reset(tp)
