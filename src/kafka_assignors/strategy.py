"""`Strategy`: the base class of everything that can divide the partitions of a group.

A strategy has a name and an `assign` method; every other method is a hook with a default. It is asked for the
*target*: who should own what once the group has settled. `kafka_assignors.leader` withholds partitions that
must first be revoked, and checks what a strategy returns before any member sees it.

A strategy that is not of this package works on a copy of its own. If it changes the group, a member or an
assignment that it returned, then neither the leader nor another strategy sees the change.

An object found by name may be anything: `contract_problem` says whether it fulfils the contract.
"""

from __future__ import annotations

import enum
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any, NoReturn

from kafka_assignors.criteria import (
    PLAIN,
    AnyCriterion,
    Criteria,
    Scale,
    racks_outweigh_moves,
    require_criteria,
)
from kafka_assignors.group import NO_GENERATION, Assignment, Group, TopicPartitions, detached_partitions
from kafka_assignors.makespan import Terms


class RebalanceProtocol(enum.Enum):
    """How partitions pass from one member to another: by the members (KIP-429) or by the broker (KIP-848)."""

    EAGER = "eager"
    """Every member revokes everything before it joins."""

    COOPERATIVE = "cooperative"
    """Members keep what they own while they join, and revoke only what moves."""

    CONSUMER = "consumer"
    """The broker assigns (KIP-848, `group.protocol=consumer`), and no client runs a strategy.

    A change of the group is one epoch with one target, and no member joins again for it. Each member moves
    towards the target by its heartbeats: it gives up what the broker takes from it, and gets a partition as
    soon as the earlier owner has given it up. Partitions that stay are not revoked, and there is no second
    round.
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


StandsFor = Mapping[str, Sequence[tuple[tuple[str, int], ...]]]
"""For each topic that a strategy made, the partitions of the group that each of its partitions stands for."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """A group that a strategy assigns instead of the real one, and its assignment.

    `group` is the real group under the strategy's rules about who may have what; some of its topics are made
    by the strategy, and an assignment of it stands for one of the real group. `assignment` is the best one by
    `criteria`, with loads measured on `scale`. `kept` names the rules. `stands_for` gives, for each topic
    that the strategy made, the partitions of the real group that each of its partitions stands for, as
    (topic, partition); None if the strategy does not say. `plain_scale` is `scale` without the small
    preferences by which rules decide between members of equal balance; None if there are none.
    """

    group: Group
    assignment: Assignment
    criteria: Criteria
    scale: Scale
    kept: tuple[str, ...]
    stands_for: StandsFor | None = None
    plain_scale: Scale | None = None


@dataclass(frozen=True, slots=True)
class Layer:
    """Partitions that a strategy balances by themselves, on top of the layers before.

    `name` describes them to a reader. `assignment` has these partitions alone. `scale.already` has what the
    layers before this one gave to each member.
    """

    name: str | None
    assignment: Assignment
    scale: Scale


@dataclass(frozen=True, slots=True)
class Layered:
    """The parts of a group that a strategy balances one after the other.

    `group`, `kept` and `stands_for` are as in `Reduced`. The assignments of the `layers`, in their order,
    make up one of `group`. Each is the best by `criteria`, given those before.
    """

    group: Group
    layers: tuple[Layer, ...]
    criteria: Criteria
    kept: tuple[str, ...]
    stands_for: StandsFor | None = None


def is_of_this_package(kind: type) -> bool:
    """Whether a class is one of `kafka_assignors`, whose code changes no value that it is handed."""
    return kind.__module__.partition(".")[0] == "kafka_assignors"


_HOOKS = ("assign", "balance_scale", "findings", "layered_form", "member_data", "reduced_form")
"""The methods of a strategy that are handed a group, or a member's context."""

_WORKS_ON_COPY = "_kafka_assignors_works_on_copy"


