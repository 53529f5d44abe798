"""Any strategy as an assignor of kafka-python: translation between it and `kafka_assignors.joining`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from kafka.cluster import ClusterMetadata
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.abstract import (
    RebalanceProtocol as KafkaPythonProtocol,  # pyright: ignore[reportAttributeAccessIssue]
)
from kafka.protocol.consumer.metadata import (  # pyright: ignore[reportMissingImports]  # its stubs are of 2.x
    ConsumerProtocolAssignment,
)

from kafka_assignors.assignor import EagerAssignor
from kafka_assignors.joining import JoinedMember
from kafka_assignors.strategies.contract import Strategy
from kafka_assignors_kafka_python._client import (
    calling_coordinator,
    come_back_for_this_join,
    lead_with_our_assignors,
    topics_of,
    watch_topics_if_static,
)

__all__ = ["StrategyAssignor", "assignor"]


class StrategyAssignor(EagerAssignor, AbstractPartitionAssignor):  # type: ignore[misc]  # kafka-python has no types
    """One strategy in the consumers of a process.

    Everything but kafka-python's own interface is `EagerAssignor`'s. (kafka-python calls whatever is not an
    instance of its own abstract class, which is why this is one.)
    """

    log = logging.getLogger("kafka_assignors_kafka_python")

    # ---- kafka-python's interface

    def supported_protocols(self) -> list[Any]:
        """Eager alone: members revoke everything before they join."""
        return [KafkaPythonProtocol.EAGER]

    def metadata(self, topics: Iterable[str]) -> bytes:
        """The bytes that the calling consumer joins with."""
        coordinator = calling_coordinator()
        lead_with_our_assignors(coordinator)
        come_back_for_this_join(coordinator)
        return self.subscription_of(coordinator, topics, coordinator.group_instance_id)

    def on_assignment(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, assignment: ConsumerProtocolAssignment, generation: int
    ) -> None:
        """Remember what the calling consumer was assigned: it says so when it joins again."""
        partitions = {topic: list(numbers) for topic, numbers in assignment.assigned_partitions}
        coordinator = calling_coordinator()
        self.remember(coordinator, partitions, generation)
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


def assignor(
    strategy: Strategy, *, rack: str | None = None, instance_id: str | None = None
) -> StrategyAssignor:
    """Any strategy as an assignor for KafkaConsumer:

        KafkaConsumer("orders", group_id="g", partition_assignment_strategy=[assignor(MyStrategy())])

    `rack` is where this process runs, for strategies that look at racks: give what you give as `client_rack`.
    `instance_id` is what the strategy's `member_data` is told; by default the consumer's `group_instance_id`.
    """
    return StrategyAssignor(strategy, rack=rack, instance_id=instance_id)
