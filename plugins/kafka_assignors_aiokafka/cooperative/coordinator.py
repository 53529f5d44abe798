"""The coordinator of a cooperative consumer: it carries out what the machine decides.

`kafka_assignors.rebalance` decides when to join, what to claim, what to revoke and which commits may be sent;
a `Session` sends the requests, by `requests`. This file carries out the other actions: it installs
assignments, and calls the listener. It never decides whether something is allowed.

    the loop            begins a join when the machine wants one and the coordinator is known
    heartbeats          always, also during joins
    automatic commits   every `auto_commit_interval_ms`

The consumer goes on fetching meanwhile; joins have a connection of their own (see `requests`).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import aiokafka.errors as Errors
from aiokafka.consumer.group_coordinator import UNKNOWN_OFFSET
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from aiokafka.util import wait_for

from kafka_assignors.rebalance import MemberState, Phase, Settings, events, lease
from kafka_assignors.rebalance.session import Session
from kafka_assignors_aiokafka.cooperative.listener import ListenerCalls, WarmUpTask, check_listener
from kafka_assignors_aiokafka.cooperative.subscription import CooperativeAssignment
from kafka_assignors_aiokafka.cooperative.topics import WatchingCoordinator

log = logging.getLogger("kafka_assignors_aiokafka")


class FencedInstanceIdError(Errors.KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Another process joined with the same `group_instance_id`; this consumer cannot rejoin."""