def _on_copy(method: FunctionType) -> Callable[[Any, Any], Any]:
    """The method of a strategy, called with a copy of its argument; an assignment is returned as a copy."""

    @functools.wraps(method)
    def called(self: Any, value: Any) -> Any:
        if isinstance(value, Group):
            value = value.detached()
        elif isinstance(value, MemberContext):
            value = replace(value, owned=detached_partitions(value.owned))
        result = method(self, value)
        return _detached_answer(result) if isinstance(result, Assignment) else result

    setattr(called, _WORKS_ON_COPY, True)
    return called


def _detached_answer(answer: Assignment) -> Assignment:
    """A copy of the assignment; a part that is not valid stays as it is, and fails the leader's check."""
    if not isinstance(answer.members, Mapping):
        return answer
    return Assignment(
        {
            member_id: {topic: _detached_numbers(numbers) for topic, numbers in assigned.items()}
            if isinstance(assigned, Mapping)
            else assigned
            for member_id, assigned in answer.members.items()
        }
    )


def _detached_numbers(numbers: Any) -> Any:
    if type(numbers) in (tuple, range) or not isinstance(numbers, Collection):
        return numbers
    return [*numbers]


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
        version: the version of its subscription format.
        protocols: the protocols it can run under, the preferred one first. A strategy with `CONSUMER` stands
            for an assignor of the broker and has no other protocol; every client refuses it.
        criteria: what its assignments are the best by, balance first; None if it does not promise that. A
            promise is checked: `assign --certify` proves each assignment, or shows a better one.
    """

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in _HOOKS:
            owner = next(kind for kind in cls.__mro__ if name in vars(kind))
            method = vars(owner)[name]
            # `contract_problem` refuses a coroutine function, and must see that it is one.
            if (
                isinstance(method, FunctionType)
                and not is_of_this_package(owner)
                and not inspect.iscoroutinefunction(method)
                and not hasattr(method, _WORKS_ON_COPY)
            ):
                setattr(cls, name, _on_copy(method))

    name: str
    version: int = 0
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
        """Sentences for the leader's log about a group: at most one for each member, which it names.

        For example member data that do not decode, requests that contradict each other, or settings that name
        nothing of the group.
        """
        return ()

    def follows_racks(self) -> bool:
        """Whether the target changes when replicas move to other racks.

        If so, the leader joins again when they move and a member has a rack. Otherwise the next rebalance is
        soon enough.
        """
        return self.criteria is not None and racks_outweigh_moves(self.criteria)

    def balance_scale(self, group: Group) -> Scale:
        """The scale on which balance, the first of the `criteria`, measures the loads of the group."""
        return PLAIN

    @property
    def terms(self) -> Terms | None:
        """The gain that a move must have, if the strategy balances loads by weight; None if it does not."""
        return None

    def reduced_form(self, group: Group) -> Reduced | str | None:
        """The group that the strategy assigns in the place of this one, with its best assignment.

        None if the strategy assigns the group itself; a sentence that says why, if it reduces the group but
        promises nothing. `assign --certify` proves the assignment of the reduced group, and shows both; that
        the reduced group is the right one is not proved.
        """
        return None

    def layered_form(self, group: Group) -> Layered | None:
        """The parts of the group that the strategy balances one after the other; None if it has no parts.

        `assign --explain` says for each part why its partitions moved.
        """
        return None

    @property
    def runs_on_broker(self) -> bool:
        """Whether this stands for an assignor of the broker (KIP-848), which no client can run."""
        return RebalanceProtocol.CONSUMER in self.protocols


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
    name, version, protocols = strategy.name, strategy.version, strategy.protocols
    if not isinstance(name, str) or not name:
        return f"its name is {name!r}, not a non-empty string"
    if not fits_kafka_string(name):
        return f"its name is no text of at most {LONGEST_NAME} bytes"
    if not isinstance(version, int) or isinstance(version, bool):
        return f"its version is {version!r}, not an integer"
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
