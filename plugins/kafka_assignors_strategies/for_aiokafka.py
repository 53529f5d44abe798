"""Sources of weights for aiokafka's consumer that read offsets:

    assignor(Weighted(), weights=LagWeights("billing", bootstrap_servers="broker:9092"))

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
from aiokafka.errors import KafkaError

from kafka_assignors.weights import GivenWeights
from kafka_assignors_strategies.weight_sources import (
    LagSource,
    OffsetWeights,
    PartitionOffsets,
    RateSource,
    WeightsFile,
)

__all__ = ["LagWeights", "RateWeights", "WeightsFile"]


class _LooksUp(OffsetWeights):
    """Looks up the offsets of the group, with clients that it opens for each lookup."""

    async def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """The weights of topics (name: number of partitions). KafkaError if a broker refuses a request."""
        partitions = [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
        committed, end = await asyncio.gather(self._committed(partitions), self._end(partitions))
        return self.weigh(time.monotonic(), topics, committed, end)

    async def _committed(self, partitions: list[TopicPartition]) -> PartitionOffsets:
        async with AsyncExitStack() as stack:
            admin = AIOKafkaAdminClient(**self.settings)
            stack.push_async_callback(admin.close)
            await admin.start()
            found = await admin.list_consumer_group_offsets(self.group_id, partitions=partitions or None)
            # aiokafka passes over the error code of the response, which then has no partitions.
            if not found.keys() >= set(partitions):
                raise KafkaError(f"the coordinator of group {self.group_id!r} gives no offsets")
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
