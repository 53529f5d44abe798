"""A fetcher that can be woken up: what the user's thread waits for in `poll`, besides records."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaTimeoutError
from kafka.future import Future

from kafka_assignors_kafka_python.cooperative.inside import Fetcher

__all__ = ["CooperativeFetcher"]


class CooperativeFetcher(Fetcher):  # type: ignore[misc]
    """kafka-python's fetcher, whose `fetch_records` returns early when somebody knocks."""

    _completed_fetches: Any
    _fetch_futures: Any
    _next_partition_records: Any
    _reset_task: Any

    def __init__(self, stock: Any, **settings: Any) -> None:
        """`stock` is the fetcher that this one replaces, before anybody has used it."""
        super().__init__(stock._client, stock._subscriptions, **{**settings, "metrics": None})
        self._sensors = stock._sensors  # A metric can be registered once.
        self._knocked = Future()

    def knock(self) -> None:
        """Have the user's thread look what there is to do."""
        if not self._knocked.is_done:
            self._knocked.success(None)

    def answer_the_door(self) -> None:
        """The user's thread is about to look: whoever knocks from now on will have it look again."""
        if self._knocked.is_done:
            self._knocked = Future()

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
        return self._validation_task is not None and not self._validation_task.is_done

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
            self._net.run(self._manager.wait_for, self._knocked, pause_ms)
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
        # What `fetch_records` waits for. Behind a fetch under way, kafka-python 3.0.1 leaves some that are
        # done, and spins. A knock by itself would keep it from seeing that nothing is fetched.
        fetches = deque(
            future for future in self._fetch_futures if future is not self._knocked and not future.is_done
        )
        if fetches or (self._reset_task is not None and not self._reset_task.is_done):
            fetches.append(self._knocked)
        self._fetch_futures = fetches
        if self._completed_fetches:
            # They came after `fetch_records` has looked, and it waits for what is under way alone.
            self.knock()
        return sent
