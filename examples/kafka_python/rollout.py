"""A pod of a Deployment, with `rollout`: canaries have shares, and partitions stay until their pod leaves.

    $ RELEASE=1.7 python -m examples.kafka_python.rollout --topic orders --group billing
    $ RELEASE=1.8 SHARE=0.1 python -m examples.kafka_python.rollout --topic orders --group billing

At SIGTERM it drains: it goes on until the others have taken its partitions over, and leaves.
../kubernetes/deployment.yaml is for the one of aiokafka, and differs in the name of the module alone.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable

from kafka import ConsumerRebalanceListener, TopicPartition

from examples.command_line import parser, release_and_share, start_logging
from examples.kafka_python.plain import CLOSE_MS, log, work
from kafka_assignors_kafka_python import CooperativeKafkaConsumer, assignor
from kafka_assignors_strategies import Rollout

DRAIN_S = 20.0
"""Less than `terminationGracePeriodSeconds`. After that, the member leaves with its remaining partitions."""


class Announcer(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Logs all partitions of the consumer; a cooperative consumer's listener gets only the new ones."""

    def __init__(self, consumer: CooperativeKafkaConsumer) -> None:
        self._consumer = consumer

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        everything = sorted(self._consumer.assignment())
        log.info("assigned: %s", ", ".join(f"{topic}-{number}" for topic, number in everything))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        pass


def main() -> None:
    arguments = parser(__doc__)
    options = arguments.parse_args()
    rollout = Rollout(*release_and_share(arguments))
    consumer = CooperativeKafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        partition_assignment_strategy=[assignor(rollout)],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    # A list instead of a threading.Event: a second signal would wait for the lock that the first one holds.
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    consumer.subscribe([options.topic], listener=Announcer(consumer))
    try:
        while not signals:
            work(consumer, signals)
        draining = threading.Thread(target=consumer.drain, kwargs={"timeout_ms": DRAIN_S * 1000})
        draining.start()
        while draining.is_alive():  # Beside the thread, the loop goes on.
            work(consumer, signals)
        log.info("drained, %d partitions left", len(consumer.assignment()))
    finally:
        consumer.close(timeout_ms=CLOSE_MS)
    log.info("stopped")


if __name__ == "__main__":
    start_logging()
    main()
