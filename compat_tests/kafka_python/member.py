"""A member program (see `compat_tests.support.member_reports`): one stock KafkaConsumer, release 2 or 3."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.abstract import AbstractPartitionAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

import kafka_assignors_kafka_python
from compat_tests.support import member_assignors
from compat_tests.support.hang_limit import HANG_S
from compat_tests.support.member_reports import MemberSpec, Orders, Reporter, ReportingListener, sigterms

STOCK = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
with contextlib.suppress(ImportError):  # 3.0 and later
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor as StockCooperative

    STOCK["cooperative-sticky"] = StockCooperative

KNOWS_STATIC_MEMBERS = "group_instance_id" in KafkaConsumer.DEFAULT_CONFIG
KNOWS_RACKS = "client_rack" in KafkaConsumer.DEFAULT_CONFIG


class Garbage(AbstractPartitionAssignor):
    """An assignor that joins with arbitrary bytes."""

    def __init__(self, name: str, metadata: bytes) -> None:
        self._name = name
        self._metadata = metadata

    @property
    def name(self) -> str:
        return self._name

    def metadata(self, topics: object) -> bytes:
        return self._metadata

    def assign(self, cluster: object, members: object) -> Any:
        raise AssertionError("the member with the garbage must not lead")

    def on_assignment(self, assignment: object, generation: int = -1) -> None:
        pass

    def on_generation_assignment(self, generation: int) -> None:
        pass


def assignor_of(spec: MemberSpec, name: str, *, stock: bool = False) -> Any:
    # The assignor gets what it does not learn from the consumer.
    return member_assignors.assignor_of(
        kafka_assignors_kafka_python,
        STOCK,
        Garbage,
        name,
        rack=spec.rack if stock else None,
        instance_id=None if KNOWS_STATIC_MEMBERS else spec.instance_id,
    )


def settings_of(spec: MemberSpec, *, stock: bool = False) -> dict[str, Any]:
    """The arguments of the member's consumer; some only if they are given, or if the release has them."""
    settings = spec.settings([assignor_of(spec, name, stock=stock) for name in spec.assignors])
    if spec.rebalance_timeout_ms is not None:
        settings.setdefault("max_poll_interval_ms", spec.rebalance_timeout_ms)
    if KNOWS_STATIC_MEMBERS:
        settings["group_instance_id"] = spec.instance_id
    if KNOWS_RACKS:
        settings["client_rack"] = spec.rack or ""
    return settings


class Listener(ReportingListener, ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: Any) -> None:
        self._reporter.revoked(revoked)
        # The listener of a stock cooperative member receives only the partitions that it loses or gains.
        if kept := self._consumer.assignment() - set(revoked):
            self.on_partitions_assigned(kept)

    def on_partitions_lost(self, lost: Any) -> None:
        self._reporter.revoked(lost)

    def on_partitions_assigned(self, assigned: Any) -> None:
        generation = self._consumer._coordinator._generation
        everything = self._consumer.assignment() | set(assigned)
        self._reporter.assigned(generation.member_id, generation.generation_id, everything)


def _drain(consumer: Any, reporter: Reporter) -> None:
    reporter.report("drained", all=consumer.drain(timeout_ms=HANG_S * 1000))


def consume(
    spec: MemberSpec, reporter: Reporter, consumer_class: Any = KafkaConsumer, listener_class: Any = Listener
) -> None:
    """Consume, and obey the test's orders, until SIGTERM."""
    stopping = sigterms()
    stock = consumer_class is KafkaConsumer
    consumer = None
    try:
        consumer = consumer_class(**settings_of(spec, stock=stock))
        listener = listener_class(spec, reporter, consumer)
        consumer.subscribe(() if spec.pattern else spec.topics, pattern=spec.pattern, listener=listener)
        # A stock leader that does not know a topic learns of it as it assigns, and joins again. If that join
        # outlasts its poll, the consumer hangs (docs/consumers.md, "Limits of the stock consumers").
        if spec.metadata_first or any(name.startswith("stock:") for name in spec.assignors):
            for topic in spec.topics:
                consumer.partitions_for_topic(topic)
        orders = Orders()
        while not stopping:
            if (topics := orders.new_topics()) is not None:
                consumer.subscribe(topics, listener=listener)
            if orders.drain:
                orders.drain = False
                threading.Thread(target=_drain, args=(consumer, reporter), daemon=True).start()
            if orders.busy:
                time.sleep(0.05)
                continue
            for tp, records in consumer.poll(timeout_ms=spec.poll_ms).items():
                reporter.consumed(tp.topic, tp.partition, [record.offset for record in records])
    except Exception as error:
        reporter.failed(error)
        raise
    finally:
        reporter.stopped()
        if consumer is not None:
            consumer.close()


if __name__ == "__main__":
    consume(MemberSpec.from_arguments(), Reporter())
