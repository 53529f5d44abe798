"""The member's side of a rebalance, cooperative (KIP-429) or eager, as a state machine without I/O.

Two rules make it what it is. Everything that decides who may read or commit a partition is in this file: an
adapter carries actions out and reports what happened, it never asks itself "may I?". And nothing here knows a
client, a socket, a thread or a clock: what time it is, is an argument.

The rules of a rebalance
========================

**Ownership.** A member owns a partition from the `Install` that names it first until the listener has been
told that it goes (`Revoke`, `Lose`) and has returned. It delivers records of what it owns, except what is
being revoked, what is not announced yet, and what the user no longer subscribes to.

**Claims.** A JoinGroup request claims what is really owned at that moment, with the generation of the last
JoinGroup response, as Java does: a member whose SyncGroup was answered REBALANCE_IN_PROGRESS rejoins with the
*new* generation and the *old* partitions, and its claim is as fresh as any. After a loss it claims nothing.

**Revoke first.** An assignment that takes partitions away is not installed before they are revoked, so that
the listener can still commit them and read their positions. Then it is installed, what was added is announced
(be that nothing), and the member rejoins to say that it let go. The leader's half is to withhold a partition
while anybody claims it (`kafka_assignors.leader`): only both halves together keep a partition with one owner.

**Eager** is the same machine with one difference: whatever is owned is revoked before JoinGroup is sent.
It holds as soon as one of the strategies a member offers is eager, for the vote is not known before.

**Loss.** UNKNOWN_MEMBER_ID always, and ILLEGAL_GENERATION when no JoinGroup is under way, mean that others
may own the partitions: they deliver nothing from that instant and are *lost*, not revoked. While a JoinGroup
is under way, ILLEGAL_GENERATION says only that its answer is on the way; should it never come, it was a loss.
What a response says of a membership that is no longer the present one is of no interest.

**Commits never outlive ownership.** The coordinator checks member and generation, not ownership: an old
offset sent again under a new generation can overwrite what the new owner committed. So giving a partition up
strikes it from every open commit. A commit that crossed a change of generation is sent again for the
partitions that were owned all the while, and is refused for the rest. Between JoinGroup's response and
SyncGroup's the coordinator takes no commit: it is held. A retry never follows a later commit of the same
partition: the earlier one is then done when the later one is, and refused with it. An answer that takes some
partitions of a commit settles those: only what neither was accepted nor failed for good is tried again.

**Lease.** A member may deliver only while the coordinator cannot have given its partitions away:
    - within the session timeout after it *sent* the last request that was accepted: the coordinator's own
      timer starts later, when the request arrives. The arrival of the response proves nothing, it may have
      lain in the socket of a frozen process;
    - within the rebalance timeout after it sent the last request that was accepted and *not* answered
      REBALANCE_IN_PROGRESS: a rebalance may have begun right after, and may end without us. From JoinGroup's
      response to SyncGroup's heartbeats are answered OK, and do not count here: the coordinator removes a
      member whose SyncGroup does not come within the rebalance timeout.
When it is over nothing is delivered, and a heartbeat that is answered OK does not bring it back: while a
coordinator that took over from another broker loads the group, it says OK to all heartbeats, also to those
of members that were removed long ago (`GroupCoordinatorService.heartbeat` of Kafka). The member joins again.
What brings the lease back is SyncGroup's answer, or a heartbeat's REBALANCE_IN_PROGRESS: these come only from
a coordinator that knows the member. The end of a lease alone loses nothing: only the coordinator can say so.

**An assignment that does not fit.** A leader with a fault assigns topics to which the member does not
subscribe, or partitions that do not exist. The member takes the rest and joins again: after a second, and
after twice as long each time, up to five minutes. Each join may cost the group a rebalance, and the leader
that has a fault now has it a moment later. But a static member that restarts with another subscription is
assigned what its former process subscribed to, and another join mends that.

**Poll interval.** A user who has not polled for `max_poll_interval` is stuck: the member leaves the group and
loses its partitions, and does not join again until the user polls.

**Close.** Partitions are revoked, or *lost* when the generation is gone. A join that is under way goes on
meanwhile: what the listener commits may need its generation. (Java calls them lost then, and whoever commits
when partitions are revoked has their records delivered twice.) What it assigns is not installed: nobody gets
what this member claims before it has left. When the listener has returned, a dynamic member leaves; a static
one stays in the group, for its next process to take its place. Whoever unsubscribes leaves in the same way.

How it is used
==============

`Member` is immutable; `handle` gives the next one and the actions, to be carried out in their order. At most
one call of the user's listener runs at a time: the actions that ask for one (`Revoke`, `Lose`, `Announce`)
come last, and `ListenerReturned` brings the next actions. Requests run meanwhile; late answers are told from
current ones by the attempt or membership they carry, and do nothing. An event that no correct adapter can
send raises `OutOfOrderError`.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from kafka_assignors.group import NO_GENERATION
from kafka_assignors.rebalance import commits as open_commits
from kafka_assignors.rebalance.commits import Commit, Commits
from kafka_assignors.rebalance.values import (
    NOBODY,
    AboutToJoin,
    Action,
    Announce,
    Answer,
    Assigned,
    Checked,
    CloseRequested,
    CommitAbandoned,
    CommitAnswered,
    CommitRequested,
    Event,
    Fail,
    HeartbeatAnswered,
    Install,
    Joined,
    JoinFailed,
    ListenerReturned,
    Lose,
    Membership,
    Partition,
    Partitions,
    Polled,
    RejoinRequested,
    Revoke,
    SendCommit,
    SendJoin,
    SendLeave,
    SendSync,
    SubscriptionChanged,
    SyncFailed,
)
from kafka_assignors.strategy import RebalanceProtocol, Strategy

__all__ = ["Member", "OutOfOrderError", "Phase", "Settings", "common_protocol"]

NOTHING: Partitions = frozenset()
NO_ACTIONS: tuple[Action, ...] = ()
NEVER = -math.inf

_FIRST_REJOIN_S = 1.0
_LAST_REJOIN_S = 300.0
"""How long a member waits before it joins again after an assignment that did not fit."""


class OutOfOrderError(RuntimeError):
    """The adapter reported something that cannot have happened: a fault of the adapter."""


class Phase(enum.Enum):
    """How far a join has come."""

    IDLE = "no join is under way"
    JOINING = "JoinGroup is under way"
    SYNCING = "SyncGroup is under way"
    FENCED = "another process has the instance id"
    CLOSED = "closed"


class _Then(enum.Enum):
    """What follows when the listener has returned."""

    JOIN = "go on to JoinGroup"
    INSTALL = "install the assignment that took the partitions away"
    NOTHING = "nothing"
    LEAVE = "leave the group"


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are in seconds. `rebalance_timeout` is what the JoinGroup request carries (Java sends
    max.poll.interval.ms); a request too old to carry one has the session timeout for it."""

    session_timeout: float
    rebalance_timeout: float
    max_poll_interval: float
    static: bool = False


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of the user's listener that is running."""

    asked: Revoke | Lose | Announce
    then: _Then
    protocol: RebalanceProtocol = RebalanceProtocol.COOPERATIVE
    assigned: Partitions = NOTHING


