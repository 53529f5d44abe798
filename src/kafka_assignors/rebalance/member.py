"""The member's side of a rebalance, cooperative (KIP-429) or eager, as a state machine without I/O.

Everything that decides who may read or commit a partition is here and in `progress` (the join, with its
table), `lease` and `commits`; `error_codes.CONSEQUENCES` says what an error means for the membership.

- A member **owns** a partition from the first `Install` that names it until the listener was called for its
  end (`Revoke`, `Lose`) and has returned. A JoinGroup **claims** what is owned then, with the generation of
  the last JoinGroup response, as Java does; after a loss nothing.
- **Revoke first**: what is taken away is revoked before the new assignment is installed; then the member
  rejoins. An **eager** member, one with an eager strategy in its list, revokes all before JoinGroup.
- **Loss**: UNKNOWN_MEMBER_ID always, and ILLEGAL_GENERATION when no JoinGroup is under way (else its response
  is on the way; if it never comes, it was a loss). From that instant no record is delivered. A revocation
  that was due becomes one `Lose` of all owned partitions; partitions not announced yet are not told of.
- **Commits** never outlive ownership: giving a partition up strikes it from every open commit. One
  OffsetCommit at most is under way; the machine decides on it at the moment at which it can be written.
- The end of a **lease** alone is no loss, but a revocation then waits until the coordinator answers, unless
  the member leaves. Without a poll for `max_poll_interval` it leaves, and joins again with the next poll.
- **Close** revokes. A join that is under way goes on, since the listener's commits may need its generation,
  and its assignment is not installed. (Java loses the partitions, so that their records come twice.)

`handle` returns the next state and the actions, in their order; one call of the listener is due at a time. An
event that no correct adapter can send raises `OutOfOrderError`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from kafka_assignors.group import NO_GENERATION
from kafka_assignors.rebalance import events
from kafka_assignors.rebalance.commits import NO_COMMITS, CommitStep, OpenCommits
from kafka_assignors.rebalance.error_codes import CONSEQUENCES, Consequence
from kafka_assignors.rebalance.events import (
    NO_MEMBERSHIP,
    Action,
    Event,
    Membership,
    MembershipError,
    Partition,
    Partitions,
)
from kafka_assignors.rebalance.lease import NEVER, NO_LEASE, Lease, Settings
from kafka_assignors.rebalance.progress import NO_JOIN, JoinProgress, ListenerCall, Phase, Then
from kafka_assignors.strategy import RebalanceProtocol

NOTHING: Partitions = frozenset()


class OutOfOrderError(RuntimeError):
    """The adapter reported something that cannot have happened: a fault of the adapter."""


@dataclass(frozen=True, slots=True)
class MemberState:
    """One member of one group; see the rules above.

    Attributes:
        topics: what the user subscribes to.
        poll_interval_exceeded: the user exceeded the poll interval and has not polled since.
        closing: the user closes the consumer.
    """

    settings: Settings
    topics: frozenset[str] = frozenset()
    membership: Membership = NO_MEMBERSHIP
    owned: Partitions = NOTHING
    join: JoinProgress = NO_JOIN
    lease: Lease = NO_LEASE
    call: ListenerCall | None = None
    commits: OpenCommits = NO_COMMITS
    poll_interval_exceeded: bool = False
    closing: bool = False

    # -------------------------------------------------------------------------------- what an adapter asks

    @property
    def phase(self) -> Phase:
        """How far a join has come."""
        return self.join.phase

    @property
    def in_group(self) -> bool:
        """Whether the member has a generation. Send heartbeats only then, with `membership`."""
        return self.membership.generation != NO_GENERATION

    @property
    def must_join(self) -> bool:
        """Whether `AboutToJoin` is due."""
        return (
            bool(self.topics)
            and (bool(self.join.reason) or self.topics != self.join.topics)
            and self.join.phase is Phase.IDLE
            and self.call is None
            and not self.poll_interval_exceeded
            and not self.closing
        )

    @property
    def committable(self) -> Partitions:
        """The partitions that a commit requested at this moment may carry."""
        return self.owned if self.in_group else NOTHING

    @property
    def can_commit(self) -> bool:
        """Whether `CommitsCanBeSent` is due as soon as a request can be written."""
        if not self.commits.waiting or self.commits.is_under_way or self.join.phase is Phase.SYNCING:
            return False
        if self.join.phase is Phase.JOINING and self.join.generation_refused:
            return False  # The response to JoinGroup is on the way.
        # The next join settles it, unless the join waits for the listener and that for the commit.
        return self.call is not None or not self.commits.met_rebalance

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
        return self.lease.until(self.settings)

    def has_lease(self, now: float) -> bool:
        """Whether the coordinator cannot have given the partitions away. Constant time.

        Ask before each delivery, and after anything that may have taken time.
        """
        return now < self.lease_until

    def may_call(self, now: float) -> bool:
        """Whether `AboutToCall` is due. It changes in `handle`, and a lease may end in between."""
        if self.call is None or self.call.is_running:
            return False
        if not self.call.is_revocation or not self.in_group or self.closing or not self.topics:
            return True
        return self.has_lease(now) or now < self.call.confirmed_at + self.settings.session_timeout

    @property
    def being_revoked(self) -> Partitions:
        """The partitions that the listener is told to give up: no automatic commit may name them."""
        call = self.call
        running = call is not None and call.is_running and not isinstance(call.asked, events.Announce)
        return call.asked.partitions if call is not None and running else NOTHING

    @property
    def coming(self) -> Partitions:
        """What is owned, or is installed when the listener has returned."""
        call = self.call
        if call is None or self.closing or not (self.in_group and self.topics):
            return self.owned
        return self.owned | call.assigned

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
            case events.SubscriptionChanged(topics):
                return self._subscription_changed(topics)
            case events.RejoinRequested(reason):
                return self._rejoining(reason), ()
            case events.AboutToJoin(protocol):
                if not self.must_join:
                    raise OutOfOrderError(f"AboutToJoin while the member need not or cannot join: {self}")
                return self._join(protocol)
            case events.Joined():
                return self._joined(event)
            case events.JoinFailed():
                return self._join_failed(event)
            case events.Assigned():
                return self._assigned(event, now)
            case events.SyncFailed():
                return self._sync_failed(event)
            case events.HeartbeatAnswered():
                return self._heartbeat_answered(event, now)
            case events.CommitRequested(partitions):
                return self._with(self.commits.request(partitions, self.committable))
            case events.CommitsCanBeSent(partitions):
                if not self.can_commit:
                    raise OutOfOrderError(f"CommitsCanBeSent while none may be sent: {self}")
                return self._with(self.commits.send(partitions, self.membership))
            case events.CommitAnswered():
                return self._commit_answered(event)
            case events.CommitAbandoned(partitions):
                return self._commit_abandoned(partitions)
            case events.TopicsRecreated(partitions):
                return self._with(self.commits.strike(partitions))
            case events.PollIntervalChecked(polled_at):
                return self._poll_interval_checked(polled_at, now)
            case events.AboutToCall():
                return self._about_to_call(now)
            case events.ListenerReturned():
                return self._listener_returned()
            case events.CloseRequested():
                return self._close_requested()

    # -------------------------------------------------------------------------------------------- joining

    def _rejoining(self, reason: str) -> MemberState:
        return replace(self, join=self.join.needed(reason))

    def _subscription_changed(self, topics: frozenset[str]) -> Step:
        if topics == self.topics or self.closing:
            return self, ()
        member = replace(self, topics=topics)
        return (member, ()) if topics or self.call else member._give_everything_up()

    def _join(self, protocol: RebalanceProtocol) -> Step:
        if self.owned and not self.in_group:
            return self._calling(events.Lose(self.owned), Then.JOIN, protocol)
        if going := self._revoked_before_join(protocol):
            return self._calling(events.Revoke(going), Then.JOIN, protocol)
        member = replace(self, join=self.join.begun(self.topics))
        reason = self.join.reason or "the subscription has changed"
        return member, (events.SendJoin(member.join.attempt, self.membership, self._claim(), reason),)

    def _revoked_before_join(self, protocol: RebalanceProtocol) -> Partitions:
        if protocol is RebalanceProtocol.EAGER:
            return self.owned
        return frozenset(partition for partition in self.owned if partition[0] not in self.topics)

    def _claim(self) -> Partitions:
        return self.owned

    def _joined(self, event: events.Joined) -> Step:
        if not self._awaits(event):
            return self, ()
        join = replace(self.join.after(events.Joined), generation_refused=False)
        return replace(self, join=join, membership=event.membership), (events.SendSync(event.membership),)

    def _join_failed(self, event: events.JoinFailed) -> Step:
        if not self._awaits(event):
            return self, ()
        # With `given_id` the coordinator asks for the second half of a handshake (KIP-394): no failure.
        reason = "the coordinator gave a member id" if event.given_id else "the last join failed"
        member = replace(self, join=self.join.after(events.JoinFailed).needed(reason))
        if event.given_id:
            return replace(member, membership=Membership(event.given_id, NO_GENERATION)), ()
        if CONSEQUENCES[events.JoinFailed][event.error] is not Consequence.REJOIN:
            return member._lost(event.error)
        if self.join.generation_refused:
            return member._lost(MembershipError.ILLEGAL_GENERATION)
        return member, ()

    def _awaits(self, event: events.Joined | events.JoinFailed) -> bool:
        """Whether a response belongs to the JoinGroup that is under way."""
        return self.join.expects(event) and event.attempt == self.join.attempt

    def _assigned(self, event: events.Assigned, now: float) -> Step:
        if event.membership != self.membership:
            return self, ()
        if not self.join.expects(event):
            raise OutOfOrderError(f"an assignment that was not asked for: {event}, {self.join.phase}")
        member = replace(self, join=self.join.assigned(event.fits, now), commits=self.commits.synced())
        member = member._accepted(event.sent_at, rebalancing=False)
        if self.call is not None:
            return member, ()  # Everything is being revoked.
        if not all(topic in self.topics for topic, _ in event.partitions):
            # Assigned for an older subscription: nothing of it is installed, the next one will fit.
            return member._rejoining("the subscription changed during the join"), ()
        return member._take(event.partitions)

    def _take(self, assigned: Partitions) -> Step:
        if revoked := self.owned - assigned:
            return self._calling(events.Revoke(revoked), Then.INSTALL, assigned=assigned)
        return self._install(assigned)

    def _install(self, assigned: Partitions) -> Step:
        added = assigned - self.owned
        member, actions = replace(self, owned=assigned)._calling(events.Announce(added), Then.NOTHING)
        return member, (events.Install(assigned), *actions)

    def _sync_failed(self, event: events.SyncFailed) -> Step:
        if event.membership != self.membership or not self.join.expects(event):
            return self, ()
        join = self.join.after(events.SyncFailed).needed(f"SyncGroup: {event.error.value}")
        member = replace(self, join=join, commits=self.commits.synced())
        if CONSEQUENCES[events.SyncFailed][event.error] is Consequence.REJOIN:
            return member, ()
        return member._lost(event.error)

    # -------------------------------------------------------------------------------------- the listener

    def _calling(
        self,
        asked: events.CallListener,
        then: Then,
        protocol: RebalanceProtocol = RebalanceProtocol.COOPERATIVE,
        assigned: Partitions = NOTHING,
    ) -> Step:
        call = ListenerCall(asked, then, protocol, assigned)
        return replace(self, call=call), (call.due,)

    def _about_to_call(self, now: float) -> Step:
        call = self.call
        if call is None or not self.may_call(now):
            raise OutOfOrderError(f"AboutToCall while no call of the listener can begin: {call}")
        if isinstance(call.asked, events.Announce) and not self.in_group:
            return self._never_announced(call)
        asked = events.Lose(self.owned) if call.is_revocation and not self.in_group else call.asked
        return replace(self, call=call.running(asked)), (asked,)

    def _never_announced(self, call: ListenerCall) -> Step:
        """Drop partitions that were lost before they were announced; the others are lost to the listener."""
        member, actions = replace(self, call=None)._given_up(call.asked.partitions)
        actions += (events.Install(member.owned),)
        if member.owned:
            lost = events.Lose(member.owned)
            return replace(member, call=call.running(lost)), (*actions, lost)
        member, more = member._after(call)
        return member, actions + more

    def _listener_returned(self) -> Step:
        call = self.call
        if call is None or not call.is_running:
            raise OutOfOrderError("ListenerReturned while no call of the listener was running")
        member = replace(self, call=None)
        if isinstance(call.asked, events.Announce):
            return member._after(call)
        member, actions = member._given_up(call.asked.partitions)
        if call.then is Then.INSTALL and member.in_group and member.topics and not member.closing:
            member, more = member._rejoining("partitions were revoked")._install(call.assigned)
            return member, actions + more
        following, more = member._after(call)
        return following, (*actions, events.Install(member.owned), *more)

    def _after(self, call: ListenerCall) -> Step:
        if call.then is Then.LEAVE:
            return self._leave_for_good()
        if self.closing or not self.topics:
            return self._give_everything_up()
        if call.then is Then.JOIN and not self.poll_interval_exceeded and self.join.phase is Phase.IDLE:
            return self._join(call.protocol)
        return self, ()

    def _given_up(self, partitions: Partitions) -> Step:
        """Remove the partitions from the assignment and from every open commit."""
        member, actions = self._with(self.commits.strike(partitions))
        return replace(member, owned=self.owned - partitions), actions

    # -------------------------------------------------------------------------------------------- loss

    def _lost(self, error: MembershipError) -> Step:
        if error is MembershipError.FENCED_INSTANCE_ID:
            member, actions = self._out_of_group(NO_MEMBERSHIP, "")
            member = replace(member, join=member.join.dropped("", Phase.FENCED))
            return member, (*actions, events.Fail("another process joined with the same group.instance.id"))
        # After ILLEGAL_GENERATION the member id is valid, and a join with it spares the group a wait.
        keeps_id = error is MembershipError.ILLEGAL_GENERATION
        member_id = self.membership.member_id if keeps_id else ""
        return self._out_of_group(Membership(member_id, NO_GENERATION), error.value)

    def _out_of_group(self, membership: Membership, reason: str) -> Step:
        member = replace(self, membership=membership, join=self.join.dropped(reason), lease=NO_LEASE)
        return member._with(self.commits.strike_all())

    def _heartbeat_answered(self, event: events.HeartbeatAnswered, now: float) -> Step:
        if event.membership != self.membership or not self.in_group:
            return self, ()
        if event.error is MembershipError.NONE:
            return self._heartbeat_accepted(event.sent_at, now), ()
        if event.error is MembershipError.REBALANCE_IN_PROGRESS:
            member = self._accepted(event.sent_at, rebalancing=True)._confirmed(event.sent_at, now)
            if self.join.phase is not Phase.JOINING:
                member = member._rejoining("the group is rebalancing")
            return member, ()
        return self._refused(CONSEQUENCES[events.HeartbeatAnswered][event.error], event.error)

    def _heartbeat_accepted(self, sent_at: float, now: float) -> MemberState:
        """Apply an OK heartbeat response; it renews the lease only while the lease is still valid.

        A coordinator that loads the group says OK without knowing its members.
        """
        # While it waits for SyncGroup it says OK, and it removes members whose SyncGroup is late.
        member = self._accepted(sent_at, rebalancing=self.join.phase is Phase.SYNCING)
        if self.has_lease(now):
            return member  # The coordinator cannot have removed it before.
        confirmed = self._confirmed(sent_at, now)
        if self.join.phase is Phase.IDLE and member.has_lease(now):
            return confirmed._rejoining("there was no word from the coordinator for too long")
        return confirmed

    def _confirmed(self, sent_at: float, now: float) -> MemberState:
        if self.call is None or self.has_lease(now):
            return self
        return replace(self, call=self.call.confirmed(sent_at))

    def _refused(self, consequence: Consequence, error: MembershipError) -> Step:
        if consequence is Consequence.NONE:
            return self, ()
        if consequence is Consequence.UNLESS_JOINING and self.join.phase is Phase.JOINING:
            return replace(self, join=replace(self.join, generation_refused=True)), ()
        return self._lost(error)

    def _accepted(self, sent_at: float, rebalancing: bool) -> MemberState:
        return replace(self, lease=self.lease.renewed(sent_at, rebalancing=rebalancing))

    def _poll_interval_checked(self, polled_at: float, now: float) -> Step:
        if self.closing:
            return self, ()
        exceeded = now - polled_at > self.settings.max_poll_interval
        if not exceeded or not (self.in_group or self.join.is_under_way):
            exceeded = exceeded and self.poll_interval_exceeded
            return replace(self, join=self.join.retried(now), poll_interval_exceeded=exceeded), ()
        reason = "max.poll.interval.ms was exceeded"
        member, actions = self._out_of_group(NO_MEMBERSHIP, reason)
        return replace(member, poll_interval_exceeded=True), actions + self._leave_request(reason)

    # -------------------------------------------------------------------------------------------- leaving

    def _close_requested(self) -> Step:
        if self.closing:
            raise OutOfOrderError("CloseRequested for the second time")
        member = replace(self, closing=True, join=replace(self.join, reason=""))
        return (member, ()) if self.call else member._give_everything_up()

    def _give_everything_up(self) -> Step:
        if self.owned:
            return self._calling(
                events.Revoke(self.owned) if self.in_group else events.Lose(self.owned), Then.LEAVE
            )
        return self._leave_for_good()

    def _leave_for_good(self) -> Step:
        member, actions = self._out_of_group(NO_MEMBERSHIP, "")
        if self.closing:
            member = replace(member, join=member.join.dropped("", Phase.CLOSED))
        reason = "the consumer is being closed" if self.closing else "the user unsubscribed"
        return member, actions + self._leave_request(reason)

    def _leave_request(self, reason: str) -> tuple[Action, ...]:
        if self.settings.static or not self.membership.member_id:
            return ()
        return (events.SendLeave(self.membership.member_id, reason),)

    # -------------------------------------------------------------------------------------------- commits

    def _with(self, step: CommitStep) -> Step:
        commits, actions = step
        return replace(self, commits=commits), actions

    def _commit_abandoned(self, partitions: Partitions) -> Step:
        return replace(self, commits=self.commits.without(partitions)), ()

    def _commit_answered(self, event: events.CommitAnswered) -> Step:
        if not self.commits.is_under_way:
            raise OutOfOrderError(f"no commit was sent, but it was answered: {event}")
        is_current = event.membership == self.membership and self.in_group
        consequence = CONSEQUENCES[events.CommitAnswered][event.error] if is_current else Consequence.NONE
        met_rebalance = consequence is Consequence.REJOIN
        member = replace(self, commits=self.commits.answered(event.again, met_rebalance=met_rebalance))
        if met_rebalance:
            return member._rejoining("a commit met a rebalance"), ()
        return member._refused(consequence, event.error)


Step: TypeAlias = tuple[MemberState, tuple[Action, ...]]
