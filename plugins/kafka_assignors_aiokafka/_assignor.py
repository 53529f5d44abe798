"""Assignors for aiokafka, which translate between the client and `kafka_assignors.assignor`; sources of
weights that read the group's offsets.

`LagWeights` and `RateWeights` open connections of their own, through aiokafka's public clients: the
consumer's connections are busy with a rebalance and with fetches that a broker holds back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import MethodType
from typing import Any, NoReturn

from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from kafka_assignors.assignor import Assignor, class_given
from kafka_assignors.join_sync import JoinedMember
from kafka_assignors_aiokafka._client import adopt, calling_coordinator, rack_of_consumer
from kafka_assignors_aiokafka._leading import rejoin_if_topics_changed, topics_of, watch_topics_if_static


class _OfInstances:
    """A method that raises a TypeError with advice when it is called on the class.

    aiokafka's own assignors are passed as classes, so a user may pass a class of ours by mistake. `metadata`
    is the first method that a consumer calls.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        if instance is None:
            return partial(_refuse_class, owner)
        return MethodType(self._method, instance)


def _refuse_class(owner: type, *_: object) -> NoReturn:
    raise class_given(owner)


class StrategyAssignor(Assignor, AbstractPartitionAssignor):  # type: ignore[misc]  # aiokafka has no types
    """Runs any strategy as an assignor of AIOKafkaConsumer:

        AIOKafkaConsumer("orders", group_id="g", partition_assignment_strategy=[assignor(MyStrategy())])

    `weights` gives a leader the weights of partitions, for strategies that use them: see `WeightedAssignor`.
    The leader waits for the weights for `weights_timeout_s`, at most a third of `session_timeout_ms`. With
    `rebalance` a cooperative consumer that leads the group starts a rebalance when the load needs one.
    `AssignorOptions` describes the other arguments.
    """

    log = logging.getLogger("kafka_assignors_aiokafka")

    # ---- aiokafka's interface: class methods there, methods of an instance here

    @_OfInstances
    def metadata(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, topics: Iterable[str]
    ) -> bytes:
        """The calling consumer's metadata for its JoinGroup request."""
        coordinator = calling_coordinator()
        adopt(coordinator)
        return self.subscription_of(
            coordinator, topics, coordinator._group_instance_id, rack_of_consumer(coordinator)
        )

    def on_assignment(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, assignment: ConsumerProtocolMemberAssignment
    ) -> None:
        """Remember the calling consumer's assignment, which its next JoinGroup request reports as owned."""
        coordinator = calling_coordinator()
        self.remember(coordinator, dict(assignment.assignment), coordinator.generation)
        watch_topics_if_static(coordinator, racks=self.must_follow_racks([rack_of_consumer(coordinator)]))
        rejoin_if_topics_changed(coordinator)

    def assign(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Assign from decoded metadata, as aiokafka's assignors do.

        A running consumer does not call it. It uses `read_members` and `encode_assignments` with the members'
        bytes, since aiokafka's decoded metadata lack owned partitions, generation and rack.
        """
        joined = self.read_members(JoinedMember(id, None, member.encode()) for id, member in members.items())
        encoded = self.encode_assignments(joined, topics_of(cluster, joined.topics), None)
        decode = ConsumerProtocolMemberAssignment.decode
        return {id: decode(bytes_) for id, bytes_ in encoded.assignments.items()}


assignor = StrategyAssignor
"""Makes an assignor of a strategy: `assignor(MyStrategy())`."""
