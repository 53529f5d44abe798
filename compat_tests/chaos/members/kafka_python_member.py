"""A member program: CooperativeKafkaConsumer, which waits for commits only in the listener."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from compat_tests.chaos.members import application
from compat_tests.kafka_python.member import settings_of
from compat_tests.support.member_reports import MemberSpec, Reporter, by_topic, sigterms
from kafka_assignors_kafka_python import CooperativeKafkaConsumer

_COMMIT_TIMEOUT_MS = 5000


class Member(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """The application around one consumer, and its listener."""

    max_records = 100

    def __init__(self, spec: MemberSpec) -> None:
        self._spec = spec
        self._reporter = Reporter()
        self._application = application.Application(self._reporter, spec.name)
        self._open_commits = 0
        self._freeze: Callable[[], object] | None = None
        self._orders = application.ChaosOrders(self._freeze_soon)
        if spec.warm_s is not None:
            self.on_partitions_warming = self._warm
        self._stopping = sigterms()
        self._consumer = self._made()

    def _made(self) -> CooperativeKafkaConsumer:
        # kafka-python gives up when the first broker that it asks does not answer for 30 s.
        while True:
            try:
                return CooperativeKafkaConsumer(
                    **settings_of(self._spec),
                    max_poll_records=self.max_records,
                    request_timeout_ms=application.REQUEST_TIMEOUT_MS,
                    isolation_level=self._spec.isolation_level,
                )
            except KafkaError as error:
                self._reporter.failed(error, "raised")
                if self._stopping:
                    raise

    def _freeze_soon(self, freeze: Callable[[], object]) -> None:
        # Freeze between two polls, because the polling thread delivers the records.
        self._freeze = freeze

    def run(self) -> None:
        self._consumer.subscribe(self._spec.topics, listener=self)
        commit_at = time.monotonic() + application.COMMIT_EVERY_S
        try:
            while not self._stopping:
                # Freeze once for each order.
                freeze, self._freeze = self._freeze, None
                if freeze is not None:
                    freeze()
                if (topics := self._orders.new_topics()) is not None:
                    self._consumer.subscribe(topics, listener=self)
                if self._orders.busy:
                    time.sleep(0.05)
                    continue
                self._poll()
                if time.monotonic() > commit_at:
                    self._commit_without_waiting()
                    commit_at = time.monotonic() + application.COMMIT_EVERY_S
            self._commit()
        except Exception as error:
            self._reporter.failed(error)
            raise
        finally:
            self._reporter.stopped()
            self._consumer.close()
            self._reporter.report("closed")

    def _poll(self) -> None:
        try:
            batch = self._consumer.poll(timeout_ms=100)
        except KafkaError as error:
            self._reporter.failed(error, "raised")
            time.sleep(0.1)
            return
        self._process(batch)

    def _process(self, batch: dict[TopicPartition, Sequence[Any]]) -> None:
        for tp, records in batch.items():
            self._application.process(tp.topic, tp.partition, [record.offset for record in records])

    def _commit_without_waiting(self) -> None:
        offsets = self._application.uncommitted()
        if offsets and self._open_commits < application.MOST_COMMITS:
            self._open_commits += 1
            self._consumer.commit_async(
                self._for_client(offsets), callback=lambda _, error: self._ended(offsets, error)
            )

    def _for_client(
        self, offsets: dict[application.Partition, int]
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        signature = self._application.signature
        return {TopicPartition(*tp): OffsetAndMetadata(at, signature, -1) for tp, at in offsets.items()}

    def _ended(self, offsets: dict[application.Partition, int], error: Any) -> None:
        self._open_commits -= 1
        self._committed(offsets, error)

    def _commit(self, partitions: Collection[application.Partition] | None = None) -> None:
        offsets = self._application.uncommitted(partitions)
        if not offsets:
            return
        try:
            self._consumer.commit(self._for_client(offsets), timeout_ms=_COMMIT_TIMEOUT_MS)
        except KafkaError as error:
            self._committed(offsets, error)
        else:
            self._committed(offsets, None)

    def _committed(self, offsets: dict[application.Partition, int], error: Any) -> None:
        if isinstance(error, BaseException):
            self._application.commit_failed(offsets, error)
        else:
            self._application.committed(offsets)

    # ---- the listener

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._reporter.report("revoking", partitions=by_topic(revoked))
        self._wait_as_ordered()
        self._commit(revoked)
        self._application.forget(revoked)
        self._reporter.revoked(revoked)
        self._orders.raise_if_ordered()

    def on_partitions_lost(self, lost: set[TopicPartition]) -> None:
        self._application.forget(lost)
        self._reporter.report("lost", partitions=by_topic(lost))
        self._wait_as_ordered()
        self._orders.raise_if_ordered()

    def _warm(self, partitions: set[TopicPartition], cancelled: threading.Event) -> None:
        self._reporter.report("warming", partitions=by_topic(partitions))
        cancelled.wait(self._spec.warm_s)
        self._wait_as_ordered()
        self._orders.raise_if_ordered()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        group: Any = self._consumer.group_metadata()
        self._reporter.report("added", partitions=by_topic(assigned))
        self._application.assigned(group.member_id, group.generation_id, self._consumer.assignment())
        self._wait_as_ordered()
        self._orders.raise_if_ordered()

    def _wait_as_ordered(self) -> None:
        for seconds in self._orders.delays_s():
            time.sleep(seconds)


if __name__ == "__main__":
    Member(MemberSpec.from_arguments()).run()
