"""`capacity`: partitions in proportion to what members can carry, then as few moves as possible, then racks.

Members are rarely equal for ever: instance types change, a pod gets half a core, one process shares its
machine. A member that is made with `capacity=4` says so when it joins, and is to have twice as much as one of
capacity 2. Partitions cannot be cut, so what is as small as possible is the sum of load² / capacity, over all
assignments that the subscriptions allow. That is the same as the sum of (load - share)² / capacity, a share
being the part of all partitions that is in proportion; where everybody may have everything it gives the
loads that the method of Sainte-Laguë gives parties with so many votes.

Only ratios matter: capacities of 1 and 2 are those of 50 and 100. A member that announces nothing counts as
1, and so does one whose data cannot be read. If all are alike this is `cooperative-sticky` under another
name.

The name is our own: no other client has it. It is one name for both protocols, as `rack-aware-sticky` is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_assignors.group import Group, quoted
from kafka_assignors.member_facts import MOST_CAPACITY, Facts, encode_facts, facts_of
from kafka_assignors.scale import Scale
from kafka_assignors.strategies.sticky import ExactStrategy
from kafka_assignors.strategy import MemberContext

__all__ = ["Capacity"]


@dataclass(frozen=True, slots=True)
class Capacity(ExactStrategy):
    """Exactly optimal in balance beside capacities, then movement, then rack misses, under either protocol.

    `capacity` is what this member announces, a whole number from 1 to 10,000; None announces nothing, which
    is for whoever only looks at groups. Raises TypeError or ValueError for anything else.
    """

    capacity: int | None = None

    name = "capacity"

    def __post_init__(self) -> None:
        if self.capacity is None:
            return
        if type(self.capacity) is not int:
            raise TypeError(f"a capacity is a whole number from 1 to {MOST_CAPACITY}, not {self.capacity!r}")
        Facts(capacity=self.capacity)  # which says what is wrong with it

    def member_data(self, member: MemberContext) -> bytes:
        """What this member can carry."""
        return encode_facts(Facts(capacity=self.capacity))

    def balance_scale(self, group: Group) -> Scale:
        """The capacities that members announced."""
        return Scale(facts_of(group).capacities)

    def findings(self, group: Group) -> Sequence[str]:
        """Members whose data cannot be read, and how many count as 1 because they announce no capacity."""
        facts = facts_of(group)
        silent = sorted(group.members.keys() - facts.capacities.keys())
        if not silent:
            return facts.findings
        return *facts.findings, (
            f"{len(silent)} of {len(group.members)} members announce no capacity and count as 1, "
            f"the first being {quoted(silent[0])}"
        )
