"""`sticky`: balance first, then as few moves as possible, then racks; for members that revoke before they
join.

The name and the user data are those of Java's StickyAssignor, so the two may share a group.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.claims import judge_claims
from kafka_assignors.group import Assignment, Group
from kafka_assignors.solver import RackPreference, solve
from kafka_assignors.strategies.contract import RebalanceProtocol

__all__ = ["Sticky"]


@dataclass(frozen=True, slots=True)
class Sticky:
    """Exactly optimal in balance, then movement, then rack misses, under the eager protocol."""

    name = "sticky"
    version = 0
    protocols = (RebalanceProtocol.EAGER,)

    def assign(self, group: Group) -> Assignment:
        """The target for the group."""
        return solve(group, judge_claims(group), racks=RackPreference.AFTER_MOVEMENT)
