"""The strategies of the exact solver: balance first, then few moves and few rack misses.

The names and the user data are those of Java's assignors, so members of both kinds may share a group. As in
Java, `sticky` is for members that revoke before they join, and `cooperative-sticky` offers both protocols, so
that a rolling restart can change a group over (KIP-429).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.criteria import MOVES_THEN_RACKS
from kafka_assignors.group import Assignment, Group
from kafka_assignors.solver import solve
from kafka_assignors.strategy import RebalanceProtocol, Strategy


class ExactStrategy(Strategy):
    """A strategy whose target is the solver's: exactly the best by its `criteria`, on its `balance_scale`."""

    __slots__ = ()

    criteria = MOVES_THEN_RACKS

    def assign(self, group: Group) -> Assignment:
        assert self.criteria is not None
        return solve(group, group.claims, self.criteria, scale=self.balance_scale(group))


@dataclass(frozen=True, slots=True)
class Sticky(ExactStrategy):
    """Exactly optimal in balance, then movement, then rack misses, under the eager protocol."""

    name = "sticky"
    protocols = (RebalanceProtocol.EAGER,)


@dataclass(frozen=True, slots=True)
class CooperativeSticky(ExactStrategy):
    """Exactly optimal in balance, then movement, then rack misses, under the cooperative protocol."""

    name = "cooperative-sticky"
