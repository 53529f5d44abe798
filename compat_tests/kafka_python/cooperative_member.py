"""A member program (see `compat_tests.support.member_reports`): one CooperativeKafkaConsumer.

In every generation it reports all partitions that it owns, so that a test can wait for the group to settle,
and separately the `added` ones. Without automatic commits, the listener commits revoked partitions.
"""

from __future__ import annotations

import threading
from typing import Any

from kafka import ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition

from compat_tests.kafka_python.member import consume
from compat_tests.support.member_reports import MemberSpec, Reporter, ReportingListener, by_topic
from kafka_assignors_kafka_python import CooperativeKafkaConsumer


class Listener(ReportingListener, ConsumerRebalanceListener):
    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        if not self._spec.auto_commit:
            positions = {tp: self._consumer.position(tp) for tp in revoked}
            self._consumer.commit({tp: OffsetAndMetadata(at, "", -1) for tp, at in positions.items()})
        self._reporter.revoked(revoked)

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        generation: Any = self._consumer.group_metadata()
        self._reporter.report("added", partitions=by_topic(assigned))
        self._reporter.assigned(generation.member_id, generation.generation_id, self._consumer.assignment())


class WarmingListener(Listener):
    def on_partitions_warming(self, partitions: set[TopicPartition], cancelled: threading.Event) -> None:
        self._reporter.report("warming", partitions=by_topic(partitions))
        if not cancelled.wait(self._spec.warm_s):
            self._reporter.report("warmed", partitions=by_topic(partitions))


if __name__ == "__main__":
    specified = MemberSpec.from_arguments()
    listener = Listener if specified.warm_s is None else WarmingListener
    consume(specified, Reporter(), CooperativeKafkaConsumer, listener)
