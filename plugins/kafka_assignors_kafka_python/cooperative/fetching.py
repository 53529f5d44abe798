"""A fetcher that can be woken up: what the user's thread waits for in `poll`, besides records."""

from __future__ import annotations

import time
from collections import deque
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaTimeoutError
from kafka.future import Future

from kafka_assignors_kafka_python.cooperative.inside import Fetcher
from kafka_assignors_kafka_python.cooperative.partitions import CooperativeSubscriptionState

__all__ = ["CooperativeFetcher"]


class CooperativeFetcher(Fetcher):  # type: ignore[misc]
    """kafka-python's fetcher, whose `fetch_records` returns early when somebody knocks."""

    _fetch_futures: Any
    _next_partition_records: Any
    _reset_task: Any
    _validation_task: Any
    _subscriptions: CooperativeSubscriptionState

    def __init__(self, stock: Any, **settings: Any) -> None:
        """`stock` is the fetcher that this one replaces, before anybody has used it."""
        super().__init__(stock._client, stock._subscriptions, **{**settings, "metrics": None})
        self._sensors = stock._sensors  # A metric can be registered once.
        self._under_way: list[Any] = []
        self._has_knocked = False
        self._knocked = Future()
        self._leaders: dict[Any, Any] = {}

    def knock(self) -> None:
        """Have the user's thread look what there is to do."""
        self._has_knocked = True  # Before the future is read: see `_next_knock`.
        if not self._knocked.is_done:
            self._knocked.success(None)

    def answer_the_door(self) -> None:
        """The user's thread is about to look: each later knock has it look again."""
        self._has_knocked = False

    def _next_knock(self) -> Any:
        """What the next wait waits for: done when there is a knock, or has been one since the last look.

        Each wait has a future of its own: one that outlasted the waits would keep the callbacks of all.
        """
        knocked = self._knocked = Future()
        if self._has_knocked:  # After the future is in its place, so that no knock falls between the two.
            knocked.success(None)
        return knocked

    def reset_offsets_if_needed(self, timeout_ms: float | None = None) -> Any:
        """Look up where to begin, if that is not known, without waiting; a future, or None."""
        earlier = self._reset_task
        reset = super().reset_offsets_if_needed(timeout_ms)
        if self._reset_task is not earlier:
            # If it ends after `_send_fetches_async` has looked, `fetch_records` does not see it any more.
            self._reset_task.add_both(lambda _: self.knock())
        return reset

    @property
    def is_validating(self) -> bool:
        """Whether positions are being validated (KIP-320), the end of which wakes nobody up."""
        return bool(self._subscriptions.partitions_in_validation())

    def maybe_validate_positions(self) -> None:
        """Find positions to validate, against the newest leader of each partition that metadata have named.

        A broker that is behind names leaders of older epochs. kafka-python takes them over, and prefers to
        ask a broker that leads nothing, such as one that was restarted. Leaders refuse older epochs.
        """
        cluster = self._manager.cluster
        leaders: dict[Any, Any] = {}
        for tp in self._subscriptions.assigned_partitions():
            topic_id, epoch = cluster.topic_id(tp.topic), cluster.leader_epoch_for_partition(tp)
            if topic_id is None or epoch is None or epoch < 0:
                continue  # Without its id, a topic that was created again cannot be told from the old one.
            leader = cluster.leader_for_partition(tp)
            known_id, known_epoch, known = self._leaders.get(tp, (topic_id, epoch, leader))
            is_behind = known_id == topic_id and known_epoch > epoch
            if is_behind and cluster.broker_metadata(known) is not None:
                cluster.update_partition_leader(tp, known, known_epoch)
                epoch, leader = known_epoch, known
            leaders[tp] = topic_id, epoch, leader
        self._leaders = leaders
        super().maybe_validate_positions()

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
            self._net.run(self._manager.wait_for, self._next_knock(), pause_ms)
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
            # Those that failed at once do not knock: kafka-python would try again and again, without a pause.
            if not fetch.is_done:
                fetch.add_both(lambda _: self.knock())
        # What `fetch_records` waits for: one knock, since each wait adds callbacks to each future here.
        # A knock by itself would keep it from seeing that nothing is fetched.
        is_waiting = self._under_way or (self._reset_task is not None and not self._reset_task.is_done)
        self._fetch_futures = deque([self._next_knock()] if is_waiting else ())
        return sent

    def in_flight_fetches(self) -> bool:
        """Whether a fetch has not been answered."""
        return any(not fetch.is_done for fetch in self._under_way)
