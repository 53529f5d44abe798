"""A member program: confluent-kafka's consumer with librdkafka's own cooperative-sticky."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from compat_tests.chaos.members.application import COMMIT_EVERY_S, Application, Partition
from compat_tests.support.librdkafka import leave
from compat_tests.support.librdkafka_member import UNKNOWN_GENERATION
from compat_tests.support.member_reports import MemberSpec, Orders, Reporter, by_topic, sigterms


class Member:
    """The application around one consumer, and its listener."""

    def __init__(self, spec: MemberSpec) -> None:
        self._spec = spec
        self._reporter = Reporter()
        self._application = Application(self._reporter)
        self._orders = Orders()
        self._owned: set[Partition] = set()
        self._stopping = sigterms()
        self._topics = spec.topics
        self._consumer = _consumer(spec)

    def run(self) -> None:
        self._subscribe(self._topics)
        commit_at = time.monotonic() + COMMIT_EVERY_S
        try:
            while not self._stopping:
                if (topics := self._orders.new_topics()) is not None:
                    self._subscribe(topics)
                if self._orders.busy:
                    time.sleep(0.05)
                    continue
                # One message per poll, so that listener calls come between two records.
                message: Any = self._consumer.poll(0.1)
                if message is not None and message.error() is None:
                    self._application.process(message.topic(), message.partition(), [message.offset()])
                elif message is not None:
                    self._reporter.report("raised", error=str(message.error()))
                    if message.error().code() == KafkaError._FATAL:
                        self._begin_again()
                if time.monotonic() > commit_at:
                    self._commit()
                    commit_at = time.monotonic() + COMMIT_EVERY_S
            self._commit()
        finally:
            self._reporter.stopped()
            leave(self._consumer)
            self._reporter.report("closed")

    def _begin_again(self) -> None:
        # In librdkafka 2.16, a static member that commits after it exceeded the poll interval considers
        # itself fenced. The consumer is then unusable, and does not call the listener for its partitions.
        leave(self._consumer)
        if self._owned:
            self._lose(set(self._owned))
        self._consumer = _consumer(self._spec)
        self._subscribe(self._topics)

    def _subscribe(self, topics: Sequence[str]) -> None:
        self._topics = topics
        self._consumer.subscribe(
            list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

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

    def _tell_what_is_owned(self) -> None:
        self._reporter.assigned(self._consumer.memberid(), UNKNOWN_GENERATION, self._owned)

    def _assigned(self, _: Consumer, partitions: list[Any]) -> None:
        self._owned.update((tp.topic, tp.partition) for tp in partitions)
        self._tell_what_is_owned()
        time.sleep(self._orders.pause_s)
        self._consumer.incremental_assign(partitions)

    def _revoked(self, _: Consumer, partitions: list[Any]) -> None:
        time.sleep(self._orders.pause_s)
        gone = {(tp.topic, tp.partition) for tp in partitions}
        self._commit(gone)
        self._consumer.incremental_unassign(partitions)
        self._give_up(gone)
        self._reporter.revoked(gone)
        self._tell_what_is_owned()

    def _lost(self, _: Consumer, partitions: list[Any]) -> None:
        gone = {(tp.topic, tp.partition) for tp in partitions}
        self._consumer.incremental_unassign(partitions)
        self._lose(gone)
        time.sleep(self._orders.pause_s)

    def _lose(self, gone: set[Partition]) -> None:
        self._give_up(gone)
        self._reporter.report("lost", partitions=by_topic(gone))

    def _give_up(self, gone: set[Partition]) -> None:
        self._owned -= gone
        self._application.forget(gone)


def _consumer(spec: MemberSpec) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": spec.bootstrap,
            "group.id": spec.group,
            "client.id": spec.name,
            **({"group.instance.id": spec.instance_id} if spec.instance_id else {}),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": ",".join(spec.assignors),
            "session.timeout.ms": spec.session_timeout_ms,
            "heartbeat.interval.ms": 300,
            "max.poll.interval.ms": spec.max_poll_interval_ms,
            "topic.metadata.refresh.interval.ms": spec.metadata_max_age_ms,
        }
    )


if __name__ == "__main__":
    Member(MemberSpec.from_arguments()).run()
