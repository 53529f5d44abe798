"""A member's dialogue with its coordinator: the request for each action, and the event for each response.

The machine (`member`) says when to join, what to claim and which commits may be sent. A session carries that
out with the requests of a `Client`, the same for every client, and reports the responses as events:

    SendJoin    JoinGroup with all strategies at once       Joined, JoinFailed
    SendSync    SyncGroup, by a leader after assigning      Assigned, SyncFailed
    SendLeave   LeaveGroup
    SendCommit  OffsetCommit (`session_commits`)            CommitsCanBeSent, CommitAnswered
    always      Heartbeat, joins included                   PollIntervalChecked, HeartbeatAnswered

An error that says nothing about the membership is reported after the client's retry backoff, or after the
user was told, since the next try may follow the report at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from logging import Logger

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Warmth, by_topic
from kafka_assignors.messages import (
    NEVER_ASSIGNED,
    EncodedAssignments,
    JoinGroupResponse,
    LastAssignment,
    OwnAssignment,
    broker_assigns,
    read_assignment,
)
from kafka_assignors.rebalance import events, lease
from kafka_assignors.rebalance.client import Client, Outcome
from kafka_assignors.rebalance.error_codes import (
    LOOKUP_BEFORE_LEAVING_S,
    MEMBER_ID_REQUIRED,
    coordinator_moved,
    error_of,
    is_transient,
    membership_error,
)
from kafka_assignors.rebalance.events import Membership, MembershipError, Partitions
from kafka_assignors.rebalance.lead import Leader
from kafka_assignors.rebalance.observer import Observers, RebalanceObserver
from kafka_assignors.rebalance.progress import Phase
from kafka_assignors.rebalance.session_commits import SessionCommits
from kafka_assignors.rebalance.warm_ups import DEFAULT_MAX_WARMING, DEFAULT_WARM_TIMEOUT_S, WarmUps
from kafka_assignors.strategy import RebalanceProtocol
from kafka_assignors.wire import ProtocolError
from kafka_assignors.wire.warm_sections import WarmList


class Session:
    """The dialogue of one member with the coordinator of its group.

    Attributes:
        protocol: the protocol that all offered strategies support.
        strategy: the name of the strategy that the group voted for last.
        join_task: the task of the last JoinGroup or SyncGroup request, as `Client.spawn` returned it.
        leave_task: the same for LeaveGroup.
        commits: the commits of the member.
        warm_ups: what it warms.
        observers: those that are told what happens.
    """

    def __init__(
        self,
        client: Client,
        assignors: Iterable[Assignor],
        *,
        group_id: str,
        instance_id: str | None,
        rack: str | None,
        heartbeat_interval_s: float,
        retry_backoff_s: float,
        log: Logger,
        observers: Iterable[RebalanceObserver | None] = (),
        max_warming: int = DEFAULT_MAX_WARMING,
        warm_timeout_s: float = DEFAULT_WARM_TIMEOUT_S,
    ) -> None:
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self.protocol = events.common_protocol(assignor.strategy for assignor in self._assignors.values())
        self.observers = Observers((one for one in observers if one is not None), group_id, log)
        self.commits = SessionCommits(client, group_id, self.observers)
        self.warm_ups = WarmUps(
            client,
            self.observers,
            group_id=group_id,
            cooperative=self.protocol is RebalanceProtocol.COOPERATIVE,
            max_warming=max_warming,
            warm_timeout_s=warm_timeout_s,
            log=log,
        )
        self.strategy = ""
        self.join_task: object = None
        self.leave_task: object = None
        self._left_as = ""
        self._client = client
        self._group_id = group_id
        self._instance_id = instance_id
        self._rack = rack
        self._log = log
        settings = client.member.settings
        self._session_timeout_s = settings.session_timeout
        self._pace = HeartbeatPace(heartbeat_interval_s, settings.max_poll_interval)
        self._retry_backoff_s = retry_backoff_s
        self._heartbeat_due = client.wakeup()
        self._refusal_over = client.wakeup()
        self._expects_another_round = False
        self._joins_unanswered = self._leaves_unanswered = 0
        self._leader = Leader(client, group_id, log)
        self._joined: JoinGroupResponse | None = None
        self._last = NEVER_ASSIGNED
        self._has_warned = False
        self._warm: WarmList | None = None

    @property
    def joins_are_answered(self) -> bool:
        """Whether no JoinGroup or SyncGroup is under way, not even one that the machine has given up."""
        return not self._joins_unanswered

    def carry_out(self, action: events.RequestAction) -> None:
        """Carry out an action of the machine that is about a request."""
        match action:
            case events.SendJoin():
                self._joins_unanswered += 1
                self.join_task = self._client.spawn(self._join(action, self._client.member.topics))
            case events.SendSync(membership):
                self._joins_unanswered += 1
                self.join_task = self._client.spawn(self._sync(membership))
            case events.SendLeave(member_id, reason):
                self._left_as = member_id
                self._leaves_unanswered += 1
                self.leave_task = self._client.spawn(self._leave(member_id, reason))
            case events.SendCommit():
                self.commits.write(action)
            case events.CommitRefused():
                self.commits.refuse(action)

    def look(self) -> None:
        """Send the commits that are due, and end a join that the machine has given up, unless it is answered.

        Its connection may never answer. Call this after every event.
        """
        self.commits.look()
        self.warm_ups.look()
        given_up = not (self._client.member.join.is_under_way or self.joins_are_answered)
        if given_up and not self._leaves_unanswered:
            self._client.give_up(self.join_task)

    def log_and_wrap(self, what: str, error: BaseException) -> Exception:
        """Log an exception that is not Kafka's, such as a listener's; returns the error for the user."""
        member_id = self._client.member.membership.member_id
        self._log.error("group %r, member %r: %s", self._group_id, member_id, what, exc_info=error)
        failure = self._client.errors.KafkaError(f"group {self._group_id!r}: {what}: {error!r}")
        failure.__cause__ = error
        return failure

    @contextmanager
    def call_of(self, listener: object, asked: events.CallListener, partitions: Partitions) -> Iterator[None]:
        """A call of the user's listener, or none: logged when it begins, told to the observers after it."""
        self._log.info("group %r: %s", self._group_id, events.in_log(asked, partitions))
        began_at = lease.clock()
        try:
            yield
        finally:
            seconds = None if listener is None else lease.clock() - began_at
            self.observers.tell(asked.told, partitions=asked.partitions, seconds=seconds)

    # ---- JoinGroup

    async def _join(self, join: events.SendJoin, topics: frozenset[str]) -> None:
        """Send JoinGroup. The user is told of any exception, such as one of a strategy's `member_data`."""
        try:
            event = await self._join_group(join, topics)
        except Exception as error:
            failure = self.log_and_wrap("the request to join could not be made", error)
            event = events.JoinFailed(join.attempt, await self._failed(failure))
        finally:
            self._joins_unanswered -= 1
        self._client.handle(event)

    async def _join_group(
        self, join: events.SendJoin, topics: frozenset[str]
    ) -> events.Joined | events.JoinFailed:
        client = self._client
        self._log.info("group %r: joining: %s", self._group_id, join.reason)
        self._client.stop_leading()
        cooperative = self.protocol is RebalanceProtocol.COOPERATIVE
        warmth = self.warm_ups.announced(topics) if cooperative else None
        protocols = [
            (name, self._subscription(one, join, topics, warmth)) for name, one in self._assignors.items()
        ]
        sent_at = lease.clock()
        try:
            response = await client.join_group(join.membership.member_id, protocols, join.reason)
        except client.errors.KafkaError:
            await client.back_off()
            return events.JoinFailed(join.attempt, MembershipError.OTHER)
        if response.error_code == MEMBER_ID_REQUIRED:
            return events.JoinFailed(join.attempt, MembershipError.OTHER, response.member_id)
        if response.error_code:
            return events.JoinFailed(join.attempt, await self._refusal("JoinGroup", response.error_code))
        seconds = lease.clock() - sent_at
        self.observers.tell(
            "joined", seconds=seconds, generation=response.generation, leads=response.is_leader
        )
        self._joined = response
        self.strategy = response.strategy
        if response.leader_id == "" and not self._has_warned:
            self._has_warned = True
            self._log.warning("%s", broker_assigns(self._group_id, self._assignors))
        return events.Joined(join.attempt, Membership(response.member_id, response.generation))

    def _subscription(
        self, assignor: Assignor, join: events.SendJoin, topics: frozenset[str], warmth: Warmth | None
    ) -> bytes:
        held = self.protocol is RebalanceProtocol.COOPERATIVE
        last = LastAssignment(by_topic(join.owned), join.membership.generation) if held else self._last
        return assignor.subscription_with(
            last, topics, self._instance_id, self._rack, held=held, warmth=warmth
        )

    # ---- SyncGroup

    async def _sync(self, membership: Membership) -> None:
        """Send SyncGroup, as the leader after having assigned. The user is told of any exception."""
        joined = self._joined
        assert joined is not None
        try:
            event = await self._sync_group(membership, joined)
        except Exception as error:
            failure = self.log_and_wrap("its assignment could not be made", error)
            event = events.SyncFailed(membership, await self._failed(failure))
        finally:
            self._joins_unanswered -= 1
        self._client.handle(event)
        if isinstance(event, events.Assigned) and self._client.member.membership == membership:
            self.warm_ups.assigned(membership.generation, self._warm, event.partitions)
            try:
                self._follow(event.partitions, joined.strategy)
            except Exception as error:  # The strategy's `follows_racks`, for example, may raise.
                failure = self.log_and_wrap("changes of its topics cannot be followed", error)
                self._client.raise_to_user(failure)

    async def _sync_group(
        self, membership: Membership, joined: JoinGroupResponse
    ) -> events.Assigned | events.SyncFailed:
        client = self._client
        failed = partial(events.SyncFailed, membership)
        self._log.info(
            "group %r: joined generation %d as %s",
            self._group_id,
            membership.generation,
            membership.member_id,
        )
        began_at = lease.clock()
        outcome: EncodedAssignments | None = None
        if joined.is_leader:
            waits = self.protocol is RebalanceProtocol.EAGER
            try:
                outcome = await self._leader.lead(self._assignors[joined.strategy], joined, waits=waits)
            except Exception as error:
                return failed(await self._could_not_assign(repr(error), error))
            if outcome is None:
                return failed(MembershipError.OTHER)
        sent_at = lease.clock()
        try:
            assignments = {} if outcome is None else outcome.assignments
            response = await client.sync_group(membership, joined.strategy, assignments)
        except client.errors.KafkaError:
            await client.back_off()
            return failed(MembershipError.OTHER)
        if response.error_code:
            return failed(await self._refusal("SyncGroup", response.error_code))
        seconds = lease.clock() - sent_at
        self.observers.tell("synced", seconds=seconds, generation=membership.generation)
        if outcome is not None:
            self.observers.decided(joined.strategy, outcome, sent_at - began_at)
        if client.member.membership != membership:  # It has left, or was lost: it takes nothing of this.
            return failed(MembershipError.OTHER)
        try:
            assigned = await self._own_assignment(response.assignment, joined.leader_id)
        except ProtocolError as error:
            return failed(await self._could_not_assign(str(error), error))
        self._last = LastAssignment(assigned.partitions, membership.generation)
        self._warm = assigned.warm
        self.commits.failed_joins = 0
        return events.Assigned(membership, frozenset(assigned.pairs), sent_at, fits=not assigned.findings)

    def _follow(self, assigned: Partitions, strategy: str) -> None:
        """Expect a second round after an assignment, and watch for changes of topics."""
        self._expects_another_round = True
        self._heartbeat_due.notify()
        assignor = self._assignors.get(strategy)
        racks = assignor is not None and assignor.must_follow_racks([self._rack])
        self._client.assigned(assigned, racks=racks)

    async def _own_assignment(self, data: bytes, leader_id: str) -> OwnAssignment:
        """The part of an assignment that this member takes; raises `ProtocolError`."""
        client = self._client
        read = partial(read_assignment, data, leader_id, client.member.join.topics, client.partition_count)
        assigned = read()
        if assigned.lacks_metadata:
            await client.refresh_metadata()
            assigned = read()
        for finding in assigned.findings:
            self._log.warning("group %r: %s", self._group_id, finding)
        return assigned

    # ---- how JoinGroup and SyncGroup fail

    async def _refusal(self, request: str, error_code: int) -> MembershipError:
        """What an error code says about the membership, returned when the member may join again."""
        error = self._settle(error_code)
        if error is MembershipError.OTHER and is_transient(error_code):
            await self._client.back_off()
        elif error is MembershipError.OTHER:
            errors = self._client.errors
            await self._failed(error_of(request, error_code, self._group_id, errors, self._assignors))
        return error

    def _settle(self, error_code: int) -> MembershipError:
        if coordinator_moved(error_code):
            self._client.forget_coordinator(error_code)
        return membership_error(error_code)

    async def _could_not_assign(self, message: str, cause: Exception) -> MembershipError:
        error = self._client.errors.KafkaError(message)
        error.__cause__ = cause
        return await self._failed(error)

    async def _failed(self, error: Exception) -> MembershipError:
        """Tell the user why a join failed; returns when the member may join again.

        There is a pause, which doubles up to a second while one join after the other fails.
        """
        before, self.commits.failed_joins = self.commits.failed_joins, self.commits.failed_joins + 1
        await self.tell_user(error)
        if before:
            await self._refusal_over(min(self._retry_backoff_s * 2 ** min(before - 1, 30), MOST_PAUSE_S))
        return MembershipError.OTHER

    async def tell_user(self, error: Exception) -> None:
        """Raise an error to the user, and wait until it was raised: by then the cause may be corrected.

        If a commit waits for a join, that goes on: the user may wait for the commit, and make no other call.
        """
        client = self._client
        client.raise_to_user(error)
        while True:
            await client.back_off()
            member = client.member
            if client.user_was_told or (member.commits.waiting and not member.can_commit):
                return

    # ---- Heartbeat

    async def send_heartbeats(self) -> None:
        """Send heartbeats until the consumer is closed, and look whether the user still polls."""
        client, pace = self._client, self._pace
        while client.member.phase is not Phase.CLOSED:
            await self._heartbeat_due(pace.wait_s(client.seconds_since_poll()))
            if self._expects_another_round:
                self._expects_another_round = False
                pace.assigned()
                continue
            pace.waited()
            try:
                # The poll interval does not count the time of a suspended computer.
                client.handle(events.PollIntervalChecked(lease.clock() - client.seconds_since_poll()))
                is_answered = not client.member.in_group or await self.heartbeat()
            except Exception as error:
                failure = self.log_and_wrap("a heartbeat could not be sent", error)
                client.heartbeat_ended(failure, accepted=False)
                is_answered = False
            if not is_answered:
                pace.failed(self._retry_backoff_s)

    def stop(self) -> None:
        """The consumer was closed: have `send_heartbeats` return."""
        self._heartbeat_due.notify()
        self._refusal_over.notify()

    async def heartbeat(self) -> bool:
        """Send one heartbeat; whether the response tells about the membership."""
        client = self._client
        try:
            await client.find_coordinator(self._session_timeout_s)
            membership, sent_at = client.member.membership, lease.clock()
            error_code = await client.send_heartbeat(membership)
        except client.errors.KafkaError as failed:
            is_final = not getattr(failed, "retriable", False)
            client.heartbeat_ended(failed if is_final else None, accepted=False)
            return False
        error = self._settle(error_code)
        self.observers.tell("heartbeat_answered", seconds=lease.clock() - sent_at, ok=not error_code)
        client.handle(events.HeartbeatAnswered(membership, error, sent_at))
        if error is not MembershipError.OTHER:
            client.heartbeat_ended(None, accepted=True)
            return True
        failure = None
        if not is_transient(error_code):
            failure = error_of("Heartbeat", error_code, self._group_id, client.errors)
        client.heartbeat_ended(failure, accepted=False)
        return False

    # ---- LeaveGroup

    async def ask_before_leaving(self) -> None:
        """If the lease has ended, ask whether the member is in the group still, for a few seconds at most.

        A member that leaves tells its listener what it knows then; any other waits for the answer.
        """
        client = self._client
        member = client.member
        is_leaving = member.closing or not member.topics
        if is_leaving and member.owned and member.in_group and not member.has_lease(lease.clock()):
            answered = Outcome(client)
            client.spawn(self._ask(answered))
            with suppress(client.errors.KafkaError):
                await answered.wait(LOOKUP_BEFORE_LEAVING_S)

    async def _ask(self, answered: Outcome) -> None:
        try:
            await self.heartbeat()
        except Exception as error:
            self.log_and_wrap("a heartbeat could not be sent", error)
        finally:
            answered.resolve()

    async def _leave(self, member_id: str, reason: str) -> None:
        client = self._client
        self._log.info("group %r: leaving: %s", self._group_id, reason)
        try:
            await client.find_coordinator(LOOKUP_BEFORE_LEAVING_S)
            await client.leave_group(member_id, reason)
        except client.errors.KafkaError as error:
            self._log.info(
                "group %r: could not leave, the session will end by itself: %r", self._group_id, error
            )
        except Exception as error:
            self.log_and_wrap("could not leave, the session will end by itself", error)
        finally:
            self._leaves_unanswered -= 1
        self.look()

    def leave_in_any_case(self) -> None:
        """Send LeaveGroup if the machine cannot ask for it any more."""
        member = self._client.member
        member_id = member.membership.member_id
        if member_id not in ("", self._left_as) and not member.settings.static:
            self.carry_out(events.SendLeave(member_id, "an error"))


