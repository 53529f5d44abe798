"""`cooperative-sticky`: balance first, then as few moves as possible, then racks; for incremental
rebalancing.

The name and the user data are those of Java's CooperativeStickyAssignor, so the two may share a group. Both
protocols are offered, as Java does, so that a group can be brought over by a rolling restart (KIP-429).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.claims import Claims, judge_claims
from kafka_assignors.group import Assignment, Group
from kafka_assignors.solver import RackPreference, solve
from kafka_assignors.strategies.contract import Criterion, RebalanceProtocol

__all__ = ["CooperativeSticky"]


@dataclass(frozen=True, slots=True)
class CooperativeSticky:
    """Exactly optimal in balance, then movement, then rack misses, under the cooperative protocol."""

    name = "cooperative-sticky"
    version = 0
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    criteria = (Criterion.BALANCE, Criterion.MOVEMENT, Criterion.RACKS)

    def assign(self, group: Group) -> Assignment:
        """The target for the group; the leader withholds what somebody still has to give up."""
        return self.assign_judged(group, judge_claims(group))

    def assign_judged(self, group: Group, claims: Claims) -> Assignment:
        """The same, with the claims that the leader has judged."""
        return solve(group, claims, racks=RackPreference.AFTER_MOVEMENT)
