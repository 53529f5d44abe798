"""The coordinator of a cooperative consumer: it carries out what the machine decides.

`kafka_assignors.rebalance` decides when to join, what to claim, what to revoke and which commits may be sent;
a `Session` sends the requests, by `requests`. This file carries out the other actions: it installs
assignments, and calls the listener. It never decides whether something is allowed.

There are two threads. kafka-python's *I/O thread* runs the machine, all requests and the assignment:

    the joining task    begins a join when the machine wants one and the coordinator is known
    heartbeats          always, also during joins
    a task per action   a join, a sync, a commit

So a join goes on between two polls, and a poll never waits for one. The *user's thread*, inside `poll`,
`unsubscribe` and `close`, calls the listener and begins automatic commits: by then the user has processed all
records of earlier polls. A member that has to call the listener cannot rejoin before the next poll, and the
group waits for it, at most `max_poll_interval_ms`.

The fetcher's `wake` ends the wait of a poll when there is something to do. Joins have a connection of their
own (`requests`).
"""

from __future__ import annotations

import inspect
import logging
import math
import threading
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from kafka import errors as Errors
from kafka.coordinator import base  # where 3.0.0 has them too
from kafka.protocol.consumer import IsolationLevel
from kafka.structs import OffsetAndMetadata, TopicPartition
from kafka.util import WeakMethod

from kafka_assignors.arguments import require_warming_listener
from kafka_assignors.rebalance import MemberState, Phase, Settings, events, lease
from kafka_assignors.rebalance.observer import RebalanceObserver
from kafka_assignors.rebalance.session import Session
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors_kafka_python.cooperative.fetching import Positions
from kafka_assignors_kafka_python.cooperative.topics import WatchingCoordinator
from kafka_assignors_kafka_python.cooperative.transactions import AsyncCommits, JoinHold, require_offsets
from kafka_assignors_kafka_python.cooperative.user_thread import ErrorsOfUser, ListenerCalls, Source
from kafka_assignors_kafka_python.cooperative.warm_threads import WarmUpThread

log = logging.getLogger("kafka_assignors_kafka_python")

_NEVER = float("-inf")


