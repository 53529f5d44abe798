"""These strategies as assignors for aiokafka's consumer, and sources of weights that read offsets.

`LagWeights` and `RateWeights` open connections of their own, through aiokafka's public clients: the
consumer's connections are busy with a rebalance and with fetches that a broker holds back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from kafka_assignors.weights import GivenWeights
from kafka_assignors_aiokafka import StrategyAssignor
from kafka_assignors_strategies import for_clients
from kafka_assignors_strategies.weight_sources import (
    LagSource,
    OffsetWeights,
    PartitionOffsets,
    RateSource,
    WeightsFile,
)

__all__ = [
    "LagWeights",
    "PriorityAssignor",
    "RateWeights",
    "RolloutAssignor",
    "StandbyAssignor",
    "WeightedAssignor",
    "WeightsFile",
]


class StandbyAssignor(for_clients.RunsStandby, StrategyAssignor):
    """`standby`: as `cooperative-sticky`, with standby members that take over where active ones are missing.

    `standby`: whether this process is a standby member. `active_at_least`: how many active members each topic
    should have; set the same value on all members.
    """


class PriorityAssignor(for_clients.RunsPriority, StrategyAssignor):
    """`priority`: as `cooperative-sticky`, but each class of topics is balanced by itself.

    `first` lists the classes, the most important first: `[["alerts"], ["orders", ("pays", [0, 1])]]`. Set the
    same value on all members.
    """


class WeightedAssignor(for_clients.RunsWeighted, StrategyAssignor):
    """`weighted`: keeps the greatest load of a member as small as possible, by the weights of the partitions.

    `weights` is the leader's source of weights: `LagWeights`, `RateWeights`, `WeightsFile`, or a function
    (topics: partition counts by name) -> weights by name, with aiokafka also a coroutine function.
    """


class RolloutAssignor(for_clients.RunsRollout, StrategyAssignor):
    """`rollout`: canaries with a fixed share of partitions; deployments that move each partition only once.

    `release` names the release of this process. `share` is the part of every topic that the release asks for,
    from 0 to 1; without it, this process is part of a rolling deployment. Members that are `draining` get no
    partitions.
    """


class _LooksUp(OffsetWeights):
    """Looks up the offsets of the group, with clients that it opens for each lookup."""

    async def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """The weights of topics (name: number of partitions). KafkaError if a broker refuses a request."""
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

    `base` is added to the lag of each partition, in records. The settings are those of AIOKafkaConsumer.
    """


class RateWeights(_LooksUp, RateSource):
    """The records that come to each partition, as weights: how many in 1000 seconds.

        RateWeights("billing", half_life_s=120.0, base=1.0, bootstrap_servers="broker:9092")

    `RateSource` of `weight_sources` describes the first arguments. The settings are those of
    AIOKafkaConsumer.
    """
