"""The state machine with one rule broken at a time, each with the smallest model that detects it.

The checker must find a violation in each of them, and none in the same model with the correct machine.
Otherwise it might not check the rule at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafka_assignors.rebalance import events
from kafka_assignors.rebalance.commits import NO_COMMITS
from kafka_assignors.rebalance.events import NO_MEMBERSHIP, Membership, MembershipError, Partitions
from kafka_assignors.rebalance.member import MemberState, Step
from kafka_assignors.rebalance.progress import ListenerCall, Phase, Then
from kafka_assignors.strategy import RebalanceProtocol
from tests.rebalance_model.model import Model
from tests.rebalance_model.world import NOTHING, NOW


class AnnouncesOwnershipAfterALoss(MemberState):
    """Claims and keeps lost partitions when it joins again."""

    def _join(self, protocol: RebalanceProtocol) -> Step:
        if self.in_group or not self.owned:
            return MemberState._join(self, protocol)
        join = replace(self.join.after(events.SendJoin), attempt=self.join.attempt + 1, reason="")
        member = replace(self, join=join)
        return member, (events.SendJoin(join.attempt, self.membership, self.owned, self.join.reason),)


class InstallsBeforeRevoking(MemberState):
    """Changes the assignment first and calls the listener afterwards."""

    def _take(self, assigned: Partitions) -> Step:
        revoked = self.owned - assigned
        if not revoked:
            return MemberState._take(self, assigned)
        call = ListenerCall(events.Revoke(revoked), Then.NOTHING)
        member = replace(self, owned=assigned, call=call, join=replace(self.join, reason="revoked"))
        return member, (events.Install(assigned), call.due)


class RejoinsBeforeTheListenerIsDone(MemberState):
    """Gives partitions up in JoinGroup while the listener may still commit them."""

    @property
    def must_join(self) -> bool:
        revoking = self.call is not None and self.call.then is Then.INSTALL
        return (revoking and self.phase is Phase.IDLE) or super().must_join

    def _claim(self) -> Partitions:
        return self.owned - self.call.asked.partitions if self.call else self.owned


class DoesNotRejoinAfterRevoking(MemberState):
    """Revokes partitions without joining again."""

    def _listener_returned(self) -> Step:
        told = self.join.reason
        installing = self.call is not None and self.call.then is Then.INSTALL
        member, actions = MemberState._listener_returned(self)
        return replace(member, join=replace(member.join, reason=told)) if installing else member, actions


class IgnoresTheLease(MemberState):
    """Delivers after a freeze as if no time had passed."""

    def has_lease(self, now: float) -> bool:
        return self.in_group


class CountsTheLeaseFromTheAnswer(MemberState):
    """Starts the lease when a response arrives instead of when its request was sent."""

    def _accepted(self, sent_at: float, rebalancing: bool) -> MemberState:
        return MemberState._accepted(self, NOW, rebalancing)


class TrustsACoordinatorThatLoads(MemberState):
    """Renews the lease for every OK heartbeat response, even of a coordinator that still loads the group."""

    def _heartbeat_accepted(self, sent_at: float, now: float) -> MemberState:
        return self._accepted(sent_at, rebalancing=False)


class ForgetsTheRebalanceTimeout(MemberState):
    """Renews the lease with heartbeats while the group may complete a rebalance without it."""

    def has_lease(self, now: float) -> bool:
        return self.in_group and now - self.lease.heard_at < self.settings.session_timeout


class DeliversAfterThePollInterval(MemberState):
    """Leaves the group and keeps delivering its partitions."""

    def _poll_interval_checked(self, polled_at: float, now: float) -> Step:
        member, actions = MemberState._poll_interval_checked(self, polled_at, now)
        if not member.poll_interval_exceeded or self.phase is not Phase.IDLE:
            return member, actions
        kept = replace(member, membership=self.membership, lease=self.lease)
        return kept, actions


class ResendsCommitsOfWhatItGaveUp(MemberState):
    """Resends a commit in the new generation, although another member may own the partition already."""

    def _given_up(self, partitions: Partitions) -> Step:
        return replace(self, owned=self.owned - partitions), ()


class ResendsCommitsAfterALoss(MemberState):
    """Keeps open commits through a loss, and resends them when it is a member again."""

    def _out_of_group(self, membership: Membership, reason: str) -> Step:
        member, actions = MemberState._out_of_group(replace(self, commits=NO_COMMITS), membership, reason)
        return replace(member, commits=self.commits), actions

    def _given_up(self, partitions: Partitions) -> Step:
        if self.in_group:
            return MemberState._given_up(self, partitions)
        return replace(self, owned=self.owned - partitions), ()


class TriesAgainWhatIsSettled(MemberState):
    """Resends a whole commit, although some of its partitions were accepted or have failed permanently."""

    def _commit_answered(self, event: events.CommitAnswered) -> Step:
        everything = NOTHING if event.error is MembershipError.NONE else self.commits.resendable
        return MemberState._commit_answered(self, replace(event, again=everything))


class TakesAPartForAll(MemberState):
    """Treats a commit as done as soon as some of its partitions are accepted."""

    def _commit_answered(self, event: events.CommitAnswered) -> Step:
        return MemberState._commit_answered(self, replace(event, again=NOTHING))


class SendsTwoCommitsAtOnce(MemberState):
    """Writes the next commit before the earlier request is answered."""

    @property
    def can_commit(self) -> bool:
        return bool(self.commits.waiting) and self.phase is not Phase.SYNCING


class WritesWhatWasAbandoned(MemberState):
    """Writes a commit whose caller waits no longer."""

    def _commit_abandoned(self, partitions: Partitions) -> Step:
        return self, ()


class ForgetsWhatItGaveUpWhileACommitIsUnderWay(MemberState):
    """Tries a commit again for partitions that it gave up after the request was written."""

    def _given_up(self, partitions: Partitions) -> Step:
        member, actions = MemberState._given_up(self, partitions)
        commits = replace(member.commits, resendable=self.commits.resendable)
        return replace(member, commits=commits), actions


@dataclass(frozen=True)
class ClaimsTheOldGeneration(MemberState):
    """Claims the generation of its last assignment instead of that of its last JoinGroup response."""

    assigned_as: Membership = NO_MEMBERSHIP

    def _install(self, assigned: Partitions) -> Step:
        member, actions = MemberState._install(self, assigned)
        return replace(member, assigned_as=self.membership), actions  # type: ignore[call-arg]

    def _join(self, protocol: RebalanceProtocol) -> Step:
        member, actions = MemberState._join(self, protocol)
        claim = actions[-1]
        if isinstance(claim, events.SendJoin) and claim.owned:
            claim = replace(
                claim, membership=replace(claim.membership, generation=self.assigned_as.generation)
            )
        return member, (*actions[:-1], claim)


class EagerKeepsItsPartitions(MemberState):
    """Uses an eager strategy without revoking before it joins."""

    def _revoked_before_join(self, protocol: RebalanceProtocol) -> Partitions:
        return MemberState._revoked_before_join(self, RebalanceProtocol.COOPERATIVE)


class RevokesWhatIsLost(MemberState):
    """Tells the listener what was true when the call was due, not what is true when it begins."""

    def _about_to_call(self, now: float) -> Step:
        call = self.call
        assert call is not None
        return replace(self, call=call.running(call.asked)), (call.asked,)


class LosesAPart(MemberState):
    """Tells the listener that the partitions are lost that it was about to be told are revoked."""

    def _about_to_call(self, now: float) -> Step:
        call = self.call
        assert call is not None
        asked = call.asked if self.in_group else events.Lose(call.asked.partitions)
        return replace(self, call=call.running(asked)), (asked,)


class TellsTwice(MemberState):
    """Loses everything when a call has begun, and tells of a part of it when the call has returned."""

    def _given_up(self, partitions: Partitions) -> Step:
        return MemberState._given_up(self, partitions if self.in_group else NOTHING)


class NeverAsksAgain(MemberState):
    """Waits for the lease to come back before it calls revoked, although only a join would renew it."""

    def _confirmed(self, sent_at: float, now: float) -> MemberState:
        return self


class RevokesWithoutALease(MemberState):
    """Calls revoked after a freeze, without the coordinator's word that it is still a member."""

    def may_call(self, now: float) -> bool:
        return self.call is not None and not self.call.is_running


