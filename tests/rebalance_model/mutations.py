"""The machine with one of its rules broken at a time, each with the smallest model that shows it.

The checker must catch every one of them, and nothing in the same model with the machine as it is: otherwise
it would not be known to look at the rule at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kafka_assignors.rebalance.commits import Commit
from kafka_assignors.rebalance.member import Member, Phase, Step, _Call, _Then
from kafka_assignors.rebalance.values import (
    NOBODY,
    Install,
    Membership,
    Partitions,
    Revoke,
    SendJoin,
)
from kafka_assignors.strategy import RebalanceProtocol
from tests.rebalance_model.model import Model
from tests.rebalance_model.world import NOTHING, NOW

__all__ = ["LEADER_MUTATIONS", "MUTATIONS"]


class AnnouncesOwnershipAfterALoss(Member):
    """Claims and keeps what was lost when it joins anew."""

    def _join(self, protocol: RebalanceProtocol) -> Step:
        if self.in_group or not self.owned:
            return Member._join(self, protocol)
        member = replace(self, phase=Phase.JOINING, attempt=self.attempt + 1, rejoin_reason="")
        return member, (SendJoin(member.attempt, self.membership, self.owned, self.rejoin_reason),)


class InstallsBeforeRevoking(Member):
    """Changes the assignment first and calls the listener then."""

    def _take(self, assigned: Partitions) -> Step:
        revoked = self.owned - assigned
        if not revoked:
            return Member._take(self, assigned)
        call = _Call(Revoke(revoked), _Then.NOTHING)
        member = replace(self, owned=assigned, call=call, rejoin_reason="revoked")
        return member, (Install(assigned), Revoke(revoked))


class RejoinsBeforeTheListenerIsDone(Member):
    """Says that it let go while the listener may still commit."""

    @property
    def must_join(self) -> bool:
        revoking = self.call is not None and self.call.then is _Then.INSTALL
        return (revoking and self.phase is Phase.IDLE) or super().must_join

    def _claim(self) -> Partitions:
        return self.owned - self.call.asked.partitions if self.call else self.owned


class DoesNotRejoinAfterRevoking(Member):
    """Gives partitions up and tells nobody."""

    def _listener_returned(self) -> Step:
        told = self.rejoin_reason
        installing = self.call is not None and self.call.then is _Then.INSTALL
        member, actions = Member._listener_returned(self)
        return replace(member, rejoin_reason=told) if installing else member, actions


class IgnoresTheLease(Member):
    """Delivers after a freeze as if no time had passed."""

    def has_lease(self, now: float) -> bool:
        return self.in_group


class CountsTheLeaseFromTheAnswer(Member):
    """Takes the arrival of a response, which may be old, for a sign of life."""

    def _accepted(self, sent_at: float, rebalancing: bool) -> Member:
        return Member._accepted(self, NOW, rebalancing)


class TrustsACoordinatorThatLoads(Member):
    """Takes every heartbeat that is answered OK for a sign that it is counted in."""

    def _heartbeat_accepted(self, sent_at: float, now: float) -> Member:
        return self._accepted(sent_at, rebalancing=False)


class ForgetsTheRebalanceTimeout(Member):
    """Takes answered heartbeats for a lease while the group may rebalance without it."""

    def has_lease(self, now: float) -> bool:
        return self.in_group and now - self.heard_at < self.settings.session_timeout


class DeliversAfterThePollInterval(Member):
    """Leaves the group and goes on with its partitions."""

    def _checked(self, polled_at: float, now: float) -> Step:
        member, actions = Member._checked(self, polled_at, now)
        if not member.stalled or self.phase is not Phase.IDLE:
            return member, actions
        kept = replace(member, membership=self.membership, heard_at=self.heard_at, stable_at=self.stable_at)
        return kept, actions


class ResendsCommitsOfWhatItGaveUp(Member):
    """Sends a commit again under the new generation, whoever owns the partition by then."""

    def _given_up(self, partitions: Partitions) -> Step:
        return replace(self, owned=self.owned - partitions), ()


class ResendsCommitsAfterALoss(Member):
    """Keeps open commits through a loss, for the time when it is a member again."""

    def _out_of_group(self, membership: Membership, reason: str) -> Step:
        member, actions = Member._out_of_group(replace(self, commits=()), membership, reason)
        return replace(member, commits=self.commits), actions

    def _given_up(self, partitions: Partitions) -> Step:
        if self.in_group:
            return Member._given_up(self, partitions)
        return replace(self, owned=self.owned - partitions), ()


class TriesAgainWhatIsSettled(Member):
    """Sends all of a commit again of which a part was accepted or has failed for good."""

    def _settled(self, commit: Commit, accepted: Partitions, failed: Partitions) -> Step:
        if accepted == commit.sent:
            return Member._settled(self, commit, accepted, failed)
        return Member._settled(self, commit, NOTHING, NOTHING)


class TakesAPartForAll(Member):
    """Takes a commit for done as soon as some of it is."""

    def _settled(self, commit: Commit, accepted: Partitions, failed: Partitions) -> Step:
        return Member._settled(self, commit, commit.sent if accepted else accepted, failed)


@dataclass(frozen=True)
class ClaimsTheOldGeneration(Member):
    """Claims the generation of its last assignment instead of that of its last JoinGroup response."""

    assigned_as: Membership = NOBODY

    def _install(self, assigned: Partitions) -> Step:
        member, actions = Member._install(self, assigned)
        return replace(member, assigned_as=self.membership), actions  # type: ignore[call-arg]

    def _join(self, protocol: RebalanceProtocol) -> Step:
        member, actions = Member._join(self, protocol)
        claim = actions[-1]
        if isinstance(claim, SendJoin) and claim.owned:
            claim = replace(
                claim, membership=replace(claim.membership, generation=self.assigned_as.generation)
            )
        return member, (*actions[:-1], claim)


class EagerKeepsItsPartitions(Member):
    """Offers an eager strategy and does not revoke before it joins."""

    def _revoked_before_join(self, protocol: RebalanceProtocol) -> Partitions:
        return Member._revoked_before_join(self, RebalanceProtocol.COOPERATIVE)


class RevokesOnCloseAfterALoss(Member):
    """Tells the listener `revoked` of partitions that somebody else may own."""

    def _give_everything_up(self) -> Step:
        if not self.owned:
            return Member._give_everything_up(self)
        return self._calling(Revoke(self.owned), _Then.LEAVE)


def _model(machine: type[Member], *events: str, **settings: object) -> Model:
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
    _model(ClaimsTheOldGeneration, "subscribe", leading="older"),
    _model(EagerKeepsItsPartitions, leading="eager", kinds=("eager", "eager")),
    _model(RevokesOnCloseAfterALoss, "close", "time"),
)
"""Broken machines, each in the smallest model that catches it."""

LEADER_MUTATIONS: tuple[Model, ...] = (
    Model(leading="eager", events=frozenset()),
    Model(leading="older", events=frozenset({"lose"})),
)
"""Leaders that do not withhold: nothing at all, or nothing that is claimed with an older generation."""
