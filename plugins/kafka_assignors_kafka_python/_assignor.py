"""Any strategy as an assignor of kafka-python: translation between it and `kafka_assignors.joining`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.abstract import (
    RebalanceProtocol as KafkaPythonProtocol,  # pyright: ignore[reportAttributeAccessIssue]
)
from kafka.coordinator.consumer import ConsumerCoordinator
from kafka.protocol.consumer.metadata import (  # pyright: ignore[reportMissingImports]  # its stubs are of 2.x
    ConsumerProtocolAssignment,
)

from kafka_assignors import joining
from kafka_assignors.group import Topic
from kafka_assignors.joining import Joined, JoinedMember, LastAssignment
from kafka_assignors.strategies.contract import RebalanceProtocol, Strategy
from kafka_assignors_kafka_python._client import (
    calling_coordinator,
    come_back_for_this_join,
    lead_with_our_assignors,
    topics_of,
    watch_topics_if_static,
)

__all__ = ["StrategyAssignor", "assignor"]

_log = logging.getLogger("kafka_assignors_kafka_python")


class StrategyAssignor(AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """One strategy in the consumers of a process.

    All state is what each consumer was last assigned, kept apart by consumer and forgotten with it, so one
    instance may serve several consumers. (kafka-python calls whatever is not an instance of its own abstract
    class, which is why this is one.)
    """

    def __init__(
        self, strategy: Strategy, *, rack: str | None = None, instance_id: str | None = None
    ) -> None:
        self._strategy = joining.require_strategy(strategy)
        if RebalanceProtocol.EAGER not in strategy.protocols:
            raise ValueError(
                f"strategy {strategy.name!r} cannot run under the eager protocol, the only one here"
            )
        self._rack = joining.optional_name("rack", rack)
        self._instance_id = joining.optional_name("instance_id", instance_id)
        self._last: WeakKeyDictionary[ConsumerCoordinator, LastAssignment] = WeakKeyDictionary()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._strategy!r})"

    @property
    def name(self) -> str:
        """What the members of the group vote on."""
        return self._strategy.name

    # ---- kafka-python's interface

    def supported_protocols(self) -> list[Any]:
        """Eager alone: members revoke everything before they join."""
        return [KafkaPythonProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> bytes:
        """The bytes that the calling consumer joins with."""
        coordinator = calling_coordinator()
        lead_with_our_assignors(coordinator)
        come_back_for_this_join(coordinator)
        return joining.subscription_bytes(
            self._strategy,
            topics,
            self._last.get(coordinator, joining.NEVER_ASSIGNED),
            instance_id=self._instance_id or coordinator.group_instance_id,
            rack=self._rack,
        )

    def on_assignment(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, assignment: ConsumerProtocolAssignment, generation: int
    ) -> None:
        """Remember what the calling consumer was assigned: it says so when it joins again."""
        partitions = {topic: list(numbers) for topic, numbers in assignment.assigned_partitions}
        coordinator = calling_coordinator()
        self._last[coordinator] = LastAssignment(partitions, generation)
        watch_topics_if_static(coordinator)

    def assign(
        self, cluster: ClusterMetadata, members: Iterable[Any]
    ) -> dict[str, ConsumerProtocolAssignment]:
        """Assign from metadata that is decoded already, as kafka-python's assignors do.

        In a running consumer `read_members` and `answer` do it from the members' own bytes, because one that
        does not decode ends the generation before this method is reached.
        """
        joined = self.read_members(
            JoinedMember(member.member_id, member.group_instance_id, member.metadata.encode())
            for member in members
        )
        assignments = self.answer(joined, topics_of(cluster, joined.topics), None)
        return {id: ConsumerProtocolAssignment.decode(bytes_) for id, bytes_ in assignments.items()}

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
    """Any strategy as an assignor for KafkaConsumer:

        KafkaConsumer("orders", group_id="g", partition_assignment_strategy=[assignor(MyStrategy())])

    `rack` is where this process runs, for strategies that look at racks: give what you give as `client_rack`.
    `instance_id` is what the strategy's `member_data` is told; by default the consumer's `group_instance_id`.
    """
    return StrategyAssignor(strategy, rack=rack, instance_id=instance_id)
