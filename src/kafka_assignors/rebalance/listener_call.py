"""The call of the user's listener that is running, of which a member has at most one."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from kafka_assignors.rebalance.events import Announce, Lose, Partitions, Revoke
from kafka_assignors.strategy import RebalanceProtocol

__all__ = ["ListenerCall", "Then"]


class Then(enum.Enum):
    """What follows when the listener has returned."""

    JOIN = "go on to JoinGroup"
    INSTALL = "install the assignment that took the partitions away"
    NOTHING = "nothing"
    LEAVE = "leave the group"


@dataclass(frozen=True, slots=True)
class ListenerCall:
    """A call of the user's listener that is running.

    Attributes:
        protocol: that of the join that follows.
        assigned: the assignment that is installed afterwards.
    """

    asked: Revoke | Lose | Announce
    then: Then
    protocol: RebalanceProtocol = RebalanceProtocol.COOPERATIVE
    assigned: Partitions = frozenset()
