"""Subscription and assignment, the start positions of added partitions, and the fetcher, which can be woken
up: in `poll` the user's thread waits for records and for that.

kafka-python keeps a `TopicPartitionState` for each partition that stays, through every rebalance. Two things
are added. The machine decides each time whether a partition may be fetched and delivered: before a fetch,
before its records are delivered, and before each record of an iteration. And partitions may leave while a
request about them is under way.

Threads: partitions enter and leave on the I/O thread. They leave only while the user's thread is inside
`poll`, `unsubscribe` or `close`, and waits.

The start positions of added partitions are looked up while other partitions are delivered. kafka-python's
`poll` waits for the committed offsets of partitions without a position. Here the I/O thread requests them,
and a later poll applies them. It does so on the user's thread, so that a late response never replaces a
position that the user has set.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kafka import errors as Errors
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance.events import Partition, Partitions
from kafka_assignors_kafka_python.cooperative.inside import Fetcher, SubscriptionState, TopicPartitionState

if TYPE_CHECKING:
    from kafka_assignors_kafka_python.cooperative.coordinator import CooperativeCoordinator

Wanted: TypeAlias = Mapping[TopicPartition, object]
"""Partitions with their states, as `missing_positions` gives them."""


class _PartitionState(TopicPartitionState):  # type: ignore[misc]
    """A partition that the group has assigned to this consumer; `topic_id` is None while it is unknown."""

    def __init__(
        self, partition: Partition, may_deliver: Callable[[Partition], bool], topic_id: object
    ) -> None:
        super().__init__()
        self.topic_id = topic_id
        self._partition = partition
        self._may_deliver = may_deliver

    def is_fetchable(self) -> bool:
        return super().is_fetchable() and self._may_deliver(self._partition)


class CooperativeSubscriptionState(SubscriptionState):  # type: ignore[misc]
    """The subscription, with an assignment that partitions enter and leave.

    Attributes:
        may_deliver: whether records of a partition may be delivered now.
        topic_id: the id of a topic by its name, from the metadata; None if it is not known.
    """

    may_deliver: Callable[[Partition], bool]
    topic_id: Callable[[str], object]
    _omitted: Partitions = frozenset()

    def install(self, partitions: Partitions) -> None:
        """Replace the assignment by these partitions; those that stay keep their state."""
        with self._lock:
            if self._user_assignment:  # The listener has unsubscribed, and has assigned partitions by hand.
                return
            for tp in self.assignment.keys() - partitions:
                del self.assignment[tp]
            # Shuffled as in kafka-python, so that not every new consumer fetches the same partitions first.
            added = list(partitions - self.assignment.keys())
            random.shuffle(added)
            for partition in added:
                state = _PartitionState(partition, self.may_deliver, self.topic_id(partition[0]))
                self.assignment[TopicPartition(*partition)] = state

    def renew_recreated(self) -> frozenset[TopicPartition]:
        """Begin anew with the partitions of topics that were deleted and created again, and return them.

        Their position and their committed offset are of the old log: no other member can have committed an
        offset of the new log meanwhile. So they begin by the reset policy.
        """
        with self._lock:
            recreated = set()
            for tp, state in self.assignment.items():
                topic_id = self.topic_id(tp.topic)  # None: it is deleted, or the broker does not know it.
                if topic_id is None or not isinstance(state, _PartitionState):
                    continue
                if state.topic_id not in (None, topic_id):
                    recreated.add(tp)
                state.topic_id = topic_id
            for tp in recreated:
                new = _PartitionState(tp, self.may_deliver, self.topic_id(tp.topic))
                new.paused = self.assignment[tp].paused
                self.assignment[tp] = new
                if self.has_default_offset_reset_policy():
                    self.request_offset_reset(tp)
            return frozenset(recreated)

    def all_consumed_offsets(self) -> dict[TopicPartition, Any]:
        offsets: dict[TopicPartition, Any] = super().all_consumed_offsets()
        return {tp: offset for tp, offset in offsets.items() if tp not in self._omitted}

    @contextmanager
    def omitting(self, partitions: Partitions) -> Iterator[None]:
        """Leave these partitions out of `all_consumed_offsets`, on the user's thread."""
        self._omitted = partitions
        try:
            yield
        finally:
            self._omitted = frozenset()

    def missing_positions(self) -> dict[TopicPartition, object]:
        """The partitions without a position, with their states; a partition that came back has a new one."""
        with self._lock:
            return {tp: state for tp, state in self.assignment.items() if state.is_missing_position()}

    def partitions_in_validation(self) -> set[TopicPartition]:
        """The partitions that are not fetched until their leader has confirmed the position (KIP-320)."""
        with self._lock:
            return {tp for tp, state in self.assignment.items() if state.awaiting_validation}

    def group_subscription(self) -> set[str]:
        with self._lock:  # Both threads change it, and iterate over what this returns.
            return set(super().group_subscription())

    # A join begins or ends on the I/O thread. By then the user's thread may have unsubscribed.

    def reset_group_subscription(self) -> None:
        with self._lock:
            if self.partitions_auto_assigned():
                super().reset_group_subscription()

    def group_subscribe(self, topics: Iterable[str]) -> None:
        with self._lock:
            if self.partitions_auto_assigned():
                super().group_subscribe(topics)

    # kafka-python calls these after a response, with the partitions of the request.

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

    def look_up(self) -> None:
        """Apply the positions that a lookup found, or begin the next lookup. Raises the error of a lookup."""
        lookup = self._lookup
        if lookup is None:
            if self._wanted():
                self._lookup = self._coordinator.start_and_wake(self._committed)
        elif lookup.is_done:
            self._lookup = None
            if lookup.exception is not None:
                raise lookup.exception
            self._take(*lookup.value)

    def _wanted(self) -> Wanted:
        """Only deliverable partitions: the listener may set the positions of those that are not announced."""
        deliverable = self._coordinator.member.deliverable
        missing = self._subscription.missing_positions()
        return {tp: state for tp, state in missing.items() if tp in deliverable}

    async def _committed(self) -> tuple[Wanted, Mapping[TopicPartition, OffsetAndMetadata]]:
        """Ask until there is a response, each time for what is wanted then.

        The offset of a partition is not stable while a transaction with it is open. The partition may leave
        meanwhile, and others come.
        """
        coordinator = self._coordinator
        while not coordinator.member.closing:
            await coordinator.ensure_coordinator_ready_async()
            wanted = self._wanted()
            try:
                return wanted, await coordinator._send_offset_fetch_request(set(wanted))
            except Errors.RetriableError:  # pyright: ignore[reportAttributeAccessIssue]
                await coordinator.back_off()
        return {}, {}

    def _take(self, wanted: Wanted, committed: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        missing = self._subscription.missing_positions()
        still_wanted = {tp for tp, state in wanted.items() if missing.get(tp) is state}
        for tp in still_wanted & committed.keys():
            self._subscription.seek(tp, committed[tp].offset)
        if uncommitted := still_wanted - committed.keys():
            if not self._subscription.has_default_offset_reset_policy():
                raise Errors.NoOffsetForPartitionError(uncommitted)
            for tp in uncommitted:
                self._subscription.request_offset_reset(tp)


class _Leader(NamedTuple):
    topic_id: Any
    epoch: int
    id: int


class CooperativeFetcher(Fetcher):  # type: ignore[misc]
    """kafka-python's fetcher, whose `fetch_records` returns early after a `wake`."""

    _next_partition_records: Any
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
        self._recreated: dict[TopicPartition, list[Any]] = {}
        """Partitions of recreated topics, with the fetches that may still bring records of their old logs."""
        self.on_recreated: Callable[[Partitions], None] = lambda _: None
        self._manager.cluster.add_listener(self._keep_newer_leaders)
        self._manager.cluster.add_listener(self._leave_old_logs)

    def wake(self) -> None:
        """Wake the user's thread, which then looks for work."""
        self._is_woken = True  # Set before the future is read: see `_next_wakeup`.
        if not self._woken.is_done:
            self._woken.success(None)

    def reset_wakeup(self) -> None:
        """Forget earlier calls of `wake`: the user's thread is about to look for work."""
        self._is_woken = False

    def _next_wakeup(self) -> Any:
        """The future of the next wait: done by `wake`, at once if it was called since `reset_wakeup`.

        Each wait has a future of its own: a shared future would keep the callbacks of all waits.
        """
        woken = self._woken = Future()
        if self._is_woken:  # Read after the future is set, so that no `wake` is lost between the two.
            woken.success(None)
        return woken

    def reset_offsets_if_needed(self, timeout_ms: float | None = None) -> Any:
        """Look up missing start positions, without waiting; a future, or None."""
        earlier = self._reset_task
        reset = super().reset_offsets_if_needed(timeout_ms)
        if self._reset_task is not earlier:
            # `fetch_records` does not notice a lookup that ends after `_send_fetches_async` has checked.
            self._reset_task.add_both(lambda _: self.wake())
        return reset

    def _keep_newer_leaders(self, cluster: Any) -> None:
        """Restore leaders that metadata have replaced by leaders of an older epoch.

        A broker with stale metadata names such leaders. kafka-python accepts them, and prefers to ask a
        broker that leads no partitions, such as one that was restarted. Leaders refuse older epochs.
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

    def _leave_old_logs(self, _: Any) -> None:
        if recreated := self._subscriptions.renew_recreated():
            self._recreated.update(dict.fromkeys(recreated, self._under_way))
            self.on_recreated(frozenset(recreated))

    def _drop_records_of_old_logs(self) -> None:
        """Drop what was fetched of the old logs of recreated topics; what is of the new ones comes again."""
        for tp, fetches in list(self._recreated.items()):
            for fetch in [each for each in self._completed_fetches.copy() if each.topic_partition == tp]:
                self._completed_fetches.remove(fetch)
            if (records := self._next_partition_records) and records.topic_partition == tp:
                records.drain()
                self._next_partition_records = None
            self._paused_completed_fetches.pop(tp, None)
            self._paused_partition_records.pop(tp, None)
            if all(fetch.is_done for fetch in fetches):
                del self._recreated[tp]

    def _maybe_update_current_leader(self, tp: TopicPartition, partition_data: Any) -> None:
        super()._maybe_update_current_leader(tp, partition_data)
        self._note_leader(tp)

    def _note_leader(self, tp: TopicPartition) -> None:
        cluster = self._manager.cluster
        topic_id, epoch = cluster.topic_id(tp.topic), cluster.leader_epoch_for_partition(tp)
        # Without the id, a recreated topic cannot be told from the old one.
        if topic_id is not None and epoch is not None and epoch >= 0:
            self._leaders[tp] = _Leader(topic_id, epoch, cluster.leader_for_partition(tp))

    def validate_offsets_if_needed(self, timeout_ms: float | None = None) -> Any:
        """Validate positions that are not being validated yet; a future, or None.

        kafka-python begins the next validation only when every leader has answered. A leader that is silent,
        as during a restart, would keep the partitions of all other leaders from being fetched, for up to
        `request_timeout_ms`.
        """
        earlier, self._validation_task = self._validation_task, None
        started = super().validate_offsets_if_needed(timeout_ms)
        if started is None and earlier is not None and not earlier.is_done:
            self._validation_task = earlier  # `position` waits for it.
        return self._validation_task

    async def _validate_offsets_async(self, timeout_ms: float | None = None) -> None:
        """Ask each leader once. Each `poll` decides which partitions are due again."""
        state = self._subscriptions
        positions = {
            tp: position
            for tp in state.partitions_needing_validation()
            if (position := state.assignment[tp].position) is not None
        }
        now_s = time.monotonic()
        # Partitions without a known leader are due after the backoff, the others after the request timeout.
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
        # Nothing can be fetched. kafka-python's consumer sleeps for the same time.
        pause_ms = min(timeout_ms, self.config["retry_backoff_ms"])
        with suppress(Errors.KafkaTimeoutError):
            self._net.run(self._manager.wait_for, self._next_wakeup(), pause_ms)
        return records, False

    def fetched_records(
        self, max_records: int | None = None, update_offsets: bool = True
    ) -> tuple[Any, bool]:
        """Records that have been fetched, and whether there are more.

        kafka-python resumes the buffered records of a partition that was paused only if no other partition
        is in progress. It counts a finished partition as in progress, and never fetches the paused one again.
        """
        self._drop_records_of_old_logs()
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
            # Not for fetches that failed at once: kafka-python would retry them without a pause.
            if not fetch.is_done:
                fetch.add_both(lambda _: self.wake())
        # `fetch_records` waits for one future, since each wait adds callbacks to every future here. Without
        # requests the queue stays empty, which tells `fetch_records` that nothing is being fetched.
        is_waiting = self._under_way or (self._reset_task is not None and not self._reset_task.is_done)
        self._fetch_futures = deque([self._next_wakeup()] if is_waiting else ())
        return sent
