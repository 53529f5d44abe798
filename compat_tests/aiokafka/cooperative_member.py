"""A member program (see `compat_tests.support.member_reports`): one CooperativeAIOKafkaConsumer.

In every generation it reports all partitions that it owns, so that a test can wait for the group to settle,
and separately the `added` ones. Without automatic commits, the listener commits revoked partitions.
"""

from __future__ import annotations

import asyncio

from aiokafka import ConsumerRebalanceListener, TopicPartition

from compat_tests.aiokafka.member import consume, settings_of
from compat_tests.support.member_reports import MemberSpec, Reporter, ReportingListener, by_topic
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer


class Listener(ReportingListener, ConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if not self._spec.auto_commit:
            await self._consumer.commit({tp: await self._consumer.position(tp) for tp in revoked})
        self._reporter.revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        coordinator = self._consumer._coordinator
        self._reporter.report("added", partitions=by_topic(assigned))
        self._reporter.assigned(coordinator.member_id, coordinator.generation, self._consumer.assignment())


class WarmingListener(Listener):
    async def on_partitions_warming(self, partitions: set[TopicPartition]) -> None:
        assert self._spec.warm_s is not None
        self._reporter.report("warming", partitions=by_topic(partitions))
        await asyncio.sleep(self._spec.warm_s)
        self._reporter.report("warmed", partitions=by_topic(partitions))


async def main() -> None:
    spec, reporter = MemberSpec.from_arguments(), Reporter()
    settings = {**settings_of(spec), "client_rack": spec.rack}
    consumer = CooperativeAIOKafkaConsumer(**settings)
    listener = Listener if spec.warm_s is None else WarmingListener
    await consume(consumer, listener(spec, reporter, consumer), spec, reporter)


if __name__ == "__main__":
    asyncio.run(main())
