"""What a strategy is: the contract between those who write one and all that runs one.

A strategy is an object with a name and an `assign` method. It is asked for the *target*: who should have what
once the group has settled. Claims that must first be revoked are withheld from their new owners by
`kafka_assignors.leader` and not by the strategy, and what a strategy returns is checked there before any
member sees it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol, runtime_checkable

from kafka_assignors.claims import Claims
from kafka_assignors.group import NO_GENERATION, Assignment, Group, TopicPartitions
from kafka_assignors.scale import PLAIN, Scale

__all__ = [
    "AnyCriterion",
    "BalancesInLayers",
    "BalancesOnScale",
    "Criterion",
    "FollowsRacks",
    "Layer",
    "Layered",
    "MemberContext",
    "Optimal",
    "RebalanceProtocol",
    "Reduced",
    "Reduces",
    "StandsFor",
    "Strategy",
    "SupportsFindings",
    "SupportsMemberData",
    "Trade",
    "runs_on_broker",
    "scale_of",
]


class RebalanceProtocol(enum.Enum):
    """How a group passes partitions from one member to another: its members do it (KIP-429) or its broker."""

    EAGER = "eager"
    """Every member revokes everything before it joins."""

    COOPERATIVE = "cooperative"
    """Members keep what they own while they join, and revoke only what moves."""

    CONSUMER = "consumer"
    """The broker assigns (KIP-848, `group.protocol=consumer`), and no client runs a strategy.

    A change of the group is one epoch with one target, and no member ever joins again for it. Each goes
    towards the target on its own, in its heartbeats: told to give something up it does so, and what it is
    missing it gets as soon as whoever has it gave it up. So this is neither of the two above: nobody revokes
    what stays, and nothing waits for a second round.
    """


class Criterion(enum.Enum):
    """What is to be as little as possible."""

    BALANCE = "balance"
    """The sum of the squared loads, a load being the number of partitions of a member.

    Where the strategy has a scale (`BalancesOnScale`) each square is divided by the capacity of the member.
    """

    MOVEMENT = "movement"
    """Partitions whose owner, by the judged claims, is in the group, and that go to another member."""

    RACKS = "racks"
    """Partitions consumed by a member in whose rack none of their replicas is (KIP-881).

    A member without a rack matches every partition, and a partition without known racks every member.
    """

    def count(self, moves: int, misses: int) -> int:
        """What so many moves and rack misses come to by this criterion."""
        return {Criterion.MOVEMENT: moves, Criterion.RACKS: misses}.get(self, 0)


@dataclass(frozen=True, slots=True)
class Trade:
    """A criterion made of two: rack misses and movement, of which `misses` weigh as much as `moves`.

    So a miss counts `moves` and a move counts `misses`, and the sum is to be as little as possible. Both are
    positive and have no common divisor. `value` is how it is written, as `Criterion.value` is:
    `trade=3`, `trade=3/2`.
    """

    moves: int
    misses: int

    @property
    def value(self) -> str:
        return f"trade={Fraction(self.moves, self.misses)}"

    def count(self, moves: int, misses: int) -> int:
        """What so many moves and rack misses come to by this criterion."""
        return self.misses * moves + self.moves * misses


AnyCriterion = Criterion | Trade
"""What can be a criterion of a strategy."""


@dataclass(frozen=True, slots=True)
class MemberContext:
    """What a member knows of itself when it is about to join: the input of `member_data`.

    `owned` are the partitions it owns, or owned before an eager rebalance took them, and `generation` the
    generation in which it did; -1 for a newcomer.
    """

    topics: frozenset[str]
    owned: TopicPartitions = field(default_factory=dict)
    generation: int = NO_GENERATION
    instance_id: str | None = None
    rack: str | None = None


@runtime_checkable
class Strategy(Protocol):
    """A way to divide partitions among the members of a group.

    `name` is what members vote on: all that share a name must understand each other's bytes, so a strategy of
    your own takes a name of its own. `version` is the version of its subscription format. `protocols` lists
    the protocols it can run under, the preferred one first. One that can run under `CONSUMER` stands for an
    assignor of the broker, and has no other: it is there to be looked at, and every client refuses it.

    `assign` must depend on its argument alone: no clock, no randomness, no memory of earlier calls, no order
    of members or topics. It assigns every partition of every topic that somebody subscribes to.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]: ...

    def assign(self, group: Group) -> Assignment: ...


def runs_on_broker(strategy: Strategy) -> bool:
    """Whether this is what a broker does to a group of KIP-848, and nothing that a client can run."""
    return RebalanceProtocol.CONSUMER in strategy.protocols