def _model(machine: type[MemberState], *events: str, **settings: object) -> Model:
    return Model(machine=machine, events=frozenset(events), **settings)  # type: ignore[arg-type]


MUTATIONS: tuple[Model, ...] = (
    _model(AnnouncesOwnershipAfterALoss, "lose", "poll"),
    _model(InstallsBeforeRevoking),
    _model(RejoinsBeforeTheListenerIsDone, "commit"),
    _model(DoesNotRejoinAfterRevoking),
    _model(IgnoresTheLease, "time"),
    _model(CountsTheLeaseFromTheAnswer, "time", "late"),
    _model(TrustsACoordinatorThatLoads, "time", "load"),
    _model(ForgetsTheRebalanceTimeout, "time", "timeout"),
    _model(DeliversAfterThePollInterval, "poll"),
    _model(ResendsCommitsOfWhatItGaveUp, "commit", "lose"),
    _model(ResendsCommitsAfterALoss, "commit", "poll"),
    _model(TriesAgainWhatIsSettled, "commit", "partly"),
    _model(TakesAPartForAll, "commit", "partly"),
    _model(SendsTwoCommitsAtOnce, "commit"),
    _model(WritesWhatWasAbandoned, "commit", "abandon"),
    _model(ForgetsWhatItGaveUpWhileACommitIsUnderWay, "commit", "lose"),
    _model(ClaimsTheOldGeneration, "subscribe", leading="older"),
    _model(EagerKeepsItsPartitions, leading="eager", kinds=("eager", "eager")),
    _model(RevokesWhatIsLost, "poll"),
    _model(LosesAPart, "poll"),
    _model(TellsTwice, "poll"),
    _model(NeverAsksAgain, "time", "timeout"),
    _model(RevokesWithoutALease, "time", rebalance_timeout=2),
)
"""The broken machines, each in the smallest model that detects it."""

LEADER_MUTATIONS: tuple[Model, ...] = (
    Model(leading="eager", events=frozenset()),
    Model(leading="older", events=frozenset({"lose"})),
)
"""Leaders that withhold nothing, or nothing that is claimed with an older generation."""
