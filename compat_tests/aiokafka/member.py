"""A member program (see `compat_tests.support.member_reports`): one stock AIOKafkaConsumer."""

from __future__ import annotations

import asyncio
import inspect
import signal
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

import kafka_assignors_aiokafka
from compat_tests.support import member_assignors
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.member_reports import MemberSpec, Orders, Reporter, ReportingListener

STOCK = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Garbage:
    """An assignor that joins with arbitrary bytes."""

    def __init__(self, name: str, metadata: bytes) -> None:
        self.name = name
        self._metadata = metadata

    def metadata(self, topics: object) -> bytes:
        return self._metadata

    def on_assignment(self, assignment: object) -> None:
        pass


def assignor_of(spec: MemberSpec, name: str) -> Any:
    return member_assignors.assignor_of(kafka_assignors_aiokafka, STOCK, Garbage, name, rack=spec.rack)


class Listener(ReportingListener, ConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked: Any) -> None:
        self._reporter.revoked(revoked)

    async def on_partitions_assigned(self, assigned: Any) -> None:
        coordinator = self._consumer._coordinator
        self._reporter.assigned(coordinator.member_id, coordinator.generation, assigned)


def settings_of(spec: MemberSpec) -> dict[str, Any]:
    """The arguments of the member's consumer; `client_rack` only if aiokafka has it (0.14 and later)."""
    known = inspect.signature(AIOKafkaConsumer).parameters
    return {
        **spec.settings([assignor_of(spec, name) for name in spec.assignors]),
        "group_instance_id": spec.instance_id,
        "rebalance_timeout_ms": spec.rebalance_timeout_ms,
        "isolation_level": spec.isolation_level,
        **({"client_rack": spec.rack} if "client_rack" in known else {}),
    }


async def consume(
    consumer: AIOKafkaConsumer, listener: ConsumerRebalanceListener, spec: MemberSpec, reporter: Reporter
) -> None:
    """Consume, and obey the test's orders, until SIGTERM."""
    consumer.subscribe(() if spec.pattern else spec.topics, pattern=spec.pattern, listener=listener)
    orders = Orders()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    try:
        await consumer.start()
        while not stopping.is_set():
            if (topics := orders.new_topics()) is not None:
                consumer.subscribe(topics, listener=listener)
            if orders.drain:
                orders.drain = False
                draining = asyncio.ensure_future(consumer.drain(timeout_ms=HANG_S * 1000))
                draining.add_done_callback(lambda done: reporter.report("drained", all=done.result()))
            if orders.busy:
                await asyncio.sleep(0.05)
                continue
            found = await consumer.getmany(timeout_ms=100)
            for tp, records in found.items():
                reporter.consumed(tp.topic, tp.partition, [record.offset for record in records])
    except Exception as error:
        reporter.failed(error)
        raise
    finally:
        reporter.stopped()
        await consumer.stop()


async def main() -> None:
    spec, reporter = MemberSpec.from_arguments(), Reporter()
    consumer = AIOKafkaConsumer(**settings_of(spec))
    await consume(consumer, Listener(spec, reporter, consumer), spec, reporter)


if __name__ == "__main__":
    asyncio.run(main())
