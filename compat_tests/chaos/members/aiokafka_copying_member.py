"""A member program for aiokafka that copies consumed records, and commits its offsets, in transactions.

aiokafka commits offsets in transactions without member id and generation, so the broker cannot reject a
removed member. The transactional id fences it instead: each consumed partition has its own. The producer
starts when the partition is assigned, before the committed offset is looked up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from compat_tests.chaos.members import aiokafka_member, application
from compat_tests.support.member_reports import MemberSpec, by_topic

_PRODUCER_TIMEOUT_S = 10.0
_TRANSACTION_TIMEOUT_S = 2 * application.TRANSACTION_TIMEOUT_MS / 1000
"""Long after the broker has aborted the transaction."""


class CopyingMember(aiokafka_member.Member):
    """The same application, with transactions instead of commits."""

    max_records = 1000

    def __init__(self, spec: MemberSpec) -> None:
        super().__init__(spec)
        self._producers: dict[TopicPartition, AIOKafkaProducer] = {}
        self._at_work = asyncio.Lock()
        """Held while producers are started, used or ended."""

    async def _process(self, batch: dict[TopicPartition, Sequence[Any]]) -> None:
        # Nothing is awaited between `getmany` and this line, so these producers belong to these records.
        producers = {tp: self._producers.get(tp) for tp in batch}
        async with self._at_work:
            # A partition that was reassigned since then starts again at the committed offset.
            still = [(producers[tp], tp) for tp in batch if self._producers.get(tp) is producers[tp]]
            await asyncio.gather(*(self._copy(producer, tp, batch[tp]) for producer, tp in still if producer))
            await self._take_over(self._consumer.assignment() - self._producers.keys())
        # Meanwhile, records collect for the next transaction.
        await asyncio.sleep(application.COMMIT_EVERY_S / 3)

    async def _copy(self, producer: AIOKafkaProducer, tp: TopicPartition, records: Sequence[Any]) -> None:
        self._reporter.consumed(tp.topic, tp.partition, [record.offset for record in records])
        try:
            await asyncio.wait_for(self._transaction(producer, tp, records), _TRANSACTION_TIMEOUT_S)
        except (KafkaError, asyncio.TimeoutError) as error:
            self._reporter.failed(error, "transaction_failed", partitions=by_topic([tp]))
            await self._give_up([tp])

    async def _transaction(
        self, producer: AIOKafkaProducer, tp: TopicPartition, records: Sequence[Any]
    ) -> None:
        async with producer.transaction():
            for record in records:
                await producer.send(
                    self._spec.copies_to, application.copy_of(tp.topic, tp.partition, record.offset)
                )
            await producer.send_offsets_to_transaction({tp: records[-1].offset + 1}, self._spec.group)

    async def _take_over(self, partitions: Collection[TopicPartition]) -> None:
        """Fence the previous owner's producers, and start at the committed offsets."""
        await self._give_up(partitions)
        await asyncio.gather(*(self._begin(tp) for tp in partitions))

    async def _begin(self, tp: TopicPartition) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._spec.bootstrap,
            client_id=self._spec.name,
            transactional_id=f"{self._spec.group}-{tp.topic}-{tp.partition}",
            transaction_timeout_ms=application.TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=application.REQUEST_TIMEOUT_MS,
        )
        try:
            await asyncio.wait_for(producer.start(), _PRODUCER_TIMEOUT_S)
            committed = await asyncio.wait_for(self._consumer.committed(tp), _PRODUCER_TIMEOUT_S)
            self._consumer.seek(tp, committed or 0)
        except (KafkaError, asyncio.TimeoutError) as error:
            self._reporter.failed(error, "raised")
            await self._end(producer)
        else:
            self._producers[tp] = producer

    async def _give_up(self, partitions: Collection[TopicPartition]) -> None:
        ended = [self._producers.pop(tp) for tp in partitions if tp in self._producers]
        await asyncio.gather(*map(self._end, ended))

    async def _end(self, producer: AIOKafkaProducer) -> None:
        with contextlib.suppress(KafkaError, asyncio.TimeoutError):
            await asyncio.wait_for(producer.stop(), _PRODUCER_TIMEOUT_S)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        async with self._at_work:
            await self._give_up(revoked)
        await super().on_partitions_revoked(revoked)

    async def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        async with self._at_work:
            await self._give_up(lost)
        await super().on_partitions_lost(lost)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        async with self._at_work:
            await self._take_over(assigned)
        await super().on_partitions_assigned(assigned)


if __name__ == "__main__":
    aiokafka_member.main(CopyingMember)
