"""`Strategy`: the base class of everything that can divide the partitions of a group.

It is asked for the *target*: who should own what once the group has settled. `kafka_assignors.leader`
withholds partitions that must first be revoked, and checks what a strategy returns.
"""

from __future__ import annotations

import enum
import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from kafka_assignors.criteria import (
    PLAIN,
    AnyCriterion,
    Criteria,
    Scale,
    racks_outweigh_moves,
    require_criteria,
)
from kafka_assignors.group import NO_GENERATION, Assignment, Group, TopicPartitions


class RebalanceProtocol(enum.Enum):
    """How partitions pass from one member to another: by the members (KIP-429) or by the broker (KIP-848)."""

    EAGER = "eager"
    """Every member revokes everything before it joins."""

    COOPERATIVE = "cooperative"
    """Members keep what they own while they join, and revoke only what moves."""

    CONSUMER = "consumer"
    """The broker assigns (KIP-848, `group.protocol=consumer`), and no client runs a strategy.

    Members move towards one target by their heartbeats, and get a partition as soon as its earlier owner has
    given it up. No member joins again.
    """


BOTH_PROTOCOLS = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
"""Both protocols of clients, the preferred one first: a rolling restart can change a group over (KIP-429)."""


@dataclass(frozen=True, slots=True)
class MemberContext:
    """What a member knows about itself before it joins: the input of `Strategy.member_data`.

    `owned` are the partitions it owns, or owned before an eager rebalance took them; `generation` is the
    generation in which it owned them, -1 for a newcomer.
    """

    topics: frozenset[str]
    owned: TopicPartitions = field(default_factory=dict)
    generation: int = NO_GENERATION
    instance_id: str | None = None
    rack: str | None = None


_OUR_PACKAGES = frozenset({"kafka_assignors", "kafka_assignors_strategies"})


def is_ours(kind: type) -> bool:
    """Whether a class is one of this project's, whose code changes no value that it is handed."""
    return kind.__module__.partition(".")[0] in _OUR_PACKAGES


def lent(strategy: Strategy, group: Group) -> Group:
    """The group to hand to a method of the strategy: a copy if the strategy is not ours.

    If such a strategy changes the group, then neither the leader nor another strategy sees the change.
    """
    return group if is_ours(type(strategy)) else group.detached()


def how_to_run(kind: type) -> str:
    """What a client's list of assignors takes in the place of a strategy of this class."""
    name = kind.__name__
    return (
        f"{name} is a strategy, and partition_assignment_strategy takes assignors: pass "
        f"[assignor({name}())], with `assignor` of kafka_assignors_aiokafka or kafka_assignors_kafka_python"
    )


class _OfAnAssignor:
    """An attribute that the clients' own consumers look up on an assignor, with a remedy in its error."""

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(how_to_run(owner))


class Strategy(ABC):
    """A way to divide partitions among the members of a group.

    A strategy of your own derives from this class, sets `name`, and defines `assign`. `assign` depends on its
    argument alone: no clock, no randomness, no memory of earlier calls, no order of members or topics. Two
    leaders that disagree move partitions back and forth.

    Attributes:
        name: the name that members vote on. All members that share a name must understand each other's
            bytes, so a strategy of your own takes a name of its own.
        protocols: the protocols it can run under, the preferred one first. A strategy with `CONSUMER` stands
            for an assignor of the broker and has no other protocol; every client refuses it.
        criteria: what its assignments are the best by, balance first; None if it does not promise that.
    """

    __slots__ = ()

    name: str
    protocols: tuple[RebalanceProtocol, ...] = BOTH_PROTOCOLS
    criteria: Criteria | None = None

    metadata = _OfAnAssignor()
    supported_protocols = _OfAnAssignor()

    def __call__(self) -> NoReturn:
        """Raise TypeError: kafka-python calls what is not an assignor of its own."""
        raise TypeError(how_to_run(type(self)))

    @abstractmethod
    def assign(self, group: Group) -> Assignment:
        """The target for the group: every partition of every topic that a member subscribes to.

        `group.claims` are the judged claims of the members: who owned what.
        """

    def member_data(self, member: MemberContext) -> bytes:
        """At most 64 KiB that a member tells the leader about itself; they arrive as `Member.data`."""
        return b""

    def findings(self, group: Group) -> Sequence[str]:
        """Sentences for the leader's log about a group: at most one for each member, which it names."""
        return ()

    def units(self, group: Group) -> Sequence[Sequence[tuple[str, int]]]:
        """The partitions that one member must own together, as topic and number; none for most strategies.

        A warm handoff moves a unit as a whole.
        """
        return ()

    def follows_racks(self) -> bool:
        """Whether the target changes when replicas move: a leader with members in racks joins again then."""
        return self.criteria is not None and racks_outweigh_moves(self.criteria)

    def balance_scale(self, group: Group) -> Scale:
        """The scale on which balance, the first of the `criteria`, measures the loads of the group."""
        return PLAIN


def runs_on_broker(strategy: Strategy) -> bool:
    """Whether it stands for an assignor of the broker (KIP-848), which no client can run."""
    return RebalanceProtocol.CONSUMER in strategy.protocols


SHARED_NAMES = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})
"""The names that assignors of other clients have too: any client may lead a group that votes for one."""

LONGEST_NAME = 32_767
"""Bytes of UTF-8 that a string of Kafka's protocol has room for."""


def contract_problem(found: object) -> str | None:
    """The first breach of the strategy contract, such as "it has no name"; None if there is none.

    It cannot check what `assign` returns: `kafka_assignors.leader` checks that each time.
    """
    if not isinstance(found, Strategy):
        return "it does not derive from kafka_assignors.strategies.Strategy"
    strategy: Any = found
    if not hasattr(strategy, "name"):  # The other attributes have a default.
        return "it has no name"
    name, protocols = strategy.name, strategy.protocols
    if not isinstance(name, str) or not name:
        return f"its name is {name!r}, not a non-empty string"
    if not fits_kafka_string(name):
        return f"its name is no text of at most {LONGEST_NAME} bytes"
    if (
        not isinstance(protocols, tuple)
        or not protocols
        or not all(isinstance(protocol, RebalanceProtocol) for protocol in protocols)
    ):
        return f"its protocols are {protocols!r}, not a tuple of RebalanceProtocol"
    if RebalanceProtocol.CONSUMER in protocols and len(set(protocols)) > 1:
        return "its protocols are of clients and of the broker (consumer): it can run on one side alone"
    criteria = strategy.criteria
    if criteria is not None:
        if not isinstance(criteria, tuple) or not all(isinstance(each, AnyCriterion) for each in criteria):
            return f"its criteria are {criteria!r}, not a tuple of Criterion and Trade"
        try:
            require_criteria(criteria)
        except ValueError as error:
            return f"its {error}"
    return _method_problem(strategy, "assign", "a group") or _method_problem(
        strategy, "member_data", "a member"
    )


def fits_kafka_string(text: str) -> bool:
    """Whether Kafka's protocol can carry it."""
    try:
        return len(text.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:  # half a surrogate pair
        return False


def _method_problem(strategy: object, name: str, argument: str) -> str | None:
    method = getattr(strategy, name)
    if not callable(method):
        return f"its {name} is not a method"
    if inspect.iscoroutinefunction(method):
        return f"its {name} is a coroutine function, which no caller awaits"
    try:
        inspect.signature(method).bind(None)
    except TypeError:
        return f"its {name} cannot be called with {argument} alone"
    except ValueError:  # Something built in, without a signature to look at.
        return None
    return None
