"""A member program (see `compat_tests.support.member_reports`): one stream of kstreams.

kstreams evaluates annotations at run time, so this module does not postpone them.
"""

import asyncio
import signal

import kstreams
from kstreams.backends.kafka import Kafka

from compat_tests.aiokafka.member import assignor_of
from compat_tests.support.member_reports import MemberSpec, Reporter
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer


class Listener(kstreams.MetricsRebalanceListener):
    def __init__(self, reporter: Reporter) -> None:
        super().__init__()
        self._reporter = reporter

    async def on_partitions_revoked(self, revoked: set[kstreams.TopicPartition]) -> None:
        await super().on_partitions_revoked(revoked)
        self._reporter.revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[kstreams.TopicPartition]) -> None:
        await super().on_partitions_assigned(assigned)
        assert self.stream is not None
        consumer = self.stream.consumer
        assert consumer is not None
        coordinator = consumer._coordinator
        self._reporter.assigned(coordinator.member_id, coordinator.generation, consumer.assignment())


async def main() -> None:
    spec, reporter = MemberSpec.from_arguments(), Reporter()
    engine = kstreams.create_engine(
        title=spec.name,
        backend=Kafka(bootstrap_servers=[spec.bootstrap]),
        consumer_class=CooperativeAIOKafkaConsumer,
    )

    async def consume(record: kstreams.ConsumerRecord) -> None:
        reporter.consumed(record.topic, record.partition, [record.offset])

    engine.add_stream(
        kstreams.Stream(
            list(spec.topics),
            func=consume,
            rebalance_listener=Listener(reporter),
            config={
                "group_id": spec.group,
                "client_id": spec.name,
                "auto_offset_reset": "earliest",
                "heartbeat_interval_ms": 300,
                "session_timeout_ms": spec.session_timeout_ms,
                "partition_assignment_strategy": [assignor_of(spec, name) for name in spec.assignors],
            },
        )
    )
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await engine.start()
    await stopping.wait()
    reporter.stopped()
    await engine.stop()


if __name__ == "__main__":
    asyncio.run(main())
