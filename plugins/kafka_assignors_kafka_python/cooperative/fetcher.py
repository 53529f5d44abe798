"""A fetcher that can be woken up: what the user's thread waits for in `poll`, besides records."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import Any, NamedTuple

from kafka.errors import KafkaTimeoutError
from kafka.future import Future
from kafka.structs import TopicPartition

from kafka_assignors_kafka_python._v3 import Fetcher
from kafka_assignors_kafka_python.cooperative.subscription import CooperativeSubscriptionState


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