def common_protocol(strategies: Iterable[Strategy]) -> RebalanceProtocol:
    """What members that offer all of these strategies follow: cooperative only if each of them can."""
    if all(RebalanceProtocol.COOPERATIVE in strategy.protocols for strategy in strategies):
        return RebalanceProtocol.COOPERATIVE
    return RebalanceProtocol.EAGER


@dataclass(frozen=True, slots=True)
class Member:
    """One member of one group; see the rules above."""

    settings: Settings
    topics: frozenset[str] = frozenset()
    """What the user subscribes to."""
    joined_topics: frozenset[str] = frozenset()
    """What the last JoinGroup request said of that."""
    membership: Membership = NOBODY
    phase: Phase = Phase.IDLE
    owned: Partitions = NOTHING
    rejoin_reason: str = ""
    """Why the member has to join, besides a change of its subscription; empty if it has not."""
    stalled: bool = False
    """The user exceeded the poll interval and has not polled since."""
    attempt: int = 0
    misfits: int = 0
    """How many assignments in a row did not fit."""
    rejoin_at: float = math.inf
    """When the member joins again since the last assignment did not fit; inf if it fitted."""
    outdated: bool = False
    """The coordinator has refused the present generation while JoinGroup was under way."""
    heard_at: float = NEVER
    """When the last request was sent that shows that the coordinator counts this member in."""
    stable_at: float = NEVER
    """The same, of those that were not answered REBALANCE_IN_PROGRESS."""
    call: _Call | None = None
    commits: Commits = ()
    closing: bool = False

    # -------------------------------------------------------------------------------- what an adapter asks

    @property
    def in_group(self) -> bool:
        """Whether the member has a generation. Only then are heartbeats to be sent, with `membership`."""
        return self.membership.generation != NO_GENERATION

    @property
    def must_join(self) -> bool:
        """Whether `AboutToJoin` is due."""
        return (
            bool(self.topics)
            and (bool(self.rejoin_reason) or self.topics != self.joined_topics)
            and self.phase is Phase.IDLE
            and self.call is None
            and not self.stalled
            and not self.closing
        )

    @property
    def committable(self) -> Partitions:
        """The partitions that a commit requested at this moment may carry."""
        return self.owned if self.in_group else NOTHING

    @property
    def deliverable(self) -> Partitions:
        """The partitions whose records may be delivered while `has_lease`. Changes in `handle` alone."""
        if not self.in_group:
            return NOTHING
        held_back = self.call.asked.partitions if self.call else NOTHING
        return frozenset(partition for partition in self.owned - held_back if partition[0] in self.topics)

    @property
    def lease_until(self) -> float:
        """When the lease ends; -inf if there is none. Changes in `handle` alone."""
        if not self.in_group:
            return NEVER
        return min(
            self.heard_at + self.settings.session_timeout, self.stable_at + self.settings.rebalance_timeout
        )

    def has_lease(self, now: float) -> bool:
        """Whether the coordinator cannot have given the partitions away. To be asked before each delivery,
        after whatever may have taken time. Constant time."""
        return now < self.lease_until

    def may_deliver(self, partition: Partition, now: float) -> bool:
        """Whether a record of this partition may be delivered now. Constant time."""
        return (
            partition in self.owned
            and self.has_lease(now)
            and partition[0] in self.topics
            and (self.call is None or partition not in self.call.asked.partitions)
        )

    # ------------------------------------------------------------------------------------------- the machine

    def handle(self, event: Event, now: float) -> Step:
        """The member after an event, and what to do. Raises `OutOfOrderError`."""
        match event:
            case SubscriptionChanged(topics):
                return self._subscription_changed(topics)
            case RejoinRequested(reason):
                return self._rejoining(reason), ()
            case AboutToJoin(protocol):
                if not self.must_join:
                    raise OutOfOrderError(f"AboutToJoin while the member need not or cannot join: {self}")
                return self._join(protocol)
            case Joined():
                return self._joined(event)
            case JoinFailed():
                return self._join_failed(event)
            case Assigned():
                return self._assigned(event, now)
            case SyncFailed():
                return self._sync_failed(event)
            case HeartbeatAnswered():
                return self._heartbeat_answered(event, now)
            case CommitRequested():
                return self._commit_requested(event)
            case CommitAnswered():
                return self._commit_answered(event)
            case CommitAbandoned(number):
                return self._commit_abandoned(number)
            case Checked(polled_at):
                return self._checked(polled_at, now)
            case Polled():
                return replace(self, stalled=False), ()
            case ListenerReturned():
                return self._listener_returned()
            case CloseRequested():
                return self._close_requested()

    # -------------------------------------------------------------------------------------------- joining

    def _rejoining(self, reason: str) -> Member:
        return self if self.rejoin_reason else replace(self, rejoin_reason=reason)

    def _subscription_changed(self, topics: frozenset[str]) -> Step:
        if topics == self.topics or self.closing:
            return self, ()
        member = replace(self, topics=topics)
        if topics:
            return member, ()
        return (member, ()) if self.call else member._give_everything_up()

    def _join(self, protocol: RebalanceProtocol) -> Step:
        if self.owned and not self.in_group:
            return self._calling(Lose(self.owned), _Then.JOIN, protocol)
        if going := self._revoked_before_join(protocol):
            return self._calling(Revoke(going), _Then.JOIN, protocol)
        member = replace(
            self,
            phase=Phase.JOINING,
            attempt=self.attempt + 1,
            joined_topics=self.topics,
            rejoin_reason="",
            rejoin_at=math.inf,
            outdated=False,
        )
        reason = self.rejoin_reason or "the subscription has changed"
        return member, (SendJoin(member.attempt, self.membership, self._claim(), reason),)

    def _revoked_before_join(self, protocol: RebalanceProtocol) -> Partitions:
        if protocol is RebalanceProtocol.EAGER:
            return self.owned
        return frozenset(partition for partition in self.owned if partition[0] not in self.topics)

    def _claim(self) -> Partitions:
        return self.owned

    def _joined(self, event: Joined) -> Step:
        if self.phase is not Phase.JOINING or event.attempt != self.attempt:
            return self, ()  # the answer to a join that was given up
        member = replace(self, phase=Phase.SYNCING, membership=event.membership, outdated=False)
        return member, (SendSync(event.membership),)

    def _join_failed(self, event: JoinFailed) -> Step:
        if self.phase is not Phase.JOINING or event.attempt != self.attempt:
            return self, ()
        member = replace(self, phase=Phase.IDLE)._rejoining("the last join failed")
        if event.given_id:
            return replace(member, membership=Membership(event.given_id, NO_GENERATION)), ()
        if event.answer in (Answer.OTHER, Answer.REBALANCE_IN_PROGRESS):
            return member._lost(Answer.ILLEGAL_GENERATION) if self.outdated else (member, ())
        return member._lost(event.answer)

    def _assigned(self, event: Assigned, now: float) -> Step:
        if event.membership != self.membership:
            return self, ()
        if self.phase is not Phase.SYNCING:
            raise OutOfOrderError(f"an assignment nobody asked for: {event}, {self.phase}")
        member = replace(self, phase=Phase.IDLE)._accepted(event.sent_at, rebalancing=False)
        member = member._fitted() if event.fits else member._misfitted(now)
        member, commits = member._send_held_commits()
        if self.call is not None:
            return member, commits  # Everything is being revoked.
        if not all(topic in self.topics for topic, _ in event.partitions):
            # Assigned for an older subscription: nothing of it is installed, the next one will fit.
            return member._rejoining("the subscription changed during the join"), commits
        member, actions = member._take(event.partitions)
        return member, commits + actions

    def _fitted(self) -> Member:
        return replace(self, misfits=0) if self.misfits else self

    def _misfitted(self, now: float) -> Member:
        pause_s = min(_FIRST_REJOIN_S * 2**self.misfits, _LAST_REJOIN_S)
        # No more are counted than matter, of which 2 to the power is a float.
        misfits = self.misfits + (pause_s < _LAST_REJOIN_S)
        return replace(self, misfits=misfits, rejoin_at=now + pause_s)

    def _rejoined_after_misfit(self, now: float) -> Member:
        if now < self.rejoin_at or self.closing:
            return self
        return replace(self, rejoin_at=math.inf)._rejoining("the last assignment did not fit this member")

    def _take(self, assigned: Partitions) -> Step:
        if revoked := self.owned - assigned:
            return self._calling(Revoke(revoked), _Then.INSTALL, assigned=assigned)
        return self._install(assigned)

    def _install(self, assigned: Partitions) -> Step:
        member, actions = replace(self, owned=assigned)._calling(
            Announce(assigned - self.owned), _Then.NOTHING
        )
        return member, (Install(assigned), *actions)

    def _sync_failed(self, event: SyncFailed) -> Step:
        if event.membership != self.membership or self.phase is not Phase.SYNCING:
            return self, ()
        member = replace(self, phase=Phase.IDLE)._rejoining(f"SyncGroup: {event.answer.value}")
        if event.answer in (Answer.OTHER, Answer.REBALANCE_IN_PROGRESS):
            return member._send_held_commits()
        return member._lost(event.answer)

    # -------------------------------------------------------------------------------------- the listener

    def _calling(
        self,
        asked: Revoke | Lose | Announce,
        then: _Then,
        protocol: RebalanceProtocol = RebalanceProtocol.COOPERATIVE,
        assigned: Partitions = NOTHING,
    ) -> Step:
        return replace(self, call=_Call(asked, then, protocol, assigned)), (asked,)

    def _listener_returned(self) -> Step:
        call = self.call
        if call is None:
            raise OutOfOrderError("ListenerReturned while no call of the listener was running")
        member = replace(self, call=None)
        if isinstance(call.asked, Announce):
            return member._after(call)
        member, actions = member._given_up(call.asked.partitions)
        if call.then is _Then.INSTALL and member.in_group and member.topics and not member.closing:
            member, more = member._rejoining("partitions were revoked")._install(call.assigned)
            return member, actions + more
        following, more = member._after(call)
        return following, (*actions, Install(member.owned), *more)

    def _after(self, call: _Call) -> Step:
        if call.then is _Then.LEAVE:
            return self._leave_for_good()
        if self.closing or not self.topics:
            return self._give_everything_up()
        if call.then is _Then.JOIN and not self.stalled and self.phase is Phase.IDLE:
            return self._join(call.protocol)
        return self, ()

    def _given_up(self, partitions: Partitions) -> Step:
        """The partitions leave the assignment and every open commit."""
        owned = self.owned - partitions
        commits = open_commits.strike(self.commits, partitions)
        return replace(self, owned=owned, commits=commits)._finish_empty_commits()

    # -------------------------------------------------------------------------------------------- loss

    def _lost(self, answer: Answer) -> Step:
        """The coordinator has refused the present membership."""
        if answer is Answer.FENCED_INSTANCE_ID:
            member, actions = self._out_of_group(NOBODY, answer.value)
            member = replace(member, phase=Phase.FENCED, rejoin_reason="")
            return member, (*actions, Fail("another process joined with the same group.instance.id"))
        # After ILLEGAL_GENERATION the member id is good, and joining with it spares the group a wait.
        member_id = self.membership.member_id if answer is Answer.ILLEGAL_GENERATION else ""
        return self._out_of_group(Membership(member_id, NO_GENERATION), answer.value)

    def _out_of_group(self, membership: Membership, reason: str) -> Step:
        member = replace(
            self,
            membership=membership,
            phase=Phase.IDLE,
            joined_topics=frozenset(),
            rejoin_reason=reason,
            rejoin_at=math.inf,
            outdated=False,
            heard_at=NEVER,
            stable_at=NEVER,
            commits=open_commits.strike_all(self.commits),
        )
        return member._finish_empty_commits()

    def _heartbeat_answered(self, event: HeartbeatAnswered, now: float) -> Step:
        if event.membership != self.membership or not self.in_group:
            return self, ()
        if event.answer is Answer.OK:
            return self._heartbeat_accepted(event.sent_at, now), ()
        if event.answer is Answer.REBALANCE_IN_PROGRESS:
            member = self._accepted(event.sent_at, rebalancing=True)
            return (
                member if self.phase is Phase.JOINING else member._rejoining("the group is rebalancing")
            ), ()
        return self._refused(event.answer)

    def _heartbeat_accepted(self, sent_at: float, now: float) -> Member:
        """Of a coordinator that may not know who is in the group."""
        # While it waits for SyncGroup it says OK, and it removes members that are late with theirs.
        member = self._accepted(sent_at, rebalancing=self.phase is Phase.SYNCING)
        if self.has_lease(now):
            return member  # It cannot have been removed before.
        if self.phase is Phase.IDLE and member.has_lease(now):
            return self._rejoining("the coordinator was not heard of for too long")
        return self

    def _refused(self, answer: Answer) -> Step:
        if answer is Answer.OTHER:
            return self, ()
        if answer is Answer.ILLEGAL_GENERATION and self.phase is Phase.JOINING:
            return replace(self, outdated=True), ()
        return self._lost(answer)

    def _accepted(self, sent_at: float, rebalancing: bool) -> Member:
        stable_at = self.stable_at if rebalancing else max(self.stable_at, sent_at)
        return replace(self, heard_at=max(self.heard_at, sent_at), stable_at=stable_at)

    def _checked(self, polled_at: float, now: float) -> Step:
        taking_part = self.in_group or self.phase in (Phase.JOINING, Phase.SYNCING)
        if not taking_part or self.closing or now - polled_at <= self.settings.max_poll_interval:
            return self._rejoined_after_misfit(now), ()
        reason = "max.poll.interval.ms was exceeded"
        member, actions = self._out_of_group(NOBODY, reason)
        return replace(member, stalled=True), actions + self._leave_request(reason)

    # -------------------------------------------------------------------------------------------- leaving

    def _close_requested(self) -> Step:
        if self.closing:
            raise OutOfOrderError("CloseRequested for the second time")
        member = replace(self, closing=True, rejoin_reason="")
        return (member, ()) if self.call else member._give_everything_up()

    def _give_everything_up(self) -> Step:
        if self.owned:
            return self._calling(Revoke(self.owned) if self.in_group else Lose(self.owned), _Then.LEAVE)
        return self._leave_for_good()

    def _leave_for_good(self) -> Step:
        member, actions = self._out_of_group(NOBODY, "")
        if self.closing:
            member = replace(member, phase=Phase.CLOSED)
        reason = "the consumer is being closed" if self.closing else "the user unsubscribed"
        return member, actions + self._leave_request(reason)

    def _leave_request(self, reason: str) -> tuple[Action, ...]:
        if self.settings.static or not self.membership.member_id:
            return ()
        return (SendLeave(self.membership.member_id, reason),)

    # -------------------------------------------------------------------------------------------- commits

    def _commit_requested(self, event: CommitRequested) -> Step:
        if open_commits.find(self.commits, event.commit) is not None:
            raise OutOfOrderError(f"commit {event.commit} was requested before and is not at its end")
        mine = (event.partitions - event.given_up) & self.committable
        # A retry of an older commit must not come after this one.
        earlier = open_commits.supersede(self.commits, mine)
        commit = Commit(event.commit, mine, event.partitions - mine)
        member = replace(self, commits=(*earlier, commit))
        if mine and self.phase is Phase.SYNCING:
            return member, ()
        return member._send(commit)

    def _commit_answered(self, event: CommitAnswered) -> Step:
        commit = open_commits.find(self.commits, event.commit)
        if commit is None:
            return self, ()  # abandoned
        if not commit.sent:
            raise OutOfOrderError(f"commit {event.commit} was answered but not sent")
        accepted = commit.sent if event.answer is Answer.OK else event.accepted
        member, actions = self._settled(commit, accepted, event.failed)
        waits = self.phase is Phase.SYNCING
        if event.membership == self.membership and self.in_group:
            if event.answer is Answer.REBALANCE_IN_PROGRESS:
                # The next join settles it, unless that waits for the listener, and the listener for this.
                member, waits = member._rejoining("a commit met a rebalance"), self.call is None
            elif event.answer not in (Answer.OK, Answer.OTHER):
                member, refused = member._refused(event.answer)
                actions += refused
                waits = waits or self.phase is Phase.JOINING
        still_open = open_commits.find(member.commits, event.commit)
        if still_open is None or (waits and still_open.resendable):
            return member, actions
        member, more = member._send(still_open)
        return member, actions + more

    def _settled(self, commit: Commit, accepted: Partitions, failed: Partitions) -> Step:
        """The member once some of what a commit had sent needs no other try."""
        return replace(
            self, commits=open_commits.settle(self.commits, commit, accepted, failed)
        )._finish_empty_commits()

    def _commit_abandoned(self, number: int) -> Step:
        return replace(self, commits=open_commits.remove(self.commits, number))._finish_empty_commits()

    def _send(self, commit: Commit) -> Step:
        """Send what may still be sent of a commit, or say how it ended if that is known."""
        if commit.resendable:
            sent = replace(commit, sent=commit.resendable)
            member = replace(self, commits=open_commits.put(self.commits, sent))
            return member, (SendCommit(commit.number, self.membership, sent.sent),)
        return self._finish_empty_commits()

    def _send_held_commits(self) -> Step:
        member, actions = self, NO_ACTIONS
        for commit in self.commits:
            if not commit.sent:
                member, more = member._send(commit)
                actions += more
        return member, actions

    def _finish_empty_commits(self) -> Step:
        """End the commits of which nothing is left to send or to wait for."""
        commits, outcomes = open_commits.finish(self.commits)
        return replace(self, commits=commits), outcomes


Step: TypeAlias = tuple[Member, tuple[Action, ...]]