@runtime_checkable
class SupportsMemberData(Protocol):
    """A strategy whose members tell the leader something more about themselves (a capacity, a release …)."""

    def member_data(self, member: MemberContext) -> bytes:
        """At most 64 KiB that arrive at the leader as `Member.data`."""
        ...


@runtime_checkable
class SupportsFindings(Protocol):
    """A strategy that has something to say about a group: members whose data do not decode, wishes that
    contradict each other, facts it had to do without, settings that name nothing of the group."""

    def findings(self, group: Group) -> Sequence[str]:
        """Sentences for the leader's log, one for each member at most; those about a member name it."""
        ...


@runtime_checkable
class AssignsJudged(Protocol):
    """A strategy that builds on the judged claims: a leader, who needs them as well, then hands them over.

    `assign_judged(group, judge_claims(group))` is the same as `assign(group)`.
    """

    def assign(self, group: Group) -> Assignment: ...

    def assign_judged(self, group: Group, claims: Claims) -> Assignment: ...


@runtime_checkable
class FollowsRacks(Protocol):
    """A strategy that would assign otherwise if replicas were in other racks.

    Where `follows_racks` is true and a member has a rack, the leader joins again when the racks of replicas
    change, so that everybody does; without it, the next rebalance is soon enough.
    """

    @property
    def follows_racks(self) -> bool: ...


@runtime_checkable
class Optimal(Protocol):
    """A strategy whose assignments nobody can improve on, by the criteria it declares; balance comes first.

    It is held to its word: `assign --certify` proves each assignment, or shows how it could be better.
    """

    @property
    def criteria(self) -> tuple[AnyCriterion, ...]: ...


StandsFor = Mapping[str, Sequence[tuple[tuple[str, int], ...]]]
"""For each topic of a strategy's making, what each of its partitions stands for in the group."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """What is left of a group when a strategy's rules about who may have what are kept, and what was made of
    it.

    `group` has topics of the strategy's making in it, and an assignment of it stands for one of the group.
    `assignment` is the best by `criteria`, its loads measured on `scale`. `kept` names the rules that made
    the one out of the other. `stands_for` says of each topic of the strategy's making for which partitions of
    the group each of its own stands, as (topic, partition); None if the strategy does not say. `plain_scale`
    is `scale` without the trifles in it by which rules decide between members that are equal to balance; None
    if there are none.
    """

    group: Group
    assignment: Assignment
    criteria: tuple[AnyCriterion, ...]
    scale: Scale
    kept: tuple[str, ...]
    stands_for: StandsFor | None = None
    plain_scale: Scale | None = None


@runtime_checkable
class Reduces(Protocol):
    """A strategy that turns a group into another one, and promises the best assignment of that one.

    `assign --certify` proves this and shows both; that the reduced group is the right one, nobody proves.
    """

    def reduced_form(self, group: Group) -> Reduced | str:
        """What was assigned in the place of the group, or a sentence that says why nothing is promised."""
        ...


@dataclass(frozen=True, slots=True)
class Layer:
    """Partitions that a strategy balances by themselves, on top of what it has given out before.

    `name` says to a reader which they are. `assignment` has these partitions alone. `scale` has as `already`
    what the layers before this one gave to each member.
    """

    name: str | None
    assignment: Assignment
    scale: Scale


@dataclass(frozen=True, slots=True)
class Layered:
    """What a strategy balanced one after the other.

    `group`, `kept` and `stands_for` are as in `Reduced`. The assignments of the `layers`, in their order,
    make up one of `group`. Each is the best by `criteria`, given those before.
    """

    group: Group
    layers: tuple[Layer, ...]
    criteria: tuple[AnyCriterion, ...]
    kept: tuple[str, ...]
    stands_for: StandsFor | None = None


@runtime_checkable
class BalancesInLayers(Protocol):
    """A strategy that promises the best assignment of each of several parts of a group, and not of all.

    `assign --explain` says of each part by itself why its partitions moved.
    """

    def layered_form(self, group: Group) -> Layered | None:
        """The parts, and what each member got of them; None if there is only the whole."""
        ...


@runtime_checkable
class BalancesOnScale(Protocol):
    """An optimal strategy whose members differ in what they can carry.

    `balance_scale(group)` says how: by that its balance is measured, proven and explained.
    """

    def balance_scale(self, group: Group) -> Scale: ...


def scale_of(strategy: Strategy, group: Group) -> Scale:
    """By what the strategy measures the loads of the group's members."""
    return strategy.balance_scale(group) if isinstance(strategy, BalancesOnScale) else PLAIN
