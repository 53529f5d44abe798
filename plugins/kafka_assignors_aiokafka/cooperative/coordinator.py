"""The coordinator of a cooperative consumer: it carries out what the machine decides.

`kafka_assignors.rebalance` says when to join, what to claim, what to revoke and which commits may be sent.
Here its actions become requests and calls of the listener, and what comes back becomes its events. Nothing in
this file asks whether something is allowed.

    the loop            begins a join when the machine wants one and the coordinator is known
    heartbeats          all the time, joins included, with the membership that the machine has
    automatic commits   every `auto_commit_interval_ms`
    a task per action   a join, a sync, a commit, a call of the listener

The consumer goes on fetching meanwhile; joins have a connection of their own (`requests.JOINING`).
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
import time
from collections.abc import Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any

import aiokafka.errors as Errors
from aiokafka.client import ConnectionGroup
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from aiokafka.util import wait_for

from kafka_assignors.rebalance import HeartbeatPace, Member, Phase, Settings
from kafka_assignors.rebalance.values import (
    AboutToJoin,
    Action,
    Announce,
    Answer,
    Checked,
    CloseRequested,
    CommitDone,
    CommitRefused,
    Event,
    Fail,
    HeartbeatAnswered,
    Install,
    ListenerReturned,
    Lose,
    Partitions,
    Polled,
    RejoinRequested,
    Revoke,
    SendCommit,
    SendJoin,
    SendLeave,
    SendSync,
    SubscriptionChanged,
)
from kafka_assignors_aiokafka.cooperative import requests
from kafka_assignors_aiokafka.cooperative.commits import Commits
from kafka_assignors_aiokafka.cooperative.joins import Joins
from kafka_assignors_aiokafka.cooperative.partitions import CooperativeAssignment, again

__all__ = ["CooperativeCoordinator", "FencedInstanceIdError"]

log = logging.getLogger("kafka_assignors_aiokafka")


class FencedInstanceIdError(Errors.KafkaError):  # type: ignore[misc]  # aiokafka has no types
    """Another process joined with the same `group_instance_id`; this consumer is out for good."""


class CooperativeCoordinator(GroupCoordinator):  # type: ignore[misc]  # aiokafka has no types
    """One member of one group."""

    _commit_refresh_task: Any
    _enable_auto_commit: bool
    _group_subscription: set[str] | None

    def __init__(
        self, client: Any, subscription: Any, *, fetcher: Any, rack: str | None, **settings: Any
    ) -> None:
        """`settings` are those of aiokafka's coordinator; `rack` is what the group is told."""
        self._fetcher = fetcher
        self._member = Member(
            Settings(
                session_timeout=settings["session_timeout_ms"] / 1000,
                rebalance_timeout=settings["rebalance_timeout_ms"] / 1000,
                max_poll_interval=settings["max_poll_interval_ms"] / 1000,
                static=settings["group_instance_id"] is not None,
            )
        )
        self._assignment = CooperativeAssignment()
        self._changed = asyncio.Event()
        self._was_assigned: asyncio.Future[None] | None = None
        self._actions_under_way: set[asyncio.Task[None]] = set()
        self._fatal_error: Errors.KafkaError | None = None
        self._error_for_user: Errors.KafkaError | None = None
        self._user_called: asyncio.Future[None] | None = None
        self._is_installed = False
        self._is_broken = False
        self._leaving: asyncio.Future[None] | None = None
        super().__init__(client, subscription, **settings)
        self._commits = Commits(self)
        self._joins = Joins(self, settings["assignors"], rack)
        subscription.on_change = self._on_subscription_change
        if subscription.partitions_auto_assigned() and subscription.subscription is not None:
            self._on_subscription_change(subscription.subscription.topics)

    # ---- the machine

    def handle(self, event: Event) -> None:
        """Tell the machine what happened, and carry out what it says."""
        self._member, actions = self._member.handle(event, time.monotonic())
        # aiokafka's names, for `_leading` and for those who look.
        self.generation = self._member.membership.generation
        self.member_id = self._member.membership.member_id
        for action in actions:
            self._carry_out(action)
        self._assignment.deliver(self._member.deliverable)
        if not self._member.in_group:
            self._is_installed = False
        self._subscription.lease_until = self._member.lease_until if self._is_installed else -math.inf
        self._subscription.wake()
        self._look_again()

    def _look_again(self) -> None:
        """Have those look at the machine who wait for it to want a join, or to be closed."""
        if self._member.must_join or self._member.closing:
            self._changed.set()

    @property
    def is_closing(self) -> bool:
        """Whether the consumer is being stopped: nothing is waited for that need not come."""
        return self._member.closing

    def _carry_out(self, action: Action) -> None:
        match action:
            case Install(partitions):
                self._install(partitions)
            case Revoke() | Lose() | Announce():
                self._start(self._tell(action))
            case SendJoin():
                self._joins.under_way = self._start(self._joins.join(action, self._member.topics))
            case SendSync(membership):
                self._joins.under_way = self._start(self._joins.sync(membership))
            case SendLeave(member_id, reason):
                self._leaving = self._start(self._leave(member_id, reason, self._joins.under_way))
            case SendCommit():
                self._start(self._commits.send(action))
            case CommitDone() | CommitRefused():
                self._commits.finish(action)
            case Fail(reason):
                self._fail(FencedInstanceIdError(f"group {self.group_id!r}: {reason}"))

    def _start(self, action: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        task = asyncio.ensure_future(action)
        self._actions_under_way.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._actions_under_way.discard(task)
        self._look_again()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """Something has failed that never should."""
        log.error("group %r: the consumer cannot go on", self.group_id, exc_info=error)
        self._is_broken = True
        failure = Errors.KafkaError(f"Unexpected error during coordination {error!r}")
        failure.__cause__ = error
        self._fail(failure)
        self._changed.set()

    def _fail(self, error: Errors.KafkaError) -> None:
        """Raise this in every call for records from now on."""
        self._fatal_error = error
        self._subscription.abort(error)

    def _install(self, partitions: Partitions) -> None:
        self._is_installed = True
        for tp in self._assignment.become(TopicPartition(*partition) for partition in partitions):
            self._fetcher._records.pop(tp, None)
        self._fetcher._notify(self._fetcher._wait_consume_future)

    # ---- what the user, the clock and the metadata want

    def _on_subscription_change(self, topics: frozenset[str]) -> None:
        assignment = self._subscription.subscription.assignment
        if isinstance(assignment, CooperativeAssignment) and assignment is not self._assignment:
            self._assignment = assignment
            self.start_commit_offsets_refresh_task(assignment)
        self.handle(SubscriptionChanged(frozenset(topics)))
        self._changed.set()

    def _on_metadata_change(self) -> None:
        # What a leader learns before its SyncGroup, `rejoin_if_topics_changed` holds against its assignment.
        if self._member.phase is not Phase.SYNCING:
            self.request_rejoin()

    def request_rejoin(self) -> None:
        """Topics of the group have changed."""
        self.handle(RejoinRequested("topics of the group have changed"))

    def enforce_rebalance(self, reason: str) -> None:
        """The user wants this member to join again."""
        self.handle(RejoinRequested(reason))

    def reset_generation(self) -> None:
        """The machine knows."""

    def maybe_leave_group(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
    ) -> asyncio.Future[None]:
        """The machine leaves as soon as what the user does not want any more is revoked."""
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        left.set_result(None)
        return left

    async def commit_offsets(self, assignment: Any, offsets: Mapping[TopicPartition, Any]) -> None:
        """Commit; `CommitFailedError` for partitions that were not owned all the while."""
        if isinstance(assignment, CooperativeAssignment):
            await self._commits.commit(offsets)
        else:
            await super().commit_offsets(assignment, offsets)

    # ---- errors

    def check_errors(self) -> None:
        """Raise what the user has to know, at the begin of each call for records."""
        if self._fatal_error is not None:
            raise again(self._fatal_error)
        if self._member.stalled:
            self.handle(Polled())
        if self._user_called is not None:
            self._user_called.set_result(None)
            self._user_called = None
        if self._error_for_user is not None:
            error, self._error_for_user = self._error_for_user, None
            raise error

    def tell_user(self, error: Errors.KafkaError) -> None:
        """Raise this in the call for records that waits, or else in the next."""
        if not self._subscription.abort(error) and self._error_for_user is None:
            self._error_for_user = error

    async def _push_error_to_user(self, error: Errors.KafkaError) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The same, and wait until the user has made another call: may be it has mended what was wrong."""
        self.tell_user(error)
        if self.is_closing:  # There will be none.
            return
        if self._user_called is None:
            self._user_called = asyncio.get_running_loop().create_future()
        await asyncio.wait([self._user_called, self._closing], return_when=asyncio.FIRST_COMPLETED)

    # ---- what goes on all the time

    async def _coordination_routine(self) -> None:
        self._start(self._heartbeat_routine())
        self._start(self._autocommit_routine())
        try:
            while not self._closing.done():
                self._changed.clear()
                await self._begin_join_if_due()
                await self._raise_from_refresh_task()
                await self._changed.wait()
        except Exception as error:
            self._break(error)

    def coordinator_dead(self) -> None:
        """Look for the coordinator again."""
        super().coordinator_dead()
        self._changed.set()

    async def _begin_join_if_due(self) -> None:
        if self._subscription.subscription is None:
            return
        try:
            # Not for joins alone: the task that looks up committed offsets relies on it.
            await self.ensure_coordinator_known()
            if not self._is_join_due:
                return
            if self._subscription.subscribed_pattern:
                await self._client.force_metadata_update()
        except Errors.KafkaError as error:
            await self._push_error_to_user(error)
            self._changed.set()
            return
        if self._is_join_due and self.coordinator_id is not None:
            self.handle(AboutToJoin(self._joins.protocol))

    @property
    def _is_join_due(self) -> bool:
        # An earlier join may still be unanswered, given up by the machine: a broker has to see the end of it.
        return self._member.must_join and self._joins.are_answered

    async def _raise_from_refresh_task(self) -> None:
        task = self._commit_refresh_task
        if task is None or not task.done() or task.cancelled() or task.exception() is None:
            return
        await self._push_error_to_user(task.exception())
        self._commit_refresh_task = None
        if self._subscription.subscription is not None:
            self.start_commit_offsets_refresh_task(self._subscription.subscription.assignment)

    def start_commit_offsets_refresh_task(self, assignment: Any) -> None:
        """Look up committed offsets for whoever asks the assignment."""
        super().start_commit_offsets_refresh_task(assignment)
        self._commit_refresh_task.add_done_callback(lambda _: self._changed.set())

    async def _heartbeat_routine(self) -> None:
        pace = HeartbeatPace(self._heartbeat_interval_ms / 1000, self._max_poll_interval)
        while True:
            self._was_assigned = asyncio.get_running_loop().create_future()
            since_poll = time.monotonic() - self._polled_at()
            await asyncio.wait([self._was_assigned], timeout=pace.wait_s(since_poll))
            if self._was_assigned.done():
                pace.assigned()
                continue
            pace.waited()
            self.handle(Checked(self._polled_at()))
            if self._member.in_group and not await self._do_heartbeat():
                pace.failed(self._retry_backoff_ms / 1000)

    def _polled_at(self) -> float:
        return time.monotonic() - float(self._subscription.fetcher_idle_time)

    async def _do_heartbeat(self) -> bool:
        try:
            await self.ensure_coordinator_known()
            membership, sent_at = self._member.membership, time.monotonic()
            response = await wait_for(
                self._send_req(requests.heartbeat(self.group_id, membership, self._group_instance_id)),
                self._session_timeout_ms / 1000,
            )
        except asyncio.TimeoutError:
            self.coordinator_dead()
            return False
        except Errors.KafkaError as error:
            if not error.retriable:
                self.tell_user(error)
            return False
        answer = self.settle(response.error_code)
        self.handle(HeartbeatAnswered(membership, answer, sent_at))
        if answer is Answer.OTHER and not requests.is_transient(response.error_code):
            self.tell_user(requests.error_of(response.error_code, self.group_id))
        return answer is not Answer.OTHER

    async def _autocommit_routine(self) -> None:
        while self._enable_auto_commit:
            await asyncio.sleep(self._auto_commit_interval_ms / 1000)
            subscription = self._subscription.subscription
            if subscription is not None and subscription.assignment is not None:
                await self._autocommit(subscription.assignment, subscription.assignment.tps)

    async def _autocommit(self, assignment: Any, partitions: Iterable[TopicPartition]) -> None:
        offsets: Mapping[TopicPartition, OffsetAndMetadata] = assignment.all_consumed_offsets()
        try:
            await self.commit_offsets(assignment, {tp: offsets[tp] for tp in partitions if tp in offsets})
        except Errors.CommitFailedError as error:
            log.info("group %r: automatic commit: %s", self.group_id, error)
        except Errors.KafkaError as error:
            log.warning("group %r: automatic commit failed: %s", self.group_id, error)
            if not error.retriable:
                self.tell_user(error)

    def expect_another_round(self) -> None:
        """Send heartbeats sooner: an assignment is often followed by a second round."""
        if self._was_assigned is not None and not self._was_assigned.done():
            self._was_assigned.set_result(None)

    # ---- the listener

    async def _tell(self, asked: Revoke | Lose | Announce) -> None:
        partitions = {TopicPartition(*partition) for partition in asked.partitions}
        listener = self._subscription.listener
        match asked:
            case Announce():
                name, verb = "on_partitions_assigned", "assigned"
            case Revoke():
                name, verb = "on_partitions_revoked", "revoked"
            case Lose():
                # Java's default for listeners that do not care for the difference.
                name = (
                    "on_partitions_lost"
                    if hasattr(listener, "on_partitions_lost")
                    else "on_partitions_revoked"
                )
                verb = "lost"
        log.info("group %r: %s: %s", self.group_id, verb, sorted(partitions))
        if isinstance(asked, Revoke) and self._enable_auto_commit:
            await self._autocommit(self._assignment, partitions)
        try:
            if listener is not None:
                returned = getattr(listener, name)(partitions)
                if inspect.isawaitable(returned):
                    await returned
        except (Exception, asyncio.CancelledError) as error:
            if self._closing.done():
                raise
            log.exception("group %r: %s of %r failed", self.group_id, name, listener)
            raised = Errors.KafkaError(f"{name} of {listener!r} failed: {error!r}")
            raised.__cause__ = error
            self.tell_user(raised)
        self.handle(ListenerReturned())

    # ---- requests

    def settle(self, error_code: int) -> Answer:
        """What an error code says, the coordinator looked for elsewhere if it is not there any more."""
        if requests.coordinator_moved(error_code):
            self.coordinator_dead()
        return requests.answer_of(error_code)

    async def back_off(self) -> None:
        """Wait before the next try."""
        await asyncio.sleep(self._retry_backoff_ms / 1000)

    async def _send_req(self, request: Any) -> Any:
        if self.coordinator_id is None:
            raise Errors.GroupCoordinatorNotAvailableError()
        connection = requests.connection_of(request, ConnectionGroup.COORDINATION)
        try:
            response = await self._client.send(self.coordinator_id, request, group=connection)
        except Errors.KafkaError as error:
            log.warning("group %r: its coordinator does not answer: %r", self.group_id, error)
            self.coordinator_dead()
            raise
        if code := requests.offset_fetch_error(response):
            # aiokafka sends this request, and takes the answer for "nothing is committed".
            self.settle(code)
            raise Errors.for_code(code)()
        return response

    # ---- leaving

    async def _leave(self, member_id: str, reason: str, join: asyncio.Future[None] | None) -> None:
        log.info("group %r: leaving: %s", self.group_id, reason)
        with suppress(Errors.KafkaError, asyncio.TimeoutError):
            await wait_for(
                self._send_req(requests.leave_group(self.group_id, member_id)),
                self._session_timeout_ms / 1000,
            )
        if join is not None and join is self._joins.under_way:  # The next one may be under way already.
            self._joins.give_up()

    async def close(self) -> None:
        """Commit if commits are automatic, revoke what is owned (or lose it), and leave the group."""
        if self._closing.done() or self._member.closing:
            return
        subscription = self._subscription.subscription
        assignment = None if subscription is None else subscription.assignment
        if self._enable_auto_commit and not isinstance(assignment, CooperativeAssignment | None):
            # The user has assigned it himself, so it is never revoked. What is, is committed then.
            with suppress(asyncio.TimeoutError):
                await wait_for(self._autocommit(assignment, assignment.tps), self._session_timeout_ms / 1000)
        self.handle(CloseRequested())
        while self._member.phase is not Phase.CLOSED and not self._is_broken:
            self._changed.clear()
            await self._changed.wait()
        self._enable_auto_commit = False
        self._closing.set_result(None)
        self._changed.set()
        self._subscription.abort(Errors.ConsumerStoppedError())
        if self._leaving is not None:
            await self._leaving
        for task in (*self._actions_under_way, self._coordination_task):
            task.cancel()
        await asyncio.gather(*self._actions_under_way, self._coordination_task, return_exceptions=True)
        await self._stop_commit_offsets_refresh_task()
        self._cluster.remove_listener(self._handle_metadata_update)
