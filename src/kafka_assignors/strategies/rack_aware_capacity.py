"""The strategies of the exact solver under names of our own, whose members tell the leader something.

`rack-aware-sticky` minimises rack misses, then moves. Under `sticky` a partition stays where it is although
another member could read it in its own rack. Where traffic between racks costs money, this strategy moves the
partition once and saves from then on; `moves_per_miss` weighs the two.

`capacity` minimises the sum of load² / capacity over the capacities that members announce. That is the same
as the sum of (load - share)² / capacity, where shares divide all partitions in proportion
(`docs/strategies.md`). A member counts as 1 if it announces no capacity or if its data cannot be read.

No other client has these names. Each is one name for both protocols, as Kafka's CooperativeStickyAssignor is:
members vote on names, so with two a rolling restart could not change a group over (KIP-429).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from kafka_assignors.announcements import MOST_CAPACITY, Facts, encode_facts, facts_of
from kafka_assignors.criteria import Criteria, Scale, exact, traded
from kafka_assignors.group import Group, quoted
from kafka_assignors.strategies.sticky import ExactStrategy
from kafka_assignors.strategy import MemberContext

_NONE = "no moves_per_miss"
"""The text for a member that puts racks first, or runs a release without a trade."""


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
        """The trade of this member; no bytes by default, as from earlier releases."""
        return encode_facts(Facts(rules=self._rules()))

    def findings(self, group: Group) -> Sequence[str]:
        """A finding about members with another trade than the leader."""
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


@dataclass(frozen=True, slots=True)
class Capacity(ExactStrategy):
    """Exactly optimal in balance by capacity, then movement, then rack misses, under either protocol.

    `capacity` is what this member announces, a whole number from 1 to 10,000; None announces nothing, for
    tools that only look at groups. Raises TypeError or ValueError for anything else.
    """

    capacity: int | None = None

    name = "capacity"

    def __post_init__(self) -> None:
        if self.capacity is None:
            return
        if type(self.capacity) is not int:
            raise TypeError(f"a capacity is a whole number from 1 to {MOST_CAPACITY}, not {self.capacity!r}")
        Facts(capacity=self.capacity)  # raises for a capacity out of range

    def member_data(self, member: MemberContext) -> bytes:
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
