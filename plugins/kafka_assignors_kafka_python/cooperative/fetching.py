"""What is fetched: the assigned partitions that the fetcher may touch, where to begin with added ones, and
the fetcher, which can be woken up: the user's thread waits for that in `poll`, besides records.

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
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kafka.errors import KafkaTimeoutError, NoOffsetForPartitionError
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance.events import Partition, Partitions
from kafka_assignors_kafka_python._v3 import Fetcher, SubscriptionState, TopicPartitionState

if TYPE_CHECKING:
    from kafka_assignors_kafka_python.cooperative.coordinator import CooperativeCoordinator

Wanted: TypeAlias = Mapping[TopicPartition, object]
"""Partitions with their states, as `missing_positions` gives them."""


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
        """The partitions without a position, each with its state: one that left and came back has another."""
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


class Positions:
    """Looks up positions for one coordinator."""

    def __init__(self, coordinator: CooperativeCoordinator, subscription: Any) -> None:
        self._coordinator = coordinator
        self._subscription = subscription
        self._lookup: Any = None

    def look_up(self, deliverable: Partitions) -> None:
        """Take the positions that a lookup found, or begin the next lookup. Raises the error of a lookup.

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


class _Leader(NamedTuple):
    topic_id: Any
    epoch: int
    id: int


