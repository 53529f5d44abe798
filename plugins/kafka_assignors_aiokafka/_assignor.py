"""Any strategy as an assignor of aiokafka: translation between it and `kafka_assignors.joining`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MethodType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from aiokafka.cluster import ClusterMetadata
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from kafka_assignors import joining
from kafka_assignors.group import Topic
from kafka_assignors.joining import Joined, JoinedMember, LastAssignment
from kafka_assignors.strategies.contract import RebalanceProtocol, Strategy
from kafka_assignors_aiokafka._client import (
    calling_coordinator,
    lead_with_our_assignors,
    topics_of,
    watch_topics_if_static,
)

__all__ = ["StrategyAssignor", "assignor"]

_log = logging.getLogger("kafka_assignors_aiokafka")


class _OfInstances:
    """A method that says what is wrong when it is called on the class.

    aiokafka's own assignors are handed over as classes, so sooner or later somebody hands over one of ours.
    `metadata` is the first that a consumer calls.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        if instance is None:
            return partial(_refuse_class, owner)
        return MethodType(self._method, instance)


def _refuse_class(owner: type, *_: object) -> NoReturn:
    raise TypeError(
        f"{owner.__name__} is a class and partition_assignment_strategy needs an instance: "
        f"pass [{owner.__name__}()]"
    )


class StrategyAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """One strategy in the consumers of a process.

    All state is what each consumer was last assigned, kept apart by consumer and forgotten with it, so one
    instance may serve several consumers.
    """

    def __init__(
        self, strategy: Strategy, *, rack: str | None = None, instance_id: str | None = None
    ) -> None:
        self._strategy = joining.require_strategy(strategy)
        if RebalanceProtocol.EAGER not in strategy.protocols:
            raise ValueError(
                f"strategy {strategy.name!r} cannot run under the eager protocol, the only one of aiokafka"
            )
        self._rack = joining.optional_name("rack", rack)
        self._instance_id = joining.optional_name("instance_id", instance_id)
        self._last: WeakKeyDictionary[GroupCoordinator, LastAssignment] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._strategy!r})"

    @property
    def name(self) -> str:
        """What the members of the group vote on."""
        return self._strategy.name

    # ---- aiokafka's interface. Its methods are class methods there; ours are called on an instance alike.

    @_OfInstances
    def metadata(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, topics: Iterable[str]
    ) -> bytes:
        """The bytes that the calling consumer joins with."""
        coordinator = calling_coordinator()
        lead_with_our_assignors(coordinator)
        return joining.subscription_bytes(
            self._strategy,
            topics,
            self._last.get(coordinator, joining.NEVER_ASSIGNED),
            instance_id=self._instance_id or coordinator._group_instance_id,
            rack=self._rack,
        )

    def on_assignment(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, assignment: ConsumerProtocolMemberAssignment
    ) -> None:
        """Remember what the calling consumer was assigned: it says so when it joins again."""
        coordinator = calling_coordinator()
        self._last[coordinator] = LastAssignment(dict(assignment.assignment), coordinator.generation)
        watch_topics_if_static(coordinator)

    def assign(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Assign from metadata that is decoded already, as aiokafka's assignors do.

        In a running consumer `read_members` and `answer` do it from the members' own bytes, since the decoded
        metadata lacks owned partitions, generation and rack.
        """
        joined = self.read_members(JoinedMember(id, None, member.encode()) for id, member in members.items())
        assignments = self.answer(joined, topics_of(cluster, joined.topics), None)
        return {id: ConsumerProtocolMemberAssignment.decode(bytes_) for id, bytes_ in assignments.items()}

    # ---- what our part of the coordinator calls instead of `assign`

    def read_members(self, joined: Iterable[JoinedMember]) -> Joined:
        """Decode what the members sent; never fails because of one of them."""
        return joining.read_members(self._strategy, joined)

    def answer(self, joined: Joined, topics: Iterable[Topic], generation: int | None) -> Mapping[str, bytes]:
        """The bytes of every member's assignment."""
        answer = joining.answer(self._strategy, joined, topics, generation)
        for finding in answer.findings:
            _log.warning("%s: %s", self.name, finding)
        return answer.assignments


def assignor(
    strategy: Strategy, *, rack: str | None = None, instance_id: str | None = None
) -> StrategyAssignor:
    """Any strategy as an assignor for AIOKafkaConsumer:

        AIOKafkaConsumer("orders", group_id="g", partition_assignment_strategy=[assignor(MyStrategy())])

    `rack` is where this process runs, for strategies that look at racks: give what you give as `client_rack`.
    `instance_id` is what the strategy's `member_data` is told; by default the consumer's `group_instance_id`.
    """
    return StrategyAssignor(strategy, rack=rack, instance_id=instance_id)
