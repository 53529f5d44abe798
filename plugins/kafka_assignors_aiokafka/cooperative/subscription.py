"""aiokafka's state of each assigned partition, kept through rebalances.

In aiokafka every rebalance makes a new `Assignment`, and the fetcher drops all buffers and fetches. Here a
consumer has one `Assignment` for as long as it is subscribed, and partitions enter and leave it. A fetch
under way may still hold a partition that has left. It finds the state of a departed partition, which ignores
every update and delivers no records.

The machine alone decides whether records may be delivered: which partitions are `deliverable`, and until when
(`lease_until`). The fetcher reads both before each record: `reassignment_in_progress` before it looks at its
buffers, and `paused` before it delivers or fetches records of a partition. So both are kept ready, and are
updated after each step of the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import math
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from time import monotonic
from typing import Any, TypeVar

from aiokafka.consumer.subscription_state import (
    Assignment,
    Subscription,
    SubscriptionState,
    SubscriptionType,
    TopicPartitionState,
)
from aiokafka.errors import ConsumerStoppedError, IllegalStateError
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance import lease
from kafka_assignors.rebalance.events import Partitions

Error = TypeVar("Error", bound=Exception)

_LISTENER_CALL: ContextVar[object] = ContextVar("kafka_assignors_listener_call", default=None)


class _PartitionState(TopicPartitionState):  # type: ignore[misc]  # aiokafka has no types
    """The state of a partition while it is assigned, and after that for tasks that still hold the state.

    To aiokafka the partition is paused while the user has paused it or the machine holds it.

    Attributes:
        paused_by_user: what aiokafka calls `paused`.
        departed: whether the partition has left the assignment.
    """

    _position: int | None

    def __init__(self, assignment: Assignment, *, held: bool) -> None:
        super().__init__(assignment)
        self._looked_up: asyncio.Future[OffsetAndMetadata] | None = None
        self.paused_by_user = False
        self.departed = False
        self.hold(held=held)

    def hold(self, *, held: bool) -> None:
        """Stop or resume the delivery of records, for the machine."""
        self._held = held or self.departed
        self._pause_or_resume()

    def pause(self) -> None:
        self.paused_by_user = True
        self._pause_or_resume()

    def resume(self) -> None:
        self.paused_by_user = False
        self._pause_or_resume()

    def _pause_or_resume(self) -> None:
        if self._held or self.paused_by_user:
            super().pause()
        else:
            super().resume()

    def depart(self) -> None:
        """Drop the position, and release every task that waits for this partition."""
        self.departed = True
        self._position = None
        self.hold(held=True)
        self._dismiss()

    def knows_start(self, wake: Callable[[], None]) -> bool:
        """Whether a position can be found without waiting for the committed offset.

        If it cannot, the committed offset is looked up, and `wake` called when it is there.
        """
        if self.has_valid_position or self.awaiting_reset:
            return True
        if self._looked_up is None:
            self._looked_up = self.fetch_committed()
            self._looked_up.add_done_callback(lambda _: wake())
        return self._looked_up.done()

    def fetch_committed(self) -> asyncio.Future[OffsetAndMetadata]:
        committed, self._looked_up = self._looked_up, None
        if committed is None:
            committed = super().fetch_committed()
        if self.departed:
            self._dismiss()
        return committed

    def reset_to(self, position: int) -> None:
        if not self.departed:
            super().reset_to(position)

    def _dismiss(self) -> None:
        # Any offset does: `reset_to` ignores it.
        self.update_committed(OffsetAndMetadata(0, ""))
        if not self._position_fut.done():
            self._position_fut.set_result(None)


class CooperativeAssignment(Assignment):  # type: ignore[misc]  # aiokafka has no types
    """The partitions of a consumer, which enter and leave; those that stay keep position and buffers."""

    _topic_partitions: frozenset[TopicPartition]
    _tp_state: dict[TopicPartition, _PartitionState]

    def __init__(self) -> None:
        super().__init__(())
        self._deliverable: Partitions = frozenset()
        self._departed = _PartitionState(self, held=True)
        self._departed.depart()

    def state_value(self, tp: TopicPartition) -> _PartitionState:
        """The state of a partition; a departed state, which delivers nothing, if the partition has left."""
        return self._tp_state.get(tp, self._departed)

    def become(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Replace the assignment by these partitions; return the partitions that have left."""
        now = frozenset(partitions)
        before = self._topic_partitions
        for tp in before - now:
            self._tp_state.pop(tp).depart()
        for tp in now - before:
            self._tp_state[tp] = _PartitionState(self, held=tp not in self._deliverable)
        self._topic_partitions = now
        return before - now

    def deliver(self, partitions: Partitions) -> None:
        """Deliver records of these partitions alone from now on."""
        for tp in partitions ^ self._deliverable:
            if (state := self._tp_state.get(TopicPartition(*tp))) is not None:
                state.hold(held=tp not in partitions)
        self._deliverable = partitions