class CooperativeFetcher(Fetcher):  # type: ignore[misc]
    """kafka-python's fetcher, whose `fetch_records` returns early after a `wake`."""

    _fetch_futures: Any
    _next_partition_records: Any
    _reset_task: Any
    _validation_task: Any
    _subscriptions: CooperativeSubscriptionState

    def __init__(self, stock: Any, **settings: Any) -> None:
        """`stock` is the fetcher that this one replaces, before it is used."""
        super().__init__(stock._client, stock._subscriptions, **{**settings, "metrics": None})
        self._sensors = stock._sensors  # A metric can be registered once.
        self._under_way: list[Any] = []
        self._is_woken = False
        self._woken = Future()
        self._leaders: dict[TopicPartition, _Leader] = {}
        """The newest leader of each partition that metadata or fetches have named."""
        self._manager.cluster.add_listener(self._keep_newer_leaders)

    def wake(self) -> None:
        """Have the user's thread look what there is to do."""
        self._is_woken = True  # Before the future is read: see `_next_wakeup`.
        if not self._woken.is_done:
            self._woken.success(None)

    def reset_wakeup(self) -> None:
        """The user's thread is about to look: every later `wake` makes it look again."""
        self._is_woken = False

    def _next_wakeup(self) -> Any:
        """What the next wait waits for: done by a `wake`, or at once if there was one since the last look.

        Each wait has a future of its own: one that outlasted the waits would keep the callbacks of all.
        """
        woken = self._woken = Future()
        if self._is_woken:  # After the future is in its place, so that no `wake` falls between the two.
            woken.success(None)
        return woken

    def reset_offsets_if_needed(self, timeout_ms: float | None = None) -> Any:
        """Look up where to begin, if that is not known, without waiting; a future, or None."""
        earlier = self._reset_task
        reset = super().reset_offsets_if_needed(timeout_ms)
        if self._reset_task is not earlier:
            # If it ends after `_send_fetches_async` has looked, `fetch_records` does not see it any more.
            self._reset_task.add_both(lambda _: self.wake())
        return reset

    @property
    def is_validating(self) -> bool:
        """Whether positions are being validated (KIP-320), whose end does not call `wake`."""
        return bool(self._subscriptions.partitions_in_validation())

    def _keep_newer_leaders(self, cluster: Any) -> None:
        """Put back the leaders that metadata have replaced by those of older epochs.

        A broker that is behind names such. kafka-python takes them over, and prefers to ask a broker that
        leads nothing, such as one that was restarted. Leaders refuse older epochs.
        """
        known, self._leaders = self._leaders, {}
        for topic in cluster.topics(exclude_internal_topics=False):
            topic_id = cluster.topic_id(topic)
            for number in cluster.partitions_for_topic(topic) or ():
                tp = TopicPartition(topic, number)
                before = known.get(tp)
                if before and before.topic_id == topic_id and cluster.broker_metadata(before.id) is not None:
                    cluster.update_partition_leader(tp, before.id, before.epoch)  # If its epoch is newer.
                self._note_leader(tp)

    def _maybe_update_current_leader(self, tp: TopicPartition, partition_data: Any) -> None:
        super()._maybe_update_current_leader(tp, partition_data)
        self._note_leader(tp)

    def _note_leader(self, tp: TopicPartition) -> None:
        cluster = self._manager.cluster
        topic_id, epoch = cluster.topic_id(tp.topic), cluster.leader_epoch_for_partition(tp)
        # Without its id, a topic that was created again cannot be told from the old one.
        if topic_id is not None and epoch is not None and epoch >= 0:
            self._leaders[tp] = _Leader(topic_id, epoch, cluster.leader_for_partition(tp))

    def validate_offsets_if_needed(self, timeout_ms: float | None = None) -> Any:
        """Validate positions that are not being validated yet; a future, or None.

        kafka-python begins with others when every leader has answered. One that is silent, as in the restart
        of a broker, then keeps the partitions of all the others from being fetched, for up to
        `request_timeout_ms`.
        """
        earlier, self._validation_task = self._validation_task, None
        started = super().validate_offsets_if_needed(timeout_ms)
        if started is None and earlier is not None and not earlier.is_done:
            self._validation_task = earlier  # What `position` waits for.
        return self._validation_task

    async def _validate_offsets_async(self, timeout_ms: float | None = None) -> None:
        """Ask each leader once. Each `poll` looks what has to be asked again, and when."""
        state = self._subscriptions
        positions = {
            tp: position
            for tp in state.partitions_needing_validation()
            if (position := state.assignment[tp].position) is not None
        }
        now_s = time.monotonic()
        # Those without a known leader are looked at again after a pause, the others if there is no answer.
        state.validation_failed(positions.keys(), now_s + self.config["retry_backoff_ms"] / 1000)
        asked = []
        for node_id, of_node in self._group_offset_for_leader_epoch_requests(positions).items():
            state.set_validation_pending(of_node.keys(), now_s + self.config["request_timeout_ms"] / 1000)
            asked.append(self._manager.call_soon(self._validate_offsets_for_node, node_id, of_node))
        for answered in asked:
            await answered

    def fetch_records(
        self, max_records: int | None = None, update_offsets: bool = True, timeout_ms: float | None = None
    ) -> tuple[Any, bool]:
        """Records, and whether the caller has to wait before it tries again."""
        records, idle = super().fetch_records(
            max_records, update_offsets=update_offsets, timeout_ms=timeout_ms
        )
        if not idle or records or not timeout_ms:
            return records, idle
        # Nothing can be fetched. The stock consumer sleeps, for as long.
        pause_ms = min(timeout_ms, self.config["retry_backoff_ms"])
        with suppress(KafkaTimeoutError):
            self._net.run(self._manager.wait_for, self._next_wakeup(), pause_ms)
        return records, False

    def fetched_records(
        self, max_records: int | None = None, update_offsets: bool = True
    ) -> tuple[Any, bool]:
        """Records that have been fetched, and whether there are more.

        kafka-python takes back what it has put aside of a partition that was paused only if it is at work on
        no other. It takes one that it has done with for one at work, and never fetches the partition again.
        """
        if not self._next_partition_records:
            self._next_partition_records = None
        fetched: tuple[dict[Any, Any], bool] = super().fetched_records(
            max_records, update_offsets=update_offsets
        )
        return fetched

    async def _send_fetches_async(self) -> list[Any]:
        sent: list[Any] = await super()._send_fetches_async()
        self._under_way = [fetch for fetch in (*self._under_way, *sent) if not fetch.is_done]
        for fetch in sent:
            # Not for those that failed at once: kafka-python would try again and again, without a pause.
            if not fetch.is_done:
                fetch.add_both(lambda _: self.wake())
        # What `fetch_records` waits for: one future, since each wait adds callbacks to each future here.
        # A `wake` by itself would keep it from seeing that nothing is fetched.
        is_waiting = self._under_way or (self._reset_task is not None and not self._reset_task.is_done)
        self._fetch_futures = deque([self._next_wakeup()] if is_waiting else ())
        return sent

    def in_flight_fetches(self) -> bool:
        """Whether a fetch has not been answered."""
        return any(not fetch.is_done for fetch in self._under_way)
