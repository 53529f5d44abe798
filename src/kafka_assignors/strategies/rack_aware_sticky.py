"""`rack-aware-sticky`: balance first, then as few partitions as possible consumed across racks, then as few
moves as possible.

`sticky` and `cooperative-sticky` put movement before racks, and so a partition stays where it is although
another member could read it in its own rack. That is right for names which other clients share and where
racks are a nicety. Where traffic between racks is paid for, this strategy moves the partition once and saves
from then on. Where a move is dear as well, `moves_per_miss` says how many of them one rack miss is worth, and
what both cost together is the least.

The name is our own: no other client has it, and its user data are ours. It is one name for both protocols, as
Kafka's CooperativeStickyAssignor is: members vote on names, so with two of them a group could not be brought
from the one protocol to the other by a rolling restart (KIP-429). What a member still holds is in its
subscription, which is how a leader tells eager members from cooperative ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from kafka_assignors.criteria import Criteria, exact, traded
from kafka_assignors.group import Group, quoted
from kafka_assignors.member_facts import Facts, encode_facts, facts_of
from kafka_assignors.strategies.sticky import ExactStrategy
from kafka_assignors.strategy import MemberContext

__all__ = ["RackAwareSticky"]

_NONE = "no moves_per_miss"
"""What a member announces that puts racks first, or runs a release that can do nothing else."""


@dataclass(frozen=True, slots=True)
class RackAwareSticky(ExactStrategy):
    """Exactly optimal in balance, then rack misses, then movement, under either protocol.

    `moves_per_miss` trades the latter two instead, see `traded`, which raises `InvalidTradeError`; by default
    no number of moves is worth a rack miss. All members of a group need the same number: the leader's log
    names a member with another one.
    """

    moves_per_miss: Fraction | float | None = None
    criteria: Criteria = field(init=False, repr=False, compare=False)

    name = "rack-aware-sticky"

    def __post_init__(self) -> None:
        moves_per_miss = math.inf if self.moves_per_miss is None else self.moves_per_miss
        object.__setattr__(self, "criteria", traded(moves_per_miss))

    def member_data(self, member: MemberContext) -> bytes:
        """Which trade this member would make; none at all by default, as earlier releases know it."""
        return encode_facts(Facts(rules=self._rules()))

    def findings(self, group: Group) -> Sequence[str]:
        """Who would divide the group by another trade than the leader."""
        facts, own = facts_of(group), self._rules()
        others = [id for id, announced in facts.members.items() if announced.rules != own]
        if not others:
            return facts.findings
        theirs, ours = facts.members[others[0]].rules or _NONE, own or _NONE
        return [
            *facts.findings,
            f"member {quoted(others[0])} runs {self.name!r} with {theirs!r}, and this one with {ours!r} "
            f"({len(others)} such members): who leads decides, so give all the same",
        ]

    def _rules(self) -> str | None:
        """Equal for members that make the same trade; None for racks first."""
        number = None if self.moves_per_miss is None else exact(self.moves_per_miss)
        return None if number is None else f"moves_per_miss={number}"
