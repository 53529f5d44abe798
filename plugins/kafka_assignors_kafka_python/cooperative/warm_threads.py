"""The threads in which a listener warms partitions; it may block in them, and must not touch the consumer."""

from __future__ import annotations

import threading
from concurrent import futures
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafka.structs import TopicPartition

from kafka_assignors.rebalance import events
from kafka_assignors.rebalance.client import Wakeup
from kafka_assignors.rebalance.lead import call_in_thread
from kafka_assignors.rebalance.warm_ups import raise_error

if TYPE_CHECKING:
    from kafka_assignors_kafka_python.cooperative.coordinator import CooperativeCoordinator


class WarmUpThread:
    """A call of `on_partitions_warming`, in a thread that ends with it."""

    def __init__(
        self, coordinator: CooperativeCoordinator, listener: Any, partitions: events.Partitions
    ) -> None:
        self._coordinator = coordinator
        self._listener = listener
        self._cancelled = threading.Event()
        self._telling: futures.Future[Any] | None = None
        self._call, self._has_ended = self._in_thread(
            listener.on_partitions_warming, named(partitions), self._cancelled
        )

    def _in_thread(self, function: Any, *arguments: Any) -> tuple[futures.Future[Any], Wakeup]:
        """A call in a thread of its own, and what its end notifies."""
        has_ended = self._coordinator.wakeup()

        def tell(_: object) -> None:
            with suppress(Exception):  # The I/O thread has ended: the consumer was closed, and nothing waits.
                self._coordinator.start_and_wake(has_ended.notify)

        call = call_in_thread(function, *arguments, name="kafka-assignors-warming")
        call.add_done_callback(tell)
        return call, has_ended

    @property
    def is_running(self) -> bool:
        return not self._call.done() or (self._telling is not None and not self._telling.done())

    def cancel(self) -> None:
        self._cancelled.set()

    async def ended(self, timeout_s: float) -> bool:
        await self._has_ended(timeout_s)
        if self._call.done():
            raise_error(self._call.exception())
        return self._call.done()

    async def tell_cancelled(self, partitions: events.Partitions, timeout_s: float) -> None:
        tell = getattr(self._listener, "on_warming_cancelled", None)
        if tell is None:
            return
        self._telling, has_ended = self._in_thread(tell, named(partitions))
        await has_ended(timeout_s)
        if self._telling.done():
            raise_error(self._telling.exception())


def named(partitions: events.Partitions) -> set[TopicPartition]:
    """The partitions as a listener gets them."""
    return {TopicPartition(*partition) for partition in partitions}
