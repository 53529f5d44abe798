"""Calls of the user's listener: what it is told, by which method, and for how long the member waits."""

from __future__ import annotations

import asyncio
import inspect
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiokafka.errors as Errors
from aiokafka.structs import TopicPartition

from kafka_assignors.arguments import require_warming_listener
from kafka_assignors.rebalance import events, lease
from kafka_assignors.rebalance.session import Session
from kafka_assignors.rebalance.warm_ups import raise_error
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors_aiokafka.cooperative.subscription import CooperativeSubscriptionState

if TYPE_CHECKING:
    from kafka_assignors_aiokafka.cooperative.coordinator import CooperativeCoordinator

log = logging.getLogger("kafka_assignors_aiokafka")


@dataclass
class _Call:
    """A call of the listener. `asked` is what the machine has handed out for it; None before it begins."""

    listener: Any
    asked: events.CallListener | None = None


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
        self._call = _Call(None)
        self._reporting: asyncio.Future[None]
        self._is_closing: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def must_announce_all(self) -> bool:
        """Whether the current listener was not told of any assignment."""
        listener = self._subscription.listener
        return listener is not None and listener is not self._told

    def close(self) -> None:
        """From now on, wait at most `max_poll_interval_ms` for each call to return."""
        if not self._is_closing.done():
            self._is_closing.set_result(None)

    def start(self, due: events.CallDue) -> None:
        """Start the call that is due, and a task that waits for its end, and reports it.

        The call starts before the tasks that the same event has woken, so that `start` of the consumer
        returns after the listener has been called.
        """
        call = self._call = _Call(self._subscription.listener)
        calling = asyncio.ensure_future(self._carry_out(call, due))
        self._reporting = self._coordinator.spawn(self._until_reported(call, calling))

    def go_on(self) -> None:
        """End the call that is running, or start the one that is due, if its task was cancelled.

        `asyncio.run` cancels all tasks before a `finally` of the user stops the consumer.
        """
        call = self._coordinator.member.call
        if call is None or not self._reporting.done():
            return
        if call.is_running:
            self._coordinator.handle(events.ListenerReturned())
        else:
            self.start(call.due)

    def begins(self, asked: events.CallListener) -> None:
        """The machine has handed out what the listener is told."""
        self._call.asked = asked

    async def _carry_out(self, call: _Call, due: events.CallDue) -> None:
        coordinator = self._coordinator
        if due.revoked:
            await coordinator.commit_revoked(_named(due.revoked))
            await self._session.ask_before_leaving()
        pending = coordinator.member.call
        if pending is not None and isinstance(pending.asked, events.Announce):
            await self._session.warm_ups.over(self._announced(call, pending.asked))
        await coordinator.until(self._begin)  # Nothing may wait between this and the listener's method.
        if call.asked is not None:
            await self._tell(call)

    def _begin(self) -> bool:
        """Begin the call that is due if it may begin; whether it did."""
        coordinator, now = self._coordinator, lease.clock()  # Between two readings a lease may end.
        if may_call := coordinator.member.may_call(now):
            coordinator.handle(events.AboutToCall(), now)
        return may_call

    def _announced(self, call: _Call, asked: events.Announce) -> events.Partitions:
        """The partitions to announce: to a listener that was told of none yet, all that the member owns."""
        return asked.partitions if call.listener is self._told else self._coordinator.member.owned

    async def _until_reported(self, call: _Call, calling: asyncio.Future[None]) -> None:
        await self._until_returned(call, calling)
        if call.asked is None:
            self._begin()  # It failed before it began. If it may not begin, `go_on` starts it again.
        if call.asked is not None:
            self._coordinator.handle(events.ListenerReturned())

    async def tell_lost(self, partitions: events.Partitions) -> None:
        """Call the listener for lost partitions when the machine cannot ask for it any more."""
        call = _Call(self._subscription.listener, events.Lose(partitions))
        await self._until_returned(call, asyncio.ensure_future(self._tell(call)))

    async def _until_returned(self, call: _Call, calling: asyncio.Future[None]) -> None:
        """Wait until the listener has returned.

        While the consumer is being stopped, a listener that hangs is given up. It would keep this member in
        the group for ever: heartbeats go on, and the poll interval no longer counts.
        """
        try:
            await asyncio.wait([calling, self._is_closing], return_when=asyncio.FIRST_COMPLETED)
            patience_s = self._coordinator.longest_call_s
            if not calling.done():
                await asyncio.wait([calling], timeout=patience_s)
            if not calling.done():
                raise Errors.KafkaTimeoutError(
                    f"the consumer stops, and waited for {patience_s:g} s (max_poll_interval_ms)"
                )
            calling.result()
        except (Exception, asyncio.CancelledError) as error:
            if self._coordinator.is_closed:
                raise
            if call.asked is None:
                failed = "the call of the listener did not begin"
            else:
                failed = f"{method_of(call.asked, call.listener)} of {call.listener!r} failed"
            self._subscription.tell(self._session.log_and_wrap(failed, error))
        finally:
            calling.cancel()

    async def _tell(self, call: _Call) -> None:
        listener, asked = call.listener, call.asked
        assert asked is not None
        partitions: events.Partitions = asked.partitions
        if isinstance(asked, events.Announce):
            partitions = self._announced(call, asked)
            self._told = listener
        with self._session.call_of(listener, asked, partitions), self._subscription.listener_call():
            if listener is not None:
                returned = getattr(listener, method_of(asked, listener))(_named(partitions))
                if inspect.isawaitable(returned):
                    await returned


