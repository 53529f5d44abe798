"""A member program: it copies what it consumes, and commits its offsets, in transactions (aiokafka).

aiokafka commits offsets in transactions without saying which member of which generation it is, so the broker
cannot refuse a member that was removed. What fences it is the transactional id: one for each partition that
is consumed, whose producer begins when the partition is assigned, before the committed offset is looked up.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from compat_tests.chaos.members import aiokafka_member
from compat_tests.chaos.members.application import (
    COMMIT_EVERY_S,
    REQUEST_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    copy_of,
    login,
)
from compat_tests.support.member_reports import MemberSpec, by_topic

_PRODUCER_TIMEOUT_S = 10.0
_TRANSACTION_TIMEOUT_S = 2 * TRANSACTION_TIMEOUT_MS / 1000
"""The broker has aborted it long before."""


class CopyingMember(aiokafka_member.Member):
    """The same application, with transactions in the place of commits."""

    max_records = 1000

    def __init__(self, spec: MemberSpec) -> None:
        super().__init__(spec)
        self._producers: dict[TopicPartition, AIOKafkaProducer] = {}
        self._at_work = asyncio.Lock()
        """Held by what begins, uses or ends producers."""

    async def _process(self, batch: dict[TopicPartition, Sequence[Any]]) -> None:
        # Nothing is awaited between the end of `getmany` and this: these producers belong to these records.
        producers = {tp: self._producers.get(tp) for tp in batch}
        async with self._at_work:
            # A partition that was assigned anew since begins again at what is committed.
            still = [(producers[tp], tp) for tp in batch if self._producers.get(tp) is producers[tp]]
            await asyncio.gather(*(self._copy(producer, tp, batch[tp]) for producer, tp in still if producer))
            await self._take_over(self._consumer.assignment() - self._producers.keys())
        # Records wait for the next transaction meanwhile.
        await asyncio.sleep(COMMIT_EVERY_S / 3)

    async def _copy(self, producer: AIOKafkaProducer, tp: TopicPartition, records: Sequence[Any]) -> None:
        self._reporter.consumed(tp.topic, tp.partition, [record.offset for record in records])
        try:
            await asyncio.wait_for(self._transaction(producer, tp, records), _TRANSACTION_TIMEOUT_S)
        except (KafkaError, asyncio.TimeoutError) as error:
            self._reporter.report(
                "transaction_failed", partitions=by_topic([tp]), error=f"{type(error).__name__}: {error}"
            )
            await self._give_up([tp])

    async def _transaction(
        self, producer: AIOKafkaProducer, tp: TopicPartition, records: Sequence[Any]
    ) -> None:
        async with producer.transaction():
            for record in records:
                await producer.send(self._spec.copies_to, copy_of(tp.topic, tp.partition, record.offset))
            await producer.send_offsets_to_transaction({tp: records[-1].offset + 1}, self._spec.group)

    async def _take_over(self, partitions: Collection[TopicPartition]) -> None:
        """Fence the member that copied these partitions before, and begin where that ended."""
        await self._give_up(partitions)
        await asyncio.gather(*(self._begin(tp) for tp in partitions))

    async def _begin(self, tp: TopicPartition) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self._spec.bootstrap,
            client_id=self._spec.name,
            transactional_id=f"{self._spec.group}-{tp.topic}-{tp.partition}",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            **login(self._spec),
        )
        try:
            await asyncio.wait_for(producer.start(), _PRODUCER_TIMEOUT_S)
            committed = await asyncio.wait_for(self._consumer.committed(tp), _PRODUCER_TIMEOUT_S)
            self._consumer.seek(tp, committed or 0)
        except (KafkaError, asyncio.TimeoutError) as error:
            self._reporter.report("raised", error=f"{type(error).__name__}: {error}")
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


async def main() -> None:
    await CopyingMember(MemberSpec.from_arguments()).run()


if __name__ == "__main__":
    asyncio.run(main())
