"""The assigned partitions, and those of them that the fetcher may touch.

kafka-python keeps a `TopicPartitionState` for each partition that stays, through every rebalance. Two things
are added. Whether a partition may be fetched and delivered is asked of the machine each time, where
kafka-python asks the state: before a fetch, before records of it are handed out, and before each record of an
iteration. And partitions may leave while a request about them is under way.

Threads: partitions come and go on the I/O thread. They go only while the user's thread is inside `poll`,
`unsubscribe` or `close`, and waits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from kafka.structs import TopicPartition

from kafka_assignors.rebalance.events import Partition, Partitions
from kafka_assignors_kafka_python.cooperative.compat import SubscriptionState, TopicPartitionState

__all__ = ["CooperativeSubscriptionState"]


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
