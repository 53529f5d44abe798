"""`StrategyAssignor`: any strategy in aiokafka's consumer, or in the cooperative one."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from kafka_assignors.assignor import CLASS_GIVEN, Assignor


class StrategyAssignor(Assignor, AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """Runs any strategy as an assignor of AIOKafkaConsumer:

        AIOKafkaConsumer("orders", group_id="g", partition_assignment_strategy=[assignor(MyStrategy())])

    `weights` gives the leader of a cooperative group the weights of partitions, for strategies that use them:
    see `Weighted`. The leader waits for the weights for `weights_timeout_s`, at most a third of
    `session_timeout_ms`. `AssignorOptions` describes the other arguments.
    """

    log = logging.getLogger("kafka_assignors_aiokafka")

    # ---- aiokafka's interface: class methods there, methods of an instance here
    #
    # A cooperative consumer calls none of it, and does not import `_stock`.

    def metadata(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, topics: Iterable[str] = ()
    ) -> bytes:
        """The calling consumer's metadata for its JoinGroup request.

        A consumer calls it first: TypeError, ValueError or RuntimeError for assignors that cannot run.
        """
        if not isinstance(self, StrategyAssignor):  # aiokafka calls it on a class too
            raise TypeError(CLASS_GIVEN)
        from kafka_assignors_aiokafka import _stock

        return _stock.metadata(self, topics)

    def on_assignment(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, assignment: ConsumerProtocolMemberAssignment
    ) -> None:
        """Remember the calling consumer's assignment, which its next JoinGroup request reports as owned."""
        from kafka_assignors_aiokafka import _stock

        coordinator, generation = _stock.assigned_coordinator()
        self.remember(coordinator or self, dict(assignment.assignment), generation)

    def assign(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> Mapping[str, bytes]:
        """The bytes of every member's assignment, by member id."""
        from kafka_assignors_aiokafka import _stock

        return _stock.assign(self, cluster)


assignor = StrategyAssignor
"""Makes an assignor of a strategy: `assignor(MyStrategy())`."""
