"""Calls of the user's listener: what it is told, by which method, and for how long the member waits."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import aiokafka.errors as Errors
from aiokafka.structs import TopicPartition

from kafka_assignors.rebalance import events, lease
from kafka_assignors.rebalance.session import Session
from kafka_assignors_aiokafka.cooperative.subscription import CooperativeSubscriptionState

if TYPE_CHECKING:
    from kafka_assignors_aiokafka.cooperative.coordinator import CooperativeCoordinator

log = logging.getLogger("kafka_assignors_aiokafka")


class ListenerCalls:
    """The listener calls of one coordinator, at most one at a time."""

    def __init__(
        self,
        coordinator: CooperativeCoordinator,
        subscription: CooperativeSubscriptionState,
        session: Session,
    ) -> None:
        self._coordinator = coordinator
        self._session = session
        self._subscription = subscription
        self._told: Any = None
        """The listener that was told of all owned partitions."""
        self._call_under_way: asyncio.Future[None] | None = None
        self._is_closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def must_announce_all(self) -> bool:
        """Whether the current listener was not told of any assignment."""
        listener = self._subscription.listener
        return listener is not None and listener is not self._told

    @property
    def is_current_task(self) -> bool:
        """Whether the current task is the one that calls the listener."""
        return self._call_under_way is not None and asyncio.current_task() is self._call_under_way

    def close(self) -> None:
        """From now on, wait at most `max_poll_interval_ms` for each call to return."""
        if not self._is_closing.done():
            self._is_closing.set_result(None)

    def begin(self, asked: events.CallListener) -> Coroutine[Any, Any, None]:
        """Start a call of the listener; the returned coroutine waits for its end, and reports it.

        The call starts before the tasks that the same event has woken, so that `start` returns after the
        listener has been called.
        """
        listener = self._subscription.listener
        self._call_under_way = call = asyncio.ensure_future(self._call(listener, asked))
        return self._wait(call, listener, asked)

    async def _wait(self, call: asyncio.Future[None], listener: Any, asked: events.CallListener) -> None:
        """Wait until the listener has returned.

        While the consumer is being stopped, a listener that hangs is given up. It would keep this member in
        the group for ever: heartbeats go on, and the poll interval no longer counts.
        """
        coordinator = self._coordinator
        try:
            await asyncio.wait([call, self._is_closing], return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                await asyncio.wait([call], timeout=coordinator.longest_call_s)
            if not call.done():
                patience_s = coordinator.longest_call_s
                raise Errors.KafkaTimeoutError(
                    f"the consumer stops, and waited for {patience_s:g} s (max_poll_interval_ms)"
                )
            call.result()
        except (Exception, asyncio.CancelledError) as error:
            if coordinator.is_closed:
                raise
            failed = f"{method_of(asked, listener)} of {listener!r} failed"
            coordinator.tell_user(self._session.unexpected(failed, error))
        finally:
            call.cancel()
        coordinator.handle(events.ListenerReturned())

    async def _call(self, listener: Any, asked: events.CallListener) -> None:
        coordinator = self._coordinator
        partitions: events.Partitions = asked.partitions
        if isinstance(asked, events.Announce):
            if listener is not self._told:  # All partitions are new to this listener.
                partitions = coordinator.member.owned
            self._told = listener
        named = {TopicPartition(*partition) for partition in partitions}
        log.info("group %r: %s", coordinator.group_id, events.in_log(asked, partitions))
        if isinstance(asked, events.Revoke):
            await coordinator.commit_revoked(named)
        began_at = lease.clock()
        try:
            if listener is not None:
                with self._subscription.listener_call():
                    returned = getattr(listener, method_of(asked, listener))(named)
                    if inspect.isawaitable(returned):
                        await returned
        finally:
            if self._session.observers is not None:
                seconds = None if listener is None else lease.clock() - began_at
                self._session.observers.listener_returned(asked, seconds)


def method_of(asked: events.CallListener, listener: object) -> str:
    """The method to call. A listener without `on_partitions_lost` gets lost partitions as revoked ones."""
    if isinstance(asked, events.Lose) and not hasattr(listener, "on_partitions_lost"):
        return "on_partitions_revoked"
    return f"on_partitions_{asked.told}"
