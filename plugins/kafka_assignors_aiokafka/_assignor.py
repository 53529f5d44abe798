"""Any strategy as an assignor of aiokafka: it translates between the client and
`kafka_assignors.assignor`; and the offsets of the group as the source of a leader's weights.

`LagWeights` and `RateWeights` have connections of their own, through aiokafka's public clients: the
consumer's are busy with a rebalance and with fetches that a broker holds back.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from types import MethodType
from typing import Any, NoReturn

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.cluster import ClusterMetadata
from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata

from kafka_assignors.assignor import Assignor, class_given
from kafka_assignors.join_sync import JoinedMember
from kafka_assignors.weights import GivenWeights, LagSource, OffsetWeights, PartitionOffsets, RateSource
from kafka_assignors_aiokafka._client import adopt, calling_coordinator, rack_of_consumer
from kafka_assignors_aiokafka._leading import rejoin_if_topics_changed, topics_of, watch_topics_if_static


class _OfInstances:
    """A method that says what is wrong when it is called on the class.

    aiokafka's own assignors are handed over as classes, so a user may by mistake pass one of ours as a class.
    `metadata` is the first that a consumer calls.
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
    """Any strategy as an assignor for AIOKafkaConsumer:

        AIOKafkaConsumer("orders", group_id="g", partition_assignment_strategy=[assignor(MyStrategy())])

    `weights` gives a leader the weights of partitions, for strategies that look at them: see
    `WeightedAssignor`. The group waits for it for `weights_timeout_s`, at most a third of a session. With
    `rebalance` a cooperative consumer that leads the group asks for a rebalance when the load needs one.
    `AssignorOptions` says what the others mean.
    """

    log = logging.getLogger("kafka_assignors_aiokafka")

    # ---- aiokafka's interface. Its methods are class methods there; ours are called on an instance alike.

    @_OfInstances
    def metadata(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, topics: Iterable[str]
    ) -> bytes:
        """The bytes that the calling consumer joins with."""
        coordinator = calling_coordinator()
        adopt(coordinator)
        return self.subscription_of(
            coordinator, topics, coordinator._group_instance_id, rack_of_consumer(coordinator)
        )

    def on_assignment(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, assignment: ConsumerProtocolMemberAssignment
    ) -> None:
        """Remember what the calling consumer was assigned: it says so when it joins again."""
        coordinator = calling_coordinator()
        self.remember(coordinator, dict(assignment.assignment), coordinator.generation)
        watch_topics_if_static(coordinator, racks=self.must_follow_racks([rack_of_consumer(coordinator)]))
        rejoin_if_topics_changed(coordinator)

    def assign(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Assign from metadata that is decoded already, as aiokafka's assignors do.

        In a running consumer `read_members` and `answer` do it from the members' own bytes, since the decoded
        metadata lacks owned partitions, generation and rack.
        """
        joined = self.read_members(JoinedMember(id, None, member.encode()) for id, member in members.items())
        encoded = self.encode_assignments(joined, topics_of(cluster, joined.topics), None)
        decode = ConsumerProtocolMemberAssignment.decode
        return {id: decode(bytes_) for id, bytes_ in encoded.assignments.items()}


assignor = StrategyAssignor
"""The name by which a user makes one: `assignor(MyStrategy())`."""


# ---- weights


class _LooksUp(OffsetWeights):
    """Looks up the offsets of the group, with clients that it opens for that and closes again."""

    async def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """The weights of topics (name: number of partitions). Raises KafkaError if brokers refuse it."""
        partitions = [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
        committed, end = await asyncio.gather(self._committed(), self._end(partitions))
        return self.weigh(time.monotonic(), topics, committed, end)

    async def _committed(self) -> PartitionOffsets:
        async with AsyncExitStack() as stack:
            admin = AIOKafkaAdminClient(**self.settings)
            stack.push_async_callback(admin.close)
            await admin.start()
            found = await admin.list_consumer_group_offsets(self.group_id)
            return {(tp.topic, tp.partition): offset.offset for tp, offset in found.items()}

    async def _end(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        async with AsyncExitStack() as stack:
            consumer = AIOKafkaConsumer(**self.settings)
            stack.push_async_callback(consumer.stop)
            await consumer.start()
            found = await consumer.end_offsets(partitions)
            return {(tp.topic, tp.partition): offset for tp, offset in found.items()}


class LagWeights(_LooksUp, LagSource):
    """The lag of a group as weights: `LagWeights("billing", base=1000, bootstrap_servers="broker:9092")`.

    `base` is what a partition weighs besides, in records. The settings are those of AIOKafkaConsumer.
    """


class RateWeights(_LooksUp, RateSource):
    """The work that each partition brings, by its rate and its lag, in microseconds a second.

    `RateWeights("billing", half_life_s=120.0, drain_s=600.0, base=1.0, bootstrap_servers="broker:9092")` has
    its arguments from `kafka_assignors.weights`. The settings are those of AIOKafkaConsumer.
    """
