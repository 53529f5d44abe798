"""The assigned partitions: those of them that the fetcher may touch, and where to begin with added ones.

kafka-python keeps a `TopicPartitionState` for each partition that stays, through every rebalance. Two things
are added. Whether a partition may be fetched and delivered is asked of the machine each time, where
kafka-python asks the state: before a fetch, before records of it are handed out, and before each record of an
iteration. And partitions may leave while a request about them is under way.

Threads: partitions come and go on the I/O thread. They go only while the user's thread is inside `poll`,
`unsubscribe` or `close`, and waits.

The start positions of added partitions are looked up while the others are delivered. kafka-python's `poll`
waits for the committed offsets of what has no position. Here they are asked for on the I/O thread, and a
later poll takes what was found. It does so on the user's thread, so that an answer that comes late never
takes the place of what the user has set.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias

from kafka.errors import NoOffsetForPartitionError
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance.events import Partition, Partitions
from kafka_assignors_kafka_python._v3 import SubscriptionState, TopicPartitionState

Wanted: TypeAlias = Mapping[TopicPartition, object]
"""Partitions with what `missing_positions` tells them apart by: one that left and came back is another."""


class _PartitionState(TopicPartitionState):  # type: ignore[misc]
    """A partition that the group has assigned to this consumer."""

    def __init__(self, partition: Partition, may_deliver: Callable[[Partition], bool]) -> None:
        super().__init__()
        self._partition = partition
        self._may_deliver = may_deliver

    def is_fetchable(self) -> bool:
        return super().is_fetchable() and self._may_deliver(self._partition)


class CooperativeSubscriptionState(SubscriptionState):  # type: ignore[misc]
    """The subscription, and an assignment that partitions enter and leave.

    Attributes:
        may_deliver: whether records of a partition may be delivered now.
    """

    may_deliver: Callable[[Partition], bool]

    def install(self, partitions: Partitions) -> None:
        """Have these partitions and no others from now on; those that stay notice nothing."""
        with self._lock:
            for tp in self.assignment.keys() - partitions:
                del self.assignment[tp]
            # Shuffled as in kafka-python: the first ones are fetched first, in every consumer that starts.
            added = list(partitions - self.assignment.keys())
            random.shuffle(added)
            for partition in added:
                state = _PartitionState(partition, self.may_deliver)
                self.assignment[TopicPartition(*partition)] = state

    def missing_positions(self) -> dict[TopicPartition, object]:
        """The partitions of which nothing is known where to begin, each with what is told apart by identity:
        a partition that left and came back is another."""
        with self._lock:
            return {tp: state for tp, state in self.assignment.items() if state.is_missing_position()}

    def partitions_in_validation(self) -> set[TopicPartition]:
        """The partitions that are not fetched until their leader has confirmed the position (KIP-320)."""
        with self._lock:
            return {tp for tp, state in self.assignment.items() if state.awaiting_validation}

    # A join begins or ends on the I/O thread, when the user's thread may have unsubscribed already.

    def reset_group_subscription(self) -> None:
        with self._lock:
            if self.partitions_auto_assigned():
                super().reset_group_subscription()

    def group_subscribe(self, topics: Iterable[str]) -> None:
        with self._lock:
            if self.partitions_auto_assigned():
                super().group_subscribe(topics)

    # kafka-python calls these when an answer has come, with partitions that were assigned before.

    def set_reset_pending(self, partitions: Iterable[TopicPartition], next_allowed_reset_time: float) -> None:
        super().set_reset_pending(self._still_assigned(partitions), next_allowed_reset_time)

    def reset_failed(self, partitions: Iterable[TopicPartition], next_retry_time: float) -> None:
        super().reset_failed(self._still_assigned(partitions), next_retry_time)

    def set_validation_pending(
        self, partitions: Iterable[TopicPartition], next_allowed_retry_time: float
    ) -> None:
        super().set_validation_pending(self._still_assigned(partitions), next_allowed_retry_time)

    def validation_failed(self, partitions: Iterable[TopicPartition], next_allowed_retry_time: float) -> None:
        super().validation_failed(self._still_assigned(partitions), next_allowed_retry_time)

    def _still_assigned(self, partitions: Iterable[TopicPartition]) -> list[Any]:
        return [tp for tp in partitions if tp in self.assignment]


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
