"""The offsets of the group as the source of a leader's weights.

`LagWeights` and `RateWeights` have connections of their own, through aiokafka's public clients: the
consumer's are busy with a rebalance and with fetches that a broker holds back.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from kafka_assignors.partition_costs import PartitionCosts
from kafka_assignors.weights import GivenWeights, lag_weights, require_base

Found = dict[tuple[str, int], int]


class GroupOffsets:
    """Looks up the offsets of a group, with clients that it opens for that and closes again."""

    def __init__(self, group_id: str, settings: Mapping[str, Any]) -> None:
        self._group_id, self._settings = group_id, settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._group_id!r})"  # The settings may hold a password.

    async def look_up(self, topics: Mapping[str, int]) -> tuple[Found, Found]:
        """The committed offsets and the ends. Raises KafkaError if brokers refuse it."""
        partitions = [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
        return await asyncio.gather(self._committed(), self._end(partitions))

    async def _committed(self) -> Found:
        async with AsyncExitStack() as stack:
            admin = AIOKafkaAdminClient(**self._settings)
            stack.push_async_callback(admin.close)
            await admin.start()
            found = await admin.list_consumer_group_offsets(self._group_id)
            return {(tp.topic, tp.partition): offset.offset for tp, offset in found.items()}

    async def _end(self, partitions: list[TopicPartition]) -> Found:
        async with AsyncExitStack() as stack:
            consumer = AIOKafkaConsumer(**self._settings)
            stack.push_async_callback(consumer.stop)
            await consumer.start()
            found = await consumer.end_offsets(partitions)
            return {(tp.topic, tp.partition): offset for tp, offset in found.items()}


class LagWeights(GroupOffsets):
    """The lag of a group as weights: of each partition the records between the committed offset and the end.

    `base` is what a partition weighs besides, in records: it keeps a group that keeps up from being moved
    about because of a handful of records. `settings` are those by which the consumer finds its brokers, as
    AIOKafkaConsumer takes them: bootstrap_servers, security_protocol, sasl_mechanism and so on.
    """

    def __init__(self, group_id: str, *, base: int = 1000, **settings: Any) -> None:
        """Raises TypeError or ValueError for a base that is no number of records."""
        require_base(base)
        super().__init__(group_id, settings)
        self._base = base

    async def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """Raises KafkaError if brokers refuse it."""
        committed, end = await self.look_up(topics)
        return lag_weights(topics, committed, end, self._base)


class RateWeights(GroupOffsets):
    """The work that each partition brings, in microseconds a second: its rate, and its lag within a time.

    A rate is the records that come in a second, averaged with a half-life of `half_life_s`; lag counts as
    what must be consumed to be rid of it in `drain_s`. `costs.took` tells what a record of a topic takes;
    without it a record counts as a millisecond. `base` is what a partition costs besides, in records a
    second. `settings` are as for `LagWeights`. `kafka_assignors.partition_costs` has the rules for what is
    unknown.
    """

    def __init__(
        self,
        group_id: str,
        *,
        half_life_s: float = 120.0,
        drain_s: float = 600.0,
        base: float = 1.0,
        **settings: Any,
    ) -> None:
        """Raises TypeError or ValueError for an argument that is no number in its range."""
        super().__init__(group_id, settings)
        self.costs = PartitionCosts(half_life_s=half_life_s, drain_s=drain_s, base=base)

    async def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """Raises KafkaError if brokers refuse it."""
        committed, end = await self.look_up(topics)
        return self.costs.weigh(time.monotonic(), topics, committed, end)
