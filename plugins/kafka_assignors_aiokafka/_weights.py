"""The lag of the group as the source of a leader's weights.

`LagWeights` has connections of its own, through aiokafka's public clients: the consumer's are busy with a
rebalance and with fetches that a broker holds back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from kafka_assignors.weights import GivenWeights, lag_weights, require_base


class LagWeights:
    """The lag of a group as weights: of each partition the records between the committed offset and the end.

    `base` is what a partition weighs besides, in records: it keeps a group that keeps up from being moved
    about because of a handful of records. `settings` are those by which the consumer finds its brokers, as
    AIOKafkaConsumer takes them: bootstrap_servers, security_protocol, sasl_mechanism and so on.
    """

    def __init__(self, group_id: str, *, base: int = 1000, **settings: Any) -> None:
        """Raises TypeError or ValueError for a base that is no number of records."""
        require_base(base)
        self._group_id, self._base, self._settings = group_id, base, settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._group_id!r})"  # The settings may hold a password.

    async def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """Raises KafkaError if brokers refuse it."""
        partitions = [TopicPartition(name, p) for name, count in topics.items() for p in range(count)]
        committed, end = await asyncio.gather(self._committed(), self._end(partitions))
        return lag_weights(topics, committed, end, self._base)

    async def _committed(self) -> dict[tuple[str, int], int]:
        async with AsyncExitStack() as stack:
            admin = AIOKafkaAdminClient(**self._settings)
            stack.push_async_callback(admin.close)
            await admin.start()
            found = await admin.list_consumer_group_offsets(self._group_id)
            return {(tp.topic, tp.partition): offset.offset for tp, offset in found.items()}

    async def _end(self, partitions: list[TopicPartition]) -> dict[tuple[str, int], int]:
        async with AsyncExitStack() as stack:
            consumer = AIOKafkaConsumer(**self._settings)
            stack.push_async_callback(consumer.stop)
            await consumer.start()
            found = await consumer.end_offsets(partitions)
            return {(tp.topic, tp.partition): offset for tp, offset in found.items()}
