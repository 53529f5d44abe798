"""A member program: confluent-kafka's consumer with librdkafka's own cooperative-sticky."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from compat_tests.chaos.members.application import COMMIT_EVERY_S, Application, Partition
from compat_tests.support import librdkafka_member
from compat_tests.support.librdkafka_member import classic, named
from compat_tests.support.member_reports import MemberSpec, by_topic


class Member(librdkafka_member.Member):
    """A cooperative member that commits what its application has processed."""

    def __init__(self, spec: MemberSpec) -> None:
        super().__init__(spec, classic(spec) | {"enable.auto.commit": False}, cooperative=True)
        self._application = Application(self._reporter)
        self._commit_at = time.monotonic() + COMMIT_EVERY_S

    def _polled(self, message: Any) -> None:
        if message is not None and message.error() is None:
            self._application.process(message.topic(), message.partition(), [message.offset()])
        else:
            super()._polled(message)
            if message is not None and message.error().code() == KafkaError._FATAL:
                self._begin_again()
        if time.monotonic() > self._commit_at:
            self._commit()
            self._commit_at = time.monotonic() + COMMIT_EVERY_S

    def _begin_again(self) -> None:
        # In librdkafka 2.16, a static member that commits after it exceeded the poll interval considers
        # itself fenced. The consumer is then unusable, and does not call the listener for its partitions.
        self._leave()
        if self._owned:
            self._lose(set(self._owned))
        self._consumer = Consumer(self._settings)
        self._subscribe(self._topics)

    def _ending(self) -> None:
        self._commit()

    def _commit(self, partitions: Collection[Partition] | None = None) -> None:
        offsets = self._application.uncommitted(partitions)
        if not offsets:
            return
        try:
            done = self._consumer.commit(
                offsets=[TopicPartition(*tp, offset) for tp, offset in offsets.items()], asynchronous=False
            )
            for one in done:
                if one.error is not None:
                    raise KafkaException(one.error)
        except KafkaException as error:
            self._application.commit_failed(offsets, error)
        else:
            self._application.committed(offsets)

    # ---- the listener

    def _revoked(self, consumer: Consumer, partitions: list[Any]) -> None:
        time.sleep(self._orders.pause_s)
        self._commit(named(partitions))
        self._application.forget(named(partitions))
        super()._revoked(consumer, partitions)

    def _lost(self, _: Consumer, partitions: list[Any]) -> None:
        self._consumer.incremental_unassign(partitions)
        self._lose(named(partitions))
        time.sleep(self._orders.pause_s)

    def _lose(self, gone: set[Partition]) -> None:
        self._owned -= gone
        self._application.forget(gone)
        self._reporter.report("lost", partitions=by_topic(gone))


if __name__ == "__main__":
    Member(MemberSpec.from_arguments()).run()
