"""`Rule`: the base class of the rules that a strategy is composed of, and the order in which they may stand.

A rule is a value without state. Rules come in three places, and an earlier one outweighs all later ones:

1. a **restriction** says who may have which partitions: standby members, shares of releases, topics that stay
   together. Every assignment keeps it, at any cost in balance;
2. one **balance** says which quantity is level: partitions, or partitions in proportion to capacities
   (`kafka_assignors.strategies.rules.balance`);
3. a **tie-breaker** decides between the balanced assignments: the fewest moves, the fewest rack misses, in
the
   order in which they are written, or a trade between the two.

Every method is a hook with a default that changes nothing.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar

from kafka_assignors.criteria import Criteria
from kafka_assignors.group import Group
from kafka_assignors.strategies.rules.problem import Problem

__all__ = ["Place", "Restriction", "Rule", "TieBreaker", "about_missing"]


class Place(enum.IntEnum):
    """The place of a rule in the order."""

    RESTRICTION = 1
    BALANCE = 2
    TIE_BREAKER = 3


class Rule:
    """One rule. `kind` is its word in a TOML file."""

    __slots__ = ()

    kind: ClassVar[str]
    place: ClassVar[Place]

    def restrict(self, problem: Problem) -> Problem:
        """The problem whose assignments are those of `problem` that keep the rule."""
        return problem

    def criteria(self) -> Criteria:
        """The criteria, after balance, that decide between balanced assignments."""
        return ()

    def remarks(self, group: Group) -> Sequence[str]:
        """Sentences for the leader's log about names in the rule that do not fit the group."""
        return ()


class Restriction(Rule):
    """A rule that says who may have which partitions; it overrides `restrict`."""

    __slots__ = ()

    place = Place.RESTRICTION


class TieBreaker(Rule):
    """A rule that decides between balanced assignments; it overrides `criteria`."""

    __slots__ = ()

    place = Place.TIE_BREAKER


def about_missing(names: Sequence[str], has: str, what: str) -> list[str]:
    """One sentence about the names in a rule that a group does not have; none if `names` is empty.

    It says the first name, its role in the rule (`has`), and the number of such names.
    """
    if not names:
        return []
    more = f" ({len(names)} such {what})" if len(names) > 1 else ""
    return [f"{names[0]} {has}, and the group does not read it or it does not exist{more}: mind the spelling"]