class CooperativeCoordinator(WatchingCoordinator):
    """One member of one group: the `Client` of its session (`kafka_assignors.rebalance.client`)."""

    _is_built = False

    def __init__(
        self,
        stock: Any,
        *,
        fetcher: Any,
        rack: str | None,
        observer: RebalanceObserver | None,
        max_warming: int,
        warm_timeout_s: float,
        **settings: Any,
    ) -> None:
        """`stock` is the coordinator that this one replaces, before it is used.

        `settings` are those of kafka-python's coordinator; `rack` is the member's rack for the group.
        """
        super().__init__(stock._client, stock._subscription, **{**settings, "metrics": None})
        # kafka-python's coordinator reads it for OffsetFetch alone, which then requires stable offsets
        # (KIP-447), as Java's always does. Otherwise a broker of Kafka 4 that has just taken over the group
        # may answer with older offsets than were accepted.
        self._isolation_level = IsolationLevel.READ_COMMITTED
        metrics = self.take_over_metrics(stock)
        self._fetcher = fetcher
        self._member = MemberState(
            Settings(
                session_timeout=self.config["session_timeout_ms"] / 1000,
                rebalance_timeout=self.config["max_poll_interval_ms"] / 1000,
                max_poll_interval=self.config["max_poll_interval_ms"] / 1000,
                static=self.group_instance_id is not None,
            )
        )
        self._subscription.may_deliver = self._may_deliver
        self._subscription.topic_id = self._cluster.topic_id
        fetcher.on_recreated = lambda partitions: self.handle(events.TopicsRecreated(partitions))
        self.told = ErrorsOfUser(fetcher.wake)
        self._session = Session(
            self,
            self._assignors.values(),
            group_id=self.group_id,
            instance_id=self.group_instance_id,
            rack=rack,
            heartbeat_interval_s=self.config["heartbeat_interval_ms"] / 1000,
            retry_backoff_s=self.config["retry_backoff_ms"] / 1000,
            log=log,
            observers=[metrics, observer],
            max_warming=max_warming,
            warm_timeout_s=warm_timeout_s,
        )
        self._async_commits = AsyncCommits(self, self._session.commits)
        self._positions = Positions(self, self._subscription)
        self.listener_calls = ListenerCalls(
            self, self._subscription, self._session, commit=self.config["enable_auto_commit"]
        )
        self._join_wanted = self.wakeup()
        self.hold = JoinHold(self)
        self._subscribed: object = None
        self._unsubscribes = False
        self._polled_at = _NEVER
        self._is_calling_back = False
        self._is_built = True

    # ---- the machine, on the I/O thread

    def handle(self, event: events.Event, now: float | None = None) -> None:
        before, now = self._member, lease.clock() if now is None else now
        self._member, actions = before.handle(event, now)
        self._show_membership()
        self._session.observers.stepped(before, event, self._member, actions, now)
        for action in actions:
            self._carry_out(action)
        if self._member.must_join:
            self._join_wanted.notify()
        after = self._member
        if after.has_lease(now) > before.has_lease(now) or after.may_call(now) > before.may_call(now):
            self._fetcher.wake()
        self._session.look()

    def _carry_out(self, action: events.Action) -> None:
        match action:
            case events.Install(partitions):
                self._subscription.install(partitions)
                # A lookup for partitions that leave must not answer for them when they come back.
                self._offset_fetch_futures.clear()
                self._fetcher.wake()
            case events.CallDue():
                self.listener_calls.due()
                self._fetcher.wake()
            case events.Revoke() | events.Lose() | events.Announce():
                self.listener_calls.begins(action)
            case events.Fail(reason):
                self.told.raise_for_ever(Errors.FencedInstanceIdError(f"group {self.group_id!r}: {reason}"))
            case _:
                self._session.carry_out(action)

    @property
    def member(self) -> MemberState:
        """The current state of the machine. It is replaced as a whole, so any thread may read it."""
        return self._member

    retries_commits = True

    @property
    def join_under_way(self) -> Any:
        """A future, done when the current JoinGroup or SyncGroup is answered; None without one."""
        if not self._member.join.is_under_way or self._session.joins_are_answered:
            return None
        return self._session.join_task

    def join_may_be_due(self) -> None:
        """Check whether the machine wants a join. Any thread may call this."""
        if not self._member.closing:  # The joining task may have ended.
            self.start(self._join_wanted.notify)

    def start_and_wake(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function on the I/O thread, then wake the user's thread; a future."""
        return self.start(function, *arguments).add_both(lambda _: self._fetcher.wake())

    def spawn(self, task: Coroutine[Any, Any, None]) -> Any:
        return self._manager.call_soon(task).add_errback(self._broken)

    def _broken(self, error: BaseException) -> None:
        if not self._member.closing:
            self.told.raise_for_ever(self._session.log_and_wrap("the consumer cannot go on, close it", error))

    def _show_membership(self) -> None:
        # Attributes of kafka-python, for `group_metadata` and for its metrics.
        member, membership = self._member, self._member.membership
        states: Any = base.MemberState  # pyright: ignore[reportAttributeAccessIssue]  # its stubs are of 2.x
        with self._lock:
            if member.join.is_under_way:
                self.state = states.REBALANCING
            else:
                self.state = states.STABLE if member.in_group else states.UNJOINED
            # If partitions are lost and the user was not told yet, the old generation stays: the broker
            # refuses transactional offsets with it. Without a membership it would accept them.
            if member.in_group or not member.owned:
                of_member = (membership.generation, membership.member_id, self._session.strategy)
                self._generation = base.Generation(*of_member)

    def _may_deliver(self, partition: events.Partition) -> bool:
        # `_member` is replaced as a whole, so any thread may read it.
        return self._member.may_deliver(partition, lease.clock())

    # ---- the user's thread

    def poll(self, timeout_ms: float | None = None) -> bool:
        """Do the work of the user's thread before it fetches, without waiting for the group.

        Raises the user's pending errors, and those of the listener.
        """
        self._fetcher.reset_wakeup()
        if not self._subscription.partitions_auto_assigned() and self._member.call is None:
            by_hand: bool = super().poll(timeout_ms)
            return by_hand
        is_first = self._polled_at == _NEVER
        self._polled_at = time.monotonic()
        self.heartbeat.poll()
        self.hold.end()
        if is_first:
            self.spawn(self._session.send_heartbeats())
            self.spawn(self._joining_task())
        self.told.raise_next()
        self.subscription_may_have_changed()
        if self._member.poll_interval_exceeded:
            self.on_io_thread(self.handle, events.PollIntervalChecked(lease.clock()))
        self.listener_calls.call()
        if self._member.closing:  # The listener has closed the consumer.
            return False
        self.hold.end()  # A transaction that the listener began has ended with its call.
        self.listener_calls.raise_error()
        self._invoke_completed_offset_commit_callbacks()
        self._maybe_auto_commit_offsets_async()
        return True

    def time_to_next_poll(self) -> float:
        """How many seconds the user's thread may wait for records, unless it is woken."""
        if not self._subscription.partitions_auto_assigned():
            by_hand: float = super().time_to_next_poll()
            return by_hand
        # At most half of the poll interval, which this wait must not use up.
        wait_ms = min(self.config["heartbeat_interval_ms"], self.config["max_poll_interval_ms"] / 2)
        if self._subscription.partitions_in_validation():  # Its end does not call `wake`.
            wait_ms = min(wait_ms, self.config["retry_backoff_ms"])
        wait_s: float = wait_ms / 1000
        if self.config["enable_auto_commit"]:
            wait_s = min(wait_s, max(0.0, self.next_auto_commit_deadline - time.monotonic()))
        return wait_s

    def subscription_may_have_changed(self, *, resolved: bool = False) -> None:
        """Tell the machine the subscribed topics if they have changed.

        Until a pattern is `resolved` with metadata, its topics are unknown, and the machine is not told.
        """
        if not resolved:  # The user's thread has ended its `unsubscribe`.
            self._unsubscribes = False
        if self._has_new_topics(resolved):
            self.on_io_thread(self._tell_new_topics, resolved)

    def _has_new_topics(self, resolved: bool) -> bool:
        if self._unsubscribes:  # Until all is given up, metadata still resolve the pattern.
            return False
        state = self._subscription
        unresolved = state.subscribed_pattern is not None and not state.subscription and not resolved
        return state.subscription is not self._subscribed and not unresolved

    def _tell_new_topics(self, resolved: bool) -> None:
        # What the user's thread sees first, the I/O thread tells before it joins.
        if self._has_new_topics(resolved):
            self._subscribed = topics = self._subscription.subscription
            self.handle(events.SubscriptionChanged(frozenset(topics or ())))

    def give_everything_up(self) -> None:
        """Commit if commits are automatic, revoke all partitions, and leave: the user unsubscribes."""
        self._maybe_auto_commit_offsets_sync(timeout_ms=self.config["session_timeout_ms"])
        self._subscribed, self._unsubscribes = None, True
        self.on_io_thread(self.handle, events.SubscriptionChanged(frozenset()))
        self.listener_calls.call(is_committed=True)
        self.hold.end()

    def maybe_leave_group(self, reason: str | None = None, timeout_ms: float | None = None) -> None:
        """Do nothing: the machine leaves when the partitions that the user gave up are revoked."""

    def look_up_positions(self) -> bool:
        """Look up missing positions, without waiting; whether none is missing."""
        if not self._subscription.has_all_fetch_positions():
            self._positions.look_up()
        return bool(self._subscription.has_all_fetch_positions())

    def group_metadata(self) -> Any:
        """As kafka-python's, but valid until the next `poll` begins: see `transactions`."""
        if self._subscription.partitions_auto_assigned() and not self._member.closing:
            self.hold.begin()
        return super().group_metadata()

    def on_io_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function on the I/O thread and wait for its result."""
        if self.is_on_io_thread:
            return function(*arguments)
        return self._net.run(function, *arguments)

    @property
    def is_on_io_thread(self) -> bool:
        """Whether this is kafka-python's I/O thread."""
        return bool(threading.current_thread() is self._net._io_thread)

    # ---- commits

    def commit_offsets_sync(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float | None = None
    ) -> None:
        """Commit; `CommitFailedError` for partitions that were not owned throughout."""
        if not self._subscription.partitions_auto_assigned():
            super().commit_offsets_sync(offsets, timeout_ms=timeout_ms)
            return
        offsets = require_offsets(offsets)
        self._invoke_completed_offset_commit_callbacks()
        longest_ms: float = self.config["request_timeout_ms"] if timeout_ms is None else timeout_ms
        self._net.run(self._session.commits.commit, offsets, longest_ms / 1000)

    def commit_offsets_async(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Any = None
    ) -> Any:
        """Commit without waiting: a future, and `callback(offsets, None or error)` in a later poll."""
        if not self._subscription.partitions_auto_assigned():
            return super().commit_offsets_async(offsets, callback)
        if not self.is_on_io_thread:
            self._invoke_completed_offset_commit_callbacks()  # So that callbacks cannot pile up.
        return self._async_commits.start(offsets, callback or self.config["default_offset_commit_callback"])

    def _maybe_auto_commit_offsets_sync(self, timeout_ms: float | None = None) -> None:
        with self._subscription.omitting(self._member.being_revoked):
            super()._maybe_auto_commit_offsets_sync(timeout_ms=timeout_ms)

    def _do_auto_commit_offsets_async(self) -> None:
        with self._subscription.omitting(self._member.being_revoked):
            super()._do_auto_commit_offsets_async()

    def _invoke_completed_offset_commit_callbacks(self) -> None:
        if not self._is_calling_back:  # A callback may commit again.
            self._is_calling_back = True
            try:
                super()._invoke_completed_offset_commit_callbacks()
            finally:
                self._is_calling_back = False

    def _commit_offsets_async_on_complete(self, offsets: object, outcome: object) -> None:
        # Of an automatic commit. kafka-python then calls the user's callback, if there is one.
        if isinstance(outcome, Exception):
            log.warning("group %r: automatic commit: %s", self.group_id, outcome)
        super()._commit_offsets_async_on_complete(offsets, outcome)

    # ---- background tasks, on the I/O thread

    async def _joining_task(self) -> None:
        while not self._member.closing:
            await self._join_wanted()
            try:
                await self._begin_join_if_due()
            except Errors.KafkaError as error:
                if error.retriable:
                    await self.back_off()
                else:
                    await self._session.tell_user(error)
                self._join_wanted.notify()
            except Exception as error:
                await self._session.tell_user(self._session.log_and_wrap("a join could not begin", error))
                self._join_wanted.notify()

    async def _begin_join_if_due(self) -> None:
        if not self._is_join_due:
            return
        await self.ensure_coordinator_ready_async()
        if self._subscription.subscribed_pattern:
            await self.wait_for(self.metadata_from_now(), self.config["request_timeout_ms"])
        await self.know_topics_if_static(self._member.topics)
        if self._is_join_due:
            self.handle(events.AboutToJoin(self._session.protocol))

    @property
    def _is_join_due(self) -> bool:
        # A join that the machine has given up may still be unanswered. The next one waits for its end.
        # For a commit that met a rebalance, the user may be waiting, and thus cannot end the hold.
        is_held = self.hold.is_held and not self._member.commits.met_rebalance
        return self._member.must_join and self._session.joins_are_answered and not is_held

    # ---- calls of the session

    def seconds_since_poll(self) -> float:
        return time.monotonic() - self._polled_at

    def raise_to_user(self, error: Exception) -> None:
        self.told.raise_in_poll(error)

    @property
    def user_was_told(self) -> bool:
        # While a transaction holds joins back, none follows this one, for which `group_metadata` may wait.
        return self._member.closing or self.hold.is_held or not self.told.is_waiting(Source.JOIN)

    def heartbeat_ended(self, error: Exception | None, *, accepted: bool) -> None:
        if accepted:
            self.told.withdraw(Source.HEARTBEAT)
            return
        self.heartbeat.fail_heartbeat()
        if error is not None:
            self.told.raise_in_poll(error, Source.HEARTBEAT)

    # ---- warm-ups

    def check_listener(self, listener: object) -> None:
        """Raise TypeError for a listener whose warm-ups this consumer cannot run."""
        cooperative = self._session.protocol is RebalanceProtocol.COOPERATIVE
        require_warming_listener(listener, cooperative=cooperative)
        if inspect.iscoroutinefunction(getattr(listener, "on_partitions_warming", None)):
            raise TypeError(
                f"on_partitions_warming of {listener!r} is a coroutine function: it is called in a thread of "
                "its own, so that it may block"
            )

    def listener_may_have_changed(self) -> None:
        """Cancel the warm-ups of another listener than the current one."""
        self.on_io_thread(self._session.warm_ups.listener_is, self._subscription.rebalance_listener)

    @property
    def warms(self) -> bool:
        return hasattr(self._subscription.rebalance_listener, "on_partitions_warming")

    def warm_up(self, partitions: events.Partitions) -> WarmUpThread:
        return WarmUpThread(self, self._subscription.rebalance_listener, partitions)

    def drain(self, timeout_s: float | None) -> bool:
        """See `CooperativeKafkaConsumer.drain`."""
        if self.listener_calls.is_called_by_listener:
            raise Errors.IllegalStateError(
                "drain() waits for joins, which wait for the listener that calls it"
            )
        return bool(self._net.run(self._session.warm_ups.drain, timeout_s))

    # ---- metadata

    def _handle_metadata_update(self, cluster: Any) -> None:
        if not self._is_built:  # The I/O thread is faster than the constructor.
            super()._handle_metadata_update(cluster)
            return
        try:
            self._follow_metadata(cluster)
        except Exception as error:  # Otherwise it would end the client's task.
            self.told.raise_in_poll(
                self._session.log_and_wrap("its metadata could not be read", error), Source.METADATA
            )

    def _follow_metadata(self, cluster: Any) -> None:
        # A leader also watches topics of other members. Its user gets no error for those.
        own = cluster.unauthorized_topics & (self._subscription.subscription or frozenset())
        unauthorized, cluster.unauthorized_topics = cluster.unauthorized_topics, own
        try:
            super()._handle_metadata_update(cluster)  # Resolves a pattern; raises for unauthorized topics.
        except Errors.KafkaError as error:
            self.told.raise_in_poll(error, Source.METADATA)
        else:
            self.told.withdraw(Source.METADATA)
        finally:
            cluster.unauthorized_topics = unauthorized
        if self._subscription.subscribed_pattern:
            self.subscription_may_have_changed(resolved=True)
        # A leader that waits for SyncGroup compares in `assigned`, after its assignment.
        if self._member.phase is not Phase.SYNCING:
            self.rejoin_if_topics_changed()

    # ---- leaving

    def close(self, autocommit: bool = True, timeout_ms: float | None = None) -> None:
        """Commit if commits are automatic, revoke (or lose) all partitions, and leave the group."""
        until = math.inf if timeout_ms is None else time.monotonic() + timeout_ms / 1000
        if autocommit:
            self._maybe_auto_commit_offsets_sync(timeout_ms=timeout_ms)
        try:
            self.on_io_thread(self.handle, events.CloseRequested())
            self.listener_calls.end_if_under_way()
            self.listener_calls.call(is_committed=True)
        except Exception as error:
            self._session.log_and_wrap("the close failed, so the consumer leaves at once", error)
            self.listener_calls.tell_lost(self._member.owned)
            self.on_io_thread(self._session.leave_in_any_case)
        if self._session.leave_task is not None:
            try:
                self._net.run(self.wait_for, self._session.leave_task, timeout_ms)
            except Errors.KafkaTimeoutError as error:
                log.info("group %r: leaving was not answered: %s", self.group_id, error)
        self.on_io_thread(self._session.warm_ups.end, until - time.monotonic())
        self.on_io_thread(self._join_wanted.notify)
        self.on_io_thread(self._session.stop)
        self._cluster.remove_listener(WeakMethod(self._handle_metadata_update))
        try:
            self._net.run(self.close_connections)
        except Exception as error:
            log.info("group %r: its connections are closed by kafka-python: %r", self.group_id, error)
