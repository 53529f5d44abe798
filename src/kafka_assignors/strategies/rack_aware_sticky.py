"""`rack-aware-sticky`: balance first, then as few partitions as possible consumed across racks, then as few
moves as possible.

`sticky` and `cooperative-sticky` put movement before racks, and so a partition stays where it is although
another member could read it in its own rack. That is right for names which other clients share and where
racks are a nicety. Where traffic between racks is paid for, this strategy moves the partition once and saves
from then on.

The name is our own: no other client has it, and its user data are ours. It is one name for both protocols, as
Kafka's CooperativeStickyAssignor is: members vote on names, so with two of them a group could not be brought
from the one protocol to the other by a rolling restart (KIP-429). What a member still holds is in its
subscription, which is how a leader tells eager members from cooperative ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.claims import Claims, judge_claims
from kafka_assignors.group import Assignment, Group
from kafka_assignors.solver import RackPreference, solve
from kafka_assignors.strategies.contract import Criterion, RebalanceProtocol

__all__ = ["RackAwareSticky"]


@dataclass(frozen=True, slots=True)
class RackAwareSticky:
    """Exactly optimal in balance, then rack misses, then movement, under either protocol."""

    name = "rack-aware-sticky"
    version = 0
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    criteria = (Criterion.BALANCE, Criterion.RACKS, Criterion.MOVEMENT)
    follows_racks = True

    def assign(self, group: Group) -> Assignment:
        """The target for the group; the leader withholds what somebody still has to give up."""
        return self.assign_judged(group, judge_claims(group))

    def assign_judged(self, group: Group, claims: Claims) -> Assignment:
        """The same, with the claims that the leader has judged."""
        return solve(group, claims, racks=RackPreference.BEFORE_MOVEMENT)
