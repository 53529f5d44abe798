"""The tasks of the I/O thread for the user's thread, in `poll`: call the listener, and raise errors.

kafka-python calls a listener on its I/O thread, which must not block: no `commit`, no `position`. Here `poll`
calls it, as in Java. By then the user has processed all records of earlier polls, so a commit for partitions
that leave covers exactly the processed records. The coroutines of an `AsyncConsumerRebalanceListener` still
run on the I/O thread, while the user's thread waits for them.
"""

from __future__ import annotations

import copy
import enum
import inspect
import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kafka import errors as Errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance import events, lease
from kafka_assignors.rebalance.session import Session
from kafka_assignors_kafka_python.cooperative.fetching import CooperativeSubscriptionState
from kafka_assignors_kafka_python.cooperative.warm_threads import named

if TYPE_CHECKING:
    from kafka_assignors_kafka_python.cooperative.coordinator import CooperativeCoordinator

log = logging.getLogger("kafka_assignors_kafka_python")


class ListenerCalls:
    """The calls of one coordinator's listener, one at a time."""

    def __init__(
        self,
        coordinator: CooperativeCoordinator,
        subscription: CooperativeSubscriptionState,
        session: Session,
        *,
        commit: bool,
    ) -> None:
        """`commit`: commits are automatic."""
        self._coordinator = coordinator
        self._subscription: Any = subscription
        self._session = session
        self._commit = commit
        self._committing: Any = None
        self._asked: events.CallListener | None = None
        self._is_under_way = False
        self._thread: threading.Thread | None = None  # that of the last call
        self._error: Exception | None = None

    # ---- on the I/O thread

    def due(self) -> None:
        """A call is due. Without a listener, it need not wait for a poll if it announces partitions."""
        call = self._coordinator.member.call
        is_announcement = call is not None and isinstance(call.asked, events.Announce)
        if self._subscription.rebalance_listener is not None or not is_announcement:
            return
        if (asked := self._begin()) is not None:
            self._tell(asked)
            self._returned()

    def begins(self, asked: events.CallListener) -> None:
        """The machine has handed out what the listener is told."""
        self._asked = asked

    def _begin(self) -> events.CallListener | None:
        """Begin the call that is due; what the listener is told, None if nothing can be told yet."""
        self._asked, now = None, lease.clock()  # Between two readings a lease may end.
        if self._coordinator.member.may_call(now):
            self._committing = None  # The commit of this call.
            self._coordinator.handle(events.AboutToCall(), now)
        return self._asked

    def _returned(self) -> None:
        self._asked = None
        call = self._coordinator.member.call
        if call is not None and call.is_running:
            self._coordinator.handle(events.ListenerReturned())

    # ---- on the user's thread

    def call(self, *, is_committed: bool = False) -> None:
        """Call the listener for as long as the machine asks for it.

        If commits are automatic, revoked partitions are committed first, unless everything `is_committed`
        already, since the member leaves. This method does not wait for the commit: a later poll goes on when
        it is done.
        """
        if is_committed and not (self._is_under_way or self._coordinator.is_on_io_thread):
            self._coordinator.on_io_thread(self._session.ask_before_leaving)
        while not self._is_under_way and (is_committed or self._has_committed()):
            if not self._coordinator.member.may_call(lease.clock()):
                return
            if self._is_warming() and not is_committed:
                return
            try:  # An interrupt may come at any moment.
                self._is_under_way, self._thread = True, threading.current_thread()
                if (asked := self._coordinator.on_io_thread(self._begin)) is not None:
                    self._tell(asked)
            finally:
                self.end_if_under_way()

    @property
    def is_called_by_listener(self) -> bool:
        """Whether the caller is the running call of the listener."""
        return self._is_under_way and self._thread is threading.current_thread()

    def _is_warming(self) -> bool:
        """Whether the listener is to be told of partitions that it still warms: a later poll tells it."""
        call = self._coordinator.member.call
        if call is None or not isinstance(call.asked, events.Announce):
            return False
        return self._session.warm_ups.is_warming(call.asked.partitions)

    def end_if_under_way(self) -> None:
        """End the current call; early if the listener itself closes the consumer, and calls follow."""
        if self._is_under_way:
            self._is_under_way = False
            self._coordinator.on_io_thread(self._returned)

    def tell_lost(self, partitions: events.Partitions) -> None:
        """Call `on_partitions_lost` when the machine cannot ask for it any more."""
        self._tell(events.Lose(partitions))

    def raise_error(self) -> None:
        """Raise the error of the listener, if any."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _has_committed(self) -> bool:
        member = self._coordinator.member
        if not self._commit or member.call is None or not member.call.is_revocation or not member.in_group:
            return True
        if self._committing is None:
            consumed = self._subscription.all_consumed_offsets()
            going = {tp: offset for tp, offset in consumed.items() if tp in member.call.asked.partitions}
            self._committing = self._coordinator.start_and_wake(self._commit_what_goes, going)
        return bool(self._committing.is_done)

    async def _commit_what_goes(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            await self._session.commits.commit(offsets, self._coordinator.config["session_timeout_ms"] / 1000)
        except Errors.KafkaError as error:
            log.warning(
                "group %r, member %r: revoked partitions could not be committed: %s",
                self._coordinator.group_id,
                self._coordinator.member.membership.member_id,
                error,
            )
        except Exception as error:  # Such as offsets that cannot be encoded.
            self._session.log_and_wrap("revoked partitions could not be committed", error)

    def _tell(self, call: events.CallListener) -> None:
        partitions = named(call.partitions)
        listener = self._subscription.rebalance_listener
        with self._session.call_of(listener, call, call.partitions):
            if listener is not None:
                self._call_method(listener, f"on_partitions_{call.told}", partitions)

    def _call_method(self, listener: Any, name: str, partitions: set[TopicPartition]) -> None:
        method = getattr(listener, name)
        try:
            if inspect.iscoroutinefunction(method):
                self._coordinator.on_io_thread(method, partitions)
            else:
                method(partitions)
        except Exception as error:
            raised = self._session.log_and_wrap(f"{name} of {listener!r} failed", error)
            self._error = self._error or raised


# ---- errors


class Source(enum.Enum):
    """The source of an error. Of each source only the last error waits."""

    JOIN = "joins"
    HEARTBEAT = "heartbeats"
    METADATA = "metadata"


class ErrorsOfUser:
    """The errors that wait for the user. Each is raised once; a fatal error is raised in every poll."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """`wake` wakes the user's thread."""
        self._wake = wake
        self._waiting: dict[Source, Exception] = {}
        self._fatal: Exception | None = None

    def raise_in_poll(self, error: Exception, source: Source = Source.JOIN) -> None:
        """Raise an error in the waiting poll, or else in the next.

        It replaces a waiting one of the same source, which is out of date.
        """
        self.withdraw(source)
        self._waiting[source] = error
        self._wake()

    def withdraw(self, source: Source) -> None:
        """Drop the waiting error of this source, which works again."""
        self._waiting.pop(source, None)

    def is_waiting(self, source: Source) -> bool:
        """Whether an error of this source was not raised yet."""
        return source in self._waiting

    def raise_for_ever(self, error: Exception) -> None:
        """Raise this error in every poll: the consumer cannot go on."""
        self._fatal = error
        self._wake()

    def raise_next(self) -> None:
        """Raise the oldest waiting error. Called on the user's thread."""
        if self._fatal is not None:
            raise copy.copy(self._fatal)
        for source in tuple(self._waiting):
            error = self._waiting.pop(source, None)
            if error is not None:  # The I/O thread may have been faster.
                raise error