class _States:
    """The states of some partitions at one time, regardless of later changes of the assignment."""

    def __init__(self, assignment: Any, partitions: Iterable[TopicPartition]) -> None:
        self._states = {tp: assignment.state_value(tp) for tp in partitions}
        self.tps = self._states.keys()

    def state_value(self, tp: TopicPartition) -> Any:
        """As `Assignment.state_value`."""
        return self._states[tp]

    def any_departed(self) -> bool:
        """Whether one of the partitions was assigned by the group and has left."""
        return any(isinstance(state, _PartitionState) and state.departed for state in self._states.values())


class CooperativeSubscriptionState(SubscriptionState):  # type: ignore[misc]  # aiokafka has no types
    """A subscription whose changes leave the assignment alone: the machine changes the assignment.

    After `unsubscribe` the partitions stay owned until the listener was told of their revocation. Until then
    only the listener sees them, to commit them; for all other callers there is no subscription.

    Attributes:
        on_change: called with the topics when the user, or a pattern, changes them.
        on_listener: called after each `subscribe`, with a listener or without.
        check_listener: called before each `subscribe` with the listener; raises what the user gets.
        lease_until: when the machine's lease ends, in seconds of `lease.clock`.
        was_assigned: whether the current subscription has had an assignment, which may be empty.
    """

    _subscription: Any
    _listener: Any

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        super().__init__(loop=loop)
        self.lease_until = -math.inf
        self.on_change: Callable[[frozenset[str]], None] = lambda topics: None
        self.on_listener: Callable[[], None] = lambda: None
        self.check_listener: Callable[[Any], None] = lambda _: None
        self.was_assigned = False
        self._needs_lease = False
        self._listener_call: object = None
        self._fetch_waiters: set[asyncio.Future[None]] = set()
        self._fetch_task: asyncio.Future[None] | None = None
        self._fetch_task_waiters: list[asyncio.Future[None]] = []
        self._fatal_error: Exception | None = None
        self._error: Exception | None = None
        self._is_stopped = False

    # ---- subscription and assignment

    @property
    def subscription(self) -> Any:
        """The subscription; None after `unsubscribe`, except to the listener that is told of it."""
        if self._subscription_type is SubscriptionType.NONE and not self.is_called_by_listener:
            return None
        return self._subscription

    def assigned_partitions(self) -> set[TopicPartition]:
        return set() if self.subscription is None else super().assigned_partitions()

    def is_assigned(self, tp: TopicPartition) -> bool:
        return self.subscription is not None and bool(super().is_assigned(tp))

    @contextlib.contextmanager
    def listener_call(self) -> Iterator[None]:
        """Code in this context, and tasks that it starts, count as the listener until the context ends."""
        call = object()
        self._listener_call = call
        token = _LISTENER_CALL.set(call)
        try:
            yield
        finally:
            _LISTENER_CALL.reset(token)
            self._listener_call = None

    @property
    def is_called_by_listener(self) -> bool:
        """Whether the caller is the running call of the listener, or a task that it has started."""
        return self._listener_call is not None and _LISTENER_CALL.get() is self._listener_call

    # ---- waiting

    @property
    def reassignment_in_progress(self) -> bool:
        """Whether no partition may be delivered now."""
        if self._subscription is None:
            return True
        return self._needs_lease and lease.clock() >= self.lease_until

    async def wait_for_assignment(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
    ) -> None:
        """Wait until records may be delivered. Raises the user's pending error."""
        if self._fetch_task is not None and asyncio.current_task() is self._fetch_task:
            await self._wait_as_fetcher()
            return
        with self.fetch_context():  # A wait in `start` counts as a call for records too.
            while self.reassignment_in_progress:
                await self.wait_for_change()

    async def wait_for_change(self) -> None:
        """Wait until the assignment may have changed. Raises the user's pending error."""
        if self._is_stopped:
            raise ConsumerStoppedError
        if (error := self.take_error()) is not None:
            raise error
        waiter = super().wait_for_assignment()
        try:
            await waiter
        except asyncio.CancelledError:  # Otherwise waiters pile up while nothing may be delivered.
            with contextlib.suppress(ValueError):
                self._assignment_waiters.remove(waiter)
            raise

    async def _wait_as_fetcher(self) -> None:
        """Wait as `wait_for_assignment` does, but raise nothing: aiokafka's fetcher would end, or drop it."""
        while self.reassignment_in_progress or self.subscription is None:
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._fetch_task_waiters.append(waiter)
            await waiter

    def wake(self) -> None:
        """Wake the tasks that wait for an assignment."""
        if (self._assignment_waiters or self._fetch_task_waiters) and not self.reassignment_in_progress:
            self._notify_assignment_waiters()

    def _notify_assignment_waiters(self) -> None:
        super()._notify_assignment_waiters()
        _notify(self._fetch_task_waiters)
        self._fetch_task_waiters.clear()

    def serve(self, fetcher: Any, unexpected: Callable[[str, BaseException], Exception]) -> None:
        """Adapt this fetcher to partitions that enter and leave, and to errors for the user.

        Each call that begins to wait for records raises the pending error. A position applies only to the
        states that it was looked up for. A failed lookup raises in a call for records, and is repeated. (In
        aiokafka it ends the fetch task, and the consumer delivers no more records.) The fetcher does not see
        a partition before its committed offset is there: its broker would get no fetch for any other
        partition, and an offset may take as long as a transaction.

        Args:
            unexpected: logs the exception of a failed lookup, and returns the error for the user.
        """
        self._fetch_task = fetcher.error_future
        update_positions = fetcher._update_fetch_positions
        create_waiter = fetcher._create_fetch_waiter
        get_actions = fetcher._get_actions_per_node

        def wake() -> None:
            fetcher._notify(fetcher._wait_consume_future)

        def get_actions_per_node(assignment: Assignment) -> Any:
            if isinstance(assignment, CooperativeAssignment):
                known = [tp for tp in assignment.tps if assignment.state_value(tp).knows_start(wake)]
                return get_actions(_States(assignment, known))
            return get_actions(assignment)

        def create_fetch_waiter() -> asyncio.Future[None]:
            waiter: asyncio.Future[None] = create_waiter()
            if (error := self.take_error()) is not None:
                waiter.set_exception(error)
            return waiter

        async def update_fetch_positions(assignment: Assignment, node_id: Any, partitions: Any) -> bool:
            try:
                return bool(await update_positions(_States(assignment, partitions), node_id, partitions))
            except Exception as error:
                names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in partitions)
                self.tell(unexpected(f"no position found for {names}", error))
                await asyncio.sleep(fetcher._retry_backoff)
                return False

        fetcher._create_fetch_waiter = create_fetch_waiter
        fetcher._update_fetch_positions = update_fetch_positions
        fetcher._get_actions_per_node = get_actions_per_node

    def states_of(self, partitions: Iterable[TopicPartition]) -> _States:
        """The current states of these partitions; of all assigned partitions if `partitions` is empty."""
        subscription = self.subscription
        assignment = None if subscription is None else subscription.assignment
        assigned: frozenset[TopicPartition] = frozenset() if assignment is None else assignment.tps
        return _States(assignment, assigned.intersection(partitions) if partitions else assigned)

    @contextlib.contextmanager
    def fetch_context(self) -> Iterator[None]:
        """Count a call for records until it ends. aiokafka never ends the count if the call raises.

        A cancelled `getmany` leaves its waiter behind, and an error for the user would be lost there. So all
        waiters end with the call: the other calls look again, and wait with new ones.
        """
        self._fetch_count += 1
        try:
            yield
        except BaseException:
            _notify(self._fetch_waiters)
            raise
        finally:
            self._fetch_count -= 1
            self._last_fetch_ended = monotonic()

    # ---- errors for the user

    def tell(self, error: Exception) -> None:
        """Raise an error once, in the calls that wait for records, or else in the next call.

        At most one error waits for the next call.
        """
        if not self._abort(error) and self._error is None:
            self._error = error

    def fail(self, error: Exception) -> None:
        """Raise an error in every call for records from now on."""
        self._fatal_error = error
        self._abort(error)

    def take_error(self) -> Exception | None:
        """The error that a call for records has to raise, if any."""
        if self._fatal_error is not None:
            return again(self._fatal_error)
        error, self._error = self._error, None
        return error

    def stop(self) -> None:
        """End the calls that wait for an assignment; the fetcher ends the calls that wait for records."""
        self._is_stopped = True
        _fail(self._assignment_waiters, ConsumerStoppedError())
        self._assignment_waiters.clear()

    def _abort(self, error: Exception) -> bool:
        raised = _fail((*self._assignment_waiters, *self._fetch_waiters), error)
        self._assignment_waiters.clear()
        return raised

    # ---- calls of the user

    def subscribe(self, topics: set[str], listener: Any = None) -> None:
        """Subscribe to these topics."""
        self.check_listener(listener)
        super().subscribe(topics, listener)
        self.on_listener()

    def subscribe_pattern(self, pattern: Any, listener: Any = None) -> None:
        """Subscribe to the topics that match."""
        self.check_listener(listener)
        super().subscribe_pattern(pattern, listener)
        self.on_listener()

    def paused_partitions(self) -> set[TopicPartition]:
        states = {tp: self._assigned_state(tp) for tp in self.assigned_partitions()}
        return {tp for tp, state in states.items() if getattr(state, "paused_by_user", state.paused)}

    def unsubscribe(self) -> None:
        """Drop the subscription; partitions and listener stay until the partitions are revoked."""
        if not self.partitions_auto_assigned():
            super().unsubscribe()
            return
        listener = self._listener
        self.was_assigned = False
        self._change_subscription(Subscription(()))
        emptied = self._subscription
        self._subscription = None
        super().unsubscribe()
        self._subscription, self._listener = emptied, listener

    def _change_subscription(self, subscription: Subscription) -> None:
        managed = self.partitions_auto_assigned()
        if managed:
            previous = self._subscription
            assignment = None if previous is None else previous.assignment
            if previous is not None and isinstance(assignment, CooperativeAssignment):
                previous._assignment = None  # Otherwise the assignment would end with `previous`.
            else:
                assignment = CooperativeAssignment()
            subscription._assignment = assignment
        self._needs_lease = managed and bool(subscription.topics)
        super()._change_subscription(subscription)
        self.on_change(frozenset(subscription.topics) if managed else frozenset())

    def _assigned_state(self, tp: TopicPartition) -> Any:
        if not self.is_assigned(tp):
            raise IllegalStateError(f"No current assignment for partition {tp}")
        return super()._assigned_state(tp)


def _notify(waiters: Iterable[asyncio.Future[None]]) -> None:
    for waiter in tuple(waiters):
        if not waiter.done():
            waiter.set_result(None)


def _fail(waiters: Iterable[asyncio.Future[None]], error: Exception) -> bool:
    """Raise an error in the pending waiters; whether there are any."""
    waiting = [waiter for waiter in waiters if not waiter.done()]
    for waiter in waiting:
        waiter.set_exception(again(error))
    return bool(waiting)


def again(error: Error) -> Error:
    """A copy of an error that can be raised several times: each copy has a traceback of its own."""
    copied = copy.copy(error)
    copied.__cause__ = error.__cause__
    return copied