MOST_PAUSE_S = 1.0
"""The longest pause between joins that are refused, or requests for topics that are missing, as
`retry.backoff.max.ms` of Java."""

_AFTER_AN_ASSIGNMENT_S = 0.02
"""The second round of a cooperative rebalance begins when the old owners have revoked, most of them within
milliseconds. Other members learn of it by a heartbeat alone, and the partitions that move wait for them."""

_BEYOND_S = 0.001
"""The heartbeat task looks this much later, to find the poll interval exceeded and not just reached."""


class HeartbeatPace:
    """How long to wait until the next heartbeat: the interval, but less for a moment after an assignment.

    Durations are in seconds. The clock is the caller's.
    """

    def __init__(self, interval_s: float, max_poll_interval_s: float) -> None:
        self._interval_s = interval_s
        self._max_poll_interval_s = max_poll_interval_s
        self._pause_s = interval_s

    def wait_s(self, since_poll_s: float) -> float:
        """The time until the next heartbeat, or until the poll interval is exceeded if that comes first.

        `since_poll_s`: how long ago the user last polled.
        """
        left_s = self._max_poll_interval_s - since_poll_s
        return min(self._pause_s, left_s + _BEYOND_S) if left_s > 0 else self._pause_s

    def assigned(self) -> None:
        """The member was assigned: the next heartbeat comes soon."""
        self._pause_s = min(_AFTER_AN_ASSIGNMENT_S, self._interval_s)

    def waited(self) -> None:
        """The wait is over: the next one is twice as long, up to the interval."""
        self._pause_s = min(2 * self._pause_s, self._interval_s)

    def failed(self, retry_s: float) -> None:
        """The heartbeat got no answer: the next comes after `retry_s`."""
        self._pause_s = min(retry_s, self._interval_s)
