"""What a rule is, and in which order rules may stand.

A strategy is put together from rules. Each is a value: it says what is wanted and holds no state. They come
in three places, and what comes earlier weighs more:

1. **restrictions** say who may have what (`Restriction`): standby members, shares of releases, topics that
   stay together. They are kept always, whatever it costs in balance;
2. one **balance** (`Balance`) says what is to be level: partitions, or partitions beside capacities;
3. **wishes** (`Wish`) decide between the balanced assignments: the fewest moves, the fewest rack misses, in
   the order in which they are written, or a trade between the two.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar, Protocol, runtime_checkable

from kafka_assignors.criteria import Criteria
from kafka_assignors.group import Assignment, Group
from kafka_assignors.scale import Scale
from kafka_assignors.strategies.rules.problem import Problem
from kafka_assignors.strategy import Layer

__all__ = ["Balance", "BalanceInLayers", "Place", "Remarks", "Restriction", "Rule", "Wish", "about_missing"]


class Place(enum.IntEnum):
    """Where in the order a rule may stand."""

    RESTRICTION = 1
    BALANCE = 2
    WISH = 3


@runtime_checkable
class Rule(Protocol):
    """What all rules have: the word a TOML file has for it, and its place."""

    kind: ClassVar[str]
    place: ClassVar[Place]


@runtime_checkable
class Restriction(Rule, Protocol):
    """Who may have what, as a change of the problem."""

    def restrict(self, problem: Problem) -> Problem:
        """The problem whose assignments are those of `problem` that keep the rule."""
        ...


@runtime_checkable
class Balance(Rule, Protocol):
    """What is to be level, and the way to get there."""

    exact: ClassVar[bool]
    """Whether no assignment of the problem is better, wishes included."""

    def scale(self, problem: Problem) -> Scale:
        """By what the loads of the members are measured."""
        ...

    def balance(self, problem: Problem, criteria: Criteria) -> Assignment:
        """An assignment of the problem's group."""
        ...


@runtime_checkable
class BalanceInLayers(Balance, Protocol):
    """A balance of one part of the partitions after the other, each the best there is, given those before."""

    def layers(self, problem: Problem, criteria: Criteria) -> Sequence[Layer]:
        """What `balance` is made of."""
        ...


@runtime_checkable
class Remarks(Protocol):
    """A rule that has something to say about a group without a look at the problem."""

    def remarks(self, group: Group) -> Sequence[str]:
        """Sentences for the leader's log."""
        ...


@runtime_checkable
class Wish(Rule, Protocol):
    """What decides between balanced assignments."""

    @property
    def criteria(self) -> Criteria: ...


def about_missing(names: Sequence[str], has: str, what: str) -> list[str]:
    """One sentence about names in a rule that a group does not have: the first, what the rule says of it, and
    how many such there are; none without a name."""
    if not names:
        return []
    more = f" ({len(names)} such {what})" if len(names) > 1 else ""
    return [f"{names[0]} {has}, and the group does not read it or it does not exist{more}: mind the spelling"]
