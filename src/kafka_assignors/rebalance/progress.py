"""How far a join has come, and why the member has to join again.

The table `TRANSITIONS` says how the phase moves. The rest of `JoinProgress` is what a member remembers from
one join to the next: the reason for the next one, and the pauses after assignments that do not fit.

A leader with a fault assigns topics to which the member does not subscribe, or partitions that do not exist.
The member takes the rest and joins again: after a second, and after twice as long each time, up to five
minutes, since each join may cost the group a rebalance. (A static member that restarts with another
subscription is assigned topics of its former process, and one join corrects that.)

A call of the user's listener, of which a member has at most one, may have to return before the join goes on:
`ListenerCall` says what follows it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafka_assignors.rebalance import events
from kafka_assignors.rebalance.events import CallListener, Partitions
from kafka_assignors.rebalance.lease import NEVER
from kafka_assignors.strategy import RebalanceProtocol

_FIRST_REJOIN_S = 1.0
_LAST_REJOIN_S = 300.0
"""How long a member waits before it joins again after an assignment that did not fit."""


class Phase(enum.Enum):
    """How far a join has come."""

    IDLE = "no join is under way"
    JOINING = "JoinGroup is under way"
    SYNCING = "SyncGroup is under way"
    FENCED = "another process has the instance id"
    CLOSED = "closed"


TRANSITIONS: Mapping[Phase, Mapping[type, Phase]] = {
    Phase.IDLE: {events.SendJoin: Phase.JOINING},
    Phase.JOINING: {events.Joined: Phase.SYNCING, events.JoinFailed: Phase.IDLE},
    Phase.SYNCING: {events.Assigned: Phase.IDLE, events.SyncFailed: Phase.IDLE},
    Phase.FENCED: {},
    Phase.CLOSED: {},
}
"""The phase after a request was sent or a response came. Without an entry in the table, the response belongs
to a join that the member has given up, and is ignored. In addition, every phase becomes IDLE when the member
is out of the group, FENCED after FENCED_INSTANCE_ID, and CLOSED at the end of `CloseRequested`."""


@dataclass(frozen=True, slots=True)
class JoinProgress:
    """The phase, and what the next join depends on.

    Attributes:
        topics: the subscription in the last JoinGroup request.
        reason: why the member must join, apart from a change of its subscription; empty if it need not.
        attempt: the number of the last JoinGroup request.
        generation_refused: the coordinator has refused the present generation while JoinGroup was under way.
        misfits: how many assignments in a row did not fit.
        retry_at: when the member joins again because the last assignment did not fit; inf if it fitted.
    """

    phase: Phase = Phase.IDLE
    topics: frozenset[str] = frozenset()
    reason: str = ""
    attempt: int = 0
    generation_refused: bool = False
    misfits: int = 0
    retry_at: float = math.inf

    @property
    def is_under_way(self) -> bool:
        """Whether the member waits for the response to a JoinGroup or SyncGroup request."""
        return self.phase in (Phase.JOINING, Phase.SYNCING)

    def expects(self, event: events.Joined | events.JoinFailed | events.Assigned | events.SyncFailed) -> bool:
        """Whether a response belongs to the join that is under way, as far as its phase tells."""
        return type(event) in TRANSITIONS[self.phase]

    def after(self, message: type) -> JoinProgress:
        """The progress after a request or response of this type."""
        return replace(self, phase=TRANSITIONS[self.phase][message])

    def begun(self, topics: frozenset[str]) -> JoinProgress:
        """The progress when the next JoinGroup request is sent, with this subscription."""
        return replace(
            self.after(events.SendJoin),
            attempt=self.attempt + 1,
            topics=topics,
            reason="",
            retry_at=math.inf,
            generation_refused=False,
        )

    def needed(self, reason: str) -> JoinProgress:
        """The progress of a member that has to join, for this reason unless it has one already."""
        return self if self.reason else replace(self, reason=reason)

    def dropped(self, reason: str, phase: Phase = Phase.IDLE) -> JoinProgress:
        """The progress of a member that is out of the group; it joins again if there is a reason."""
        return JoinProgress(phase, reason=reason, attempt=self.attempt, misfits=self.misfits)

    def assigned(self, fits: bool, now: float) -> JoinProgress:
        """The progress after an assignment; if it does not fit, join again after a pause, which doubles."""
        join = self.after(events.Assigned)
        if fits:
            return replace(join, misfits=0)
        pause_s = min(_FIRST_REJOIN_S * 2**self.misfits, _LAST_REJOIN_S)
        # The count stops with the pause, so that the power of 2 stays within a float.
        misfits = self.misfits + (pause_s < _LAST_REJOIN_S)
        return replace(join, misfits=misfits, retry_at=now + pause_s)

    def retried(self, now: float) -> JoinProgress:
        """The progress once the pause after an assignment that did not fit is over, if it is."""
        if now < self.retry_at:
            return self
        return replace(self, retry_at=math.inf).needed("the last assignment did not fit this member")


NO_JOIN = JoinProgress()


class Then(enum.Enum):
    """What follows when the listener has returned."""

    JOIN = "go on to JoinGroup"
    INSTALL = "install the assignment that took the partitions away"
    NOTHING = "nothing"
    LEAVE = "leave the group"


@dataclass(frozen=True, slots=True)
class ListenerCall:
    """A call of the user's listener that is due, or is running.

    Attributes:
        asked: what the listener is told, or will be unless the membership is lost before the call begins.
        protocol: the protocol of the join that follows.
        assigned: the assignment that is installed afterwards.
        is_running: the call has begun.
        confirmed_at: when the last request was sent whose response shows that the coordinator still had this
            member although its lease had ended.
    """

    asked: CallListener
    then: Then
    protocol: RebalanceProtocol = RebalanceProtocol.COOPERATIVE
    assigned: Partitions = frozenset()
    is_running: bool = False
    confirmed_at: float = NEVER

    @property
    def due(self) -> events.CallDue:
        """What the adapter does before the call."""
        return events.CallDue(self.asked.partitions if self.is_revocation else frozenset())

    @property
    def is_revocation(self) -> bool:
        """Whether the partitions can still be committed."""
        return isinstance(self.asked, events.Revoke)

    def confirmed(self, sent_at: float) -> ListenerCall:
        """The call after a coordinator has accepted a request sent at `sent_at`, without a lease."""
        if self.is_running or not self.is_revocation:
            return self
        return replace(self, confirmed_at=max(self.confirmed_at, sent_at))

    def running(self, asked: CallListener) -> ListenerCall:
        """The call when it begins; `asked` is what the listener is told."""
        return replace(self, asked=asked, is_running=True, confirmed_at=NEVER)