class CooperativeCoordinator(WatchingCoordinator):
    """One member of one group: the `Client` of its session (`kafka_assignors.rebalance.client`)."""

    _commit_refresh_task: Any
    _enable_auto_commit: bool

    def __init__(
        self,
        client: Any,
        subscription: Any,
        *,
        fetcher: Any,
        rack: str | None,
        observer: Any,
        max_warming: int,
        warm_timeout_s: float,
        **settings: Any,
    ) -> None:
        """`settings` are those of aiokafka's coordinator; `rack` is the member's rack for the group."""
        self._fetcher = fetcher
        self._member = MemberState(
            Settings(
                session_timeout=settings["session_timeout_ms"] / 1000,
                rebalance_timeout=settings["rebalance_timeout_ms"] / 1000,
                max_poll_interval=settings["max_poll_interval_ms"] / 1000,
                static=settings["group_instance_id"] is not None,
            )
        )
        self._assignment = CooperativeAssignment()
        self._changed = asyncio.Event()
        self._actions_under_way: set[asyncio.Task[None]] = set()
        self._user_called = False
        self._is_installed = self._is_broken = False
        super().__init__(client, subscription, **settings)
        self._session = Session(
            self,
            settings["assignors"],
            group_id=self.group_id,
            instance_id=self._group_instance_id,
            rack=rack,
            heartbeat_interval_s=self._heartbeat_interval_ms / 1000,
            retry_backoff_s=self._retry_backoff_ms / 1000,
            log=log,
            observers=[observer],
            max_warming=max_warming,
            warm_timeout_s=warm_timeout_s,
        )
        self._listener_calls = ListenerCalls(self, subscription, self._session)
        subscription.serve(fetcher, self._session.log_and_wrap)
        subscription.on_change = self._on_subscription_change
        subscription.on_listener = self._on_listener_change
        subscription.check_listener = partial(check_listener, self._session.protocol)
        subscription.check_listener(subscription.listener)
        self._session.warm_ups.listener_is(subscription.listener)
        if subscription.partitions_auto_assigned() and subscription.subscription is not None:
            self._on_subscription_change(subscription.subscription.topics)

    # ---- the machine

    def handle(self, event: events.Event, now: float | None = None) -> None:
        before, now = self._member, lease.clock() if now is None else now
        self._member, actions = before.handle(event, now)
        self._session.observers.stepped(before, event, self._member, actions, now)
        # Attributes of aiokafka, for aiokafka's methods.
        membership = self._member.membership
        self.generation, self.member_id = membership.generation, membership.member_id
        for action in actions:
            self._carry_out(action)
        self._assignment.deliver(self._member.deliverable)
        self._is_installed = self._is_installed and self._member.in_group
        self._subscription.lease_until = self._member.lease_until if self._is_installed else -math.inf
        self._subscription.wake()
        self._look_again()
        self._session.look()

    def _look_again(self) -> None:
        """Wake the tasks that wait for the machine: to want a join or a call, or to be closed."""
        if self._member.must_join or self._member.call is not None or self._member.closing:
            self._changed.set()

    @property
    def member(self) -> MemberState:
        return self._member

    @property
    def is_closed(self) -> bool:
        """Whether the consumer was stopped and its tasks are ending."""
        return bool(self._closing.done())

    @property
    def longest_call_s(self) -> float:
        """How many seconds a call of the listener may take while the consumer stops."""
        return float(self._max_poll_interval)

    @property
    def retries_commits(self) -> bool:
        """Whether a commit without a response is sent again: not while the consumer is being stopped."""
        return not self._member.closing

    def _carry_out(self, action: events.Action) -> None:
        match action:
            case events.Install(partitions):
                self._install(partitions)
            case events.CallDue():
                self._listener_calls.start(action)
            case events.Revoke() | events.Lose() | events.Announce():
                self._listener_calls.begins(action)
            case events.Fail(reason):
                self._subscription.fail(FencedInstanceIdError(f"group {self.group_id!r}: {reason}"))
            case _:
                self._session.carry_out(action)

    def spawn(self, task: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        running = asyncio.ensure_future(task)
        self._actions_under_way.add(running)
        running.add_done_callback(self._ended)
        return running

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._actions_under_way.discard(task)
        self._look_again()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """Raise an unexpected error in every later call: only `close` still works."""
        self._is_broken = True
        self._subscription.fail(self._session.log_and_wrap("the consumer cannot go on, close it", error))
        self._changed.set()

    def _install(self, partitions: events.Partitions) -> None:
        self._is_installed = True
        self._subscription.was_assigned = bool(self._member.topics)
        for tp in self._assignment.become(TopicPartition(*partition) for partition in partitions):
            self._fetcher._records.pop(tp, None)
        self._fetcher._notify(self._fetcher._wait_consume_future)

    # ---- events of the user and of metadata

    def _on_subscription_change(self, topics: frozenset[str]) -> None:
        assignment = self._subscription.subscription.assignment
        if isinstance(assignment, CooperativeAssignment) and assignment is not self._assignment:
            self._assignment = assignment
            self.start_commit_offsets_refresh_task(assignment)
        self.handle(events.SubscriptionChanged(frozenset(topics)))
        self._changed.set()

    def _on_listener_change(self) -> None:
        self._session.warm_ups.listener_is(self._subscription.listener)
        if self._member.owned and self._listener_calls.must_announce_all:
            # The listener is told at the end of a join, as in aiokafka, which joins after each `subscribe`.
            self.handle(events.RejoinRequested("subscribe() was called with another listener"))

    def _handle_metadata_update(self, cluster: Any) -> None:
        self._metadata_changed.set()
        try:
            super()._handle_metadata_update(cluster)
        except Exception as error:  # Otherwise it would end the client's task.
            failure = self._session.log_and_wrap("the metadata of its topics could not be read", error)
            self._subscription.tell(failure)

    def _on_metadata_change(self) -> None:
        # A leader that waits for SyncGroup compares in `assigned`.
        if self._member.phase is not Phase.SYNCING:
            self.request_rejoin()

    def request_rejoin(self) -> None:
        """Ask the machine to join again: topics of the group have changed."""
        self.handle(events.RejoinRequested("topics of the group have changed"))

    def reset_generation(self) -> None:
        """Do nothing: the machine resets the generation."""

    def maybe_leave_group(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
    ) -> asyncio.Future[None]:
        """Do nothing: the machine leaves when the partitions that the user gave up are revoked."""
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left.set_result(None)
        return left

    async def commit_offsets(self, assignment: Any, offsets: Mapping[TopicPartition, Any]) -> None:
        """Commit; `CommitFailedError` for partitions that were not owned throughout.

        While the consumer is being stopped, KafkaTimeoutError after `session_timeout_ms`: the broker accepts
        no commit while a leader assigns, which may take long.
        """
        if isinstance(assignment, CooperativeAssignment):
            timeout_s = self._session_timeout_ms / 1000 if self._member.closing else None
            await self._session.commits.commit(offsets, timeout_s)
        else:
            await super().commit_offsets(assignment, offsets)

    # ---- warm-ups

    @property
    def warms(self) -> bool:
        return hasattr(self._subscription.listener, "on_partitions_warming")

    def warm_up(self, partitions: events.Partitions) -> WarmUpTask:
        return WarmUpTask(self._subscription.listener, partitions)

    async def drain(self, timeout_s: float | None) -> bool:
        """See `CooperativeAIOKafkaConsumer.drain`."""
        return await self._session.warm_ups.drain(timeout_s)

    # ---- errors

    def check_errors(self) -> None:
        """Raise the user's pending error; each call for records begins with it."""
        if self._member.poll_interval_exceeded:
            self.handle(events.PollIntervalChecked(lease.clock()))
        self._user_called = True
        if (error := self._subscription.take_error()) is not None:
            raise error

    def raise_to_user(self, error: Exception) -> None:
        self._user_called = False
        self._subscription.tell(error)

    @property
    def user_was_told(self) -> bool:
        return self._user_called or self._member.closing

    def heartbeat_ended(self, error: Exception | None, *, accepted: bool) -> None:
        if error is not None:
            self._subscription.tell(error)

    # ---- background tasks

    async def _coordination_routine(self) -> None:
        self.spawn(self._session.send_heartbeats())
        self.spawn(self.ask_for_missing_topics())
        self.spawn(self._autocommit_routine())
        while not self._closing.done():
            self._changed.clear()
            try:
                await self._begin_join_if_due()
                await self._raise_from_refresh_task()
            except Exception as error:
                await self._session.tell_user(self._session.log_and_wrap("a join could not begin", error))
                self._changed.set()
            await self._changed.wait()

    def coordinator_dead(self) -> None:
        super().coordinator_dead()
        self._changed.set()

    async def _begin_join_if_due(self) -> None:
        if self._subscription.subscription is None:
            return
        try:
            # Also without a join: the task that looks up committed offsets needs the coordinator.
            await self.ensure_coordinator_known()
            if not self._is_join_due:
                return
            if self._subscription.subscribed_pattern:
                await self._client.force_metadata_update()
        except Errors.KafkaError as error:
            await self._session.tell_user(error)
            self._changed.set()
            return
        if self._is_join_due and self.coordinator_id is not None:
            self.handle(events.AboutToJoin(self._session.protocol))

    @property
    def _is_join_due(self) -> bool:
        # A join that the machine has given up may still be unanswered. The next one waits for its end.
        return self._member.must_join and self._session.joins_are_answered

    async def _raise_from_refresh_task(self) -> None:
        task = self._commit_refresh_task
        if task is None or not task.done() or task.cancelled() or task.exception() is None:
            return
        await self._session.tell_user(task.exception())
        if self._commit_refresh_task is not task:  # The user has assigned partitions meanwhile.
            return
        self._commit_refresh_task = None
        if self._subscription.subscription is not None:
            self.start_commit_offsets_refresh_task(self._subscription.subscription.assignment)

    def start_commit_offsets_refresh_task(self, assignment: Any) -> None:
        """Start the task that looks up the committed offsets that the assignment needs."""
        if self.is_closed:  # No later call would end the task.
            return
        super().start_commit_offsets_refresh_task(assignment)
        self._commit_refresh_task.add_done_callback(lambda _: self._changed.set())

    async def _maybe_refresh_commit_offsets(self, assignment: Any) -> bool:
        """Look up the committed offsets that partition states have requested.

        A partition that left and came back meanwhile has a new state. The response lacks the commits of the
        owner in between, so the new state does not get it, and requests the offset again.
        """
        asking = {tp: assignment.state_value(tp) for tp in assignment.requesting_committed()}
        if not asking:
            return True
        try:
            offsets = await self._do_fetch_commit_offsets(list(asking))
        except Errors.KafkaError as error:
            if not error.retriable:
                raise
            log.debug("group %r: committed offsets: %r", self.group_id, error)
            return False
        for tp, state in asking.items():
            if assignment.state_value(tp) is state:
                state.update_committed(offsets.get(tp, OffsetAndMetadata(UNKNOWN_OFFSET, "")))
        return True

    def seconds_since_poll(self) -> float:
        return float(self._subscription.fetcher_idle_time)

    async def commit_revoked(self, partitions: set[TopicPartition]) -> None:
        """Commit the consumed offsets of revoked partitions, if commits are automatic."""
        if self._enable_auto_commit:
            await self._autocommit(self._assignment, partitions)

    async def _autocommit_routine(self) -> None:
        while self._enable_auto_commit:
            await asyncio.sleep(self._auto_commit_interval_ms / 1000)
            subscription = self._subscription.subscription
            if subscription is not None and subscription.assignment is not None:
                # What the listener commits of revoked partitions is the last word.
                kept = subscription.assignment.tps - self._member.being_revoked
                await self._autocommit(subscription.assignment, kept)

    async def _autocommit(self, assignment: Any, partitions: Iterable[TopicPartition]) -> None:
        try:
            offsets: Mapping[TopicPartition, OffsetAndMetadata] = assignment.all_consumed_offsets()
            await self.commit_offsets(assignment, {tp: offsets[tp] for tp in partitions if tp in offsets})
        except Errors.CommitFailedError as error:
            log.info("group %r: automatic commit: %s", self.group_id, error)
        except Errors.KafkaError as error:
            log.warning("group %r: automatic commit failed: %s", self.group_id, error)
            if not error.retriable:
                self._subscription.tell(error)
        except Exception as error:
            self._subscription.tell(self._session.log_and_wrap("the automatic commit failed", error))

    # ---- leaving

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that only a join, a call of the listener, or a close brings about."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def close(self) -> None:
        """Commit if commits are automatic, revoke (or lose) all partitions, and leave the group.

        If it is cancelled, another call continues. The member leaves after any failure.
        """
        if not self._closing.done():
            try:
                if not self._member.closing:
                    await self._commit_what_is_never_revoked()
                    self._listener_calls.close()
                    self.handle(events.CloseRequested())
                self._listener_calls.go_on()
                await self.until(lambda: self._is_broken or self._member.phase is Phase.CLOSED)
                # After an unexpected error the machine may never close: hence the timeout.
                closed = self.until(lambda: self._member.phase is Phase.CLOSED)
                await wait_for(closed, self._session_timeout_ms / 1000)
            except Exception as error:
                self._session.log_and_wrap("the close failed, so the consumer leaves at once", error)
                if lost := self._member.owned:
                    await self._listener_calls.tell_lost(lost)
                self._session.leave_in_any_case()
        self._enable_auto_commit = False
        self._subscription.stop()
        leaving = self._session.leave_task
        if isinstance(leaving, asyncio.Future):
            await asyncio.wait([leaving])
        await self._session.warm_ups.end()
        # Only now: after this, aiokafka does not look for the coordinator, which LeaveGroup needs.
        if not self._closing.done():
            self._closing.set_result(None)
        self._changed.set()
        tasks = [*self._actions_under_way, self._coordination_task]
        if self._commit_refresh_task is not None:
            tasks.append(self._commit_refresh_task)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._cluster.remove_listener(self._handle_metadata_update)

    async def _commit_what_is_never_revoked(self) -> None:
        """Commit partitions that the user assigned by hand; the group's are committed when revoked."""
        subscription = self._subscription.subscription
        assignment = None if subscription is None else subscription.assignment
        if self._enable_auto_commit and not isinstance(assignment, CooperativeAssignment | None):
            with suppress(asyncio.TimeoutError):
                await wait_for(self._autocommit(assignment, assignment.tps), self._session_timeout_ms / 1000)