class WarmUpTask:
    """A call of `on_partitions_warming`."""

    def __init__(self, listener: Any, partitions: events.Partitions) -> None:
        self._listener = listener
        self._telling: asyncio.Future[Any] | None = None
        self._task = asyncio.ensure_future(listener.on_partitions_warming(_named(partitions)))

    @property
    def is_running(self) -> bool:
        return not self._task.done() or (self._telling is not None and not self._telling.done())

    def cancel(self) -> None:
        self._task.cancel()

    async def ended(self, timeout_s: float) -> bool:
        return await self._has_ended(self._task, timeout_s)

    async def tell_cancelled(self, partitions: events.Partitions, timeout_s: float) -> None:
        self._telling = asyncio.ensure_future(self._tell_cancelled(partitions))
        try:
            await self._has_ended(self._telling, timeout_s)
        finally:
            self._telling.cancel()

    async def _tell_cancelled(self, partitions: events.Partitions) -> None:
        tell = getattr(self._listener, "on_warming_cancelled", None)
        if tell is not None and inspect.isawaitable(returned := tell(_named(partitions))):
            await returned

    async def _has_ended(self, call: asyncio.Future[Any], timeout_s: float) -> bool:
        """Whether it ends in time. A task of its own: a CancelledError of the listener ends no other task."""
        done, _ = await asyncio.wait([call], timeout=timeout_s)
        if done and not call.cancelled():
            raise_error(call.exception())
        return bool(done)


def check_listener(protocol: RebalanceProtocol, listener: Any) -> None:
    """Raise TypeError for a listener whose warm-ups this consumer cannot run."""
    require_warming_listener(listener, cooperative=protocol is RebalanceProtocol.COOPERATIVE)
    warm = getattr(listener, "on_partitions_warming", None)
    if warm is not None and not inspect.iscoroutinefunction(warm):
        raise TypeError(
            f"on_partitions_warming of {listener!r} is not a coroutine function: it would stop the event "
            "loop, and so all records and heartbeats, while it restores"
        )


def _named(partitions: events.Partitions) -> set[TopicPartition]:
    return {TopicPartition(*partition) for partition in partitions}


def method_of(asked: events.CallListener, listener: object) -> str:
    """The method to call. A listener without `on_partitions_lost` gets lost partitions as revoked ones."""
    if isinstance(asked, events.Lose) and not hasattr(listener, "on_partitions_lost"):
        return "on_partitions_revoked"
    return f"on_partitions_{asked.told}"
