"""A consumer of a group with `StickyAssignor`, as you would run it in production.

    $ python -m examples.kafka_python.plain --bootstrap-server localhost:9092 --topic orders --group billing

Start it several times to see the partitions shared; stop one with Ctrl-C or SIGTERM.

kafka-python revokes partitions inside `poll` and nowhere else. A batch that is processed and committed before
the next `poll` is therefore never in question, and no commit is needed in a rebalance listener (where, with
kafka-python 3, `commit()` raises).
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterable, Sequence
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.errors import CommitFailedError, KafkaConnectionError, KafkaTimeoutError, RebalanceInProgressError

from examples.command_line import parser, start_logging
from kafka_assignors_kafka_python import StickyAssignor

log = logging.getLogger("examples.kafka_python")

PAUSE_S = 0.5
"""The time until the next `poll` while no broker answers."""

MAX_BATCH = 100
"""The maximum number of records in a batch. A rebalance waits for the current batch, which has to finish
within `max_poll_interval_ms`."""

COMMIT_MS = 5_000
"""The time for a commit after the signal."""

CLOSE_MS = 5_000
"""The time for leaving the group. A batch and both take less than `terminationGracePeriodSeconds`."""


def process(record: Any) -> None:
    """Your work. A record may come twice (after a crash or a lost session), so make it idempotent."""


class Announcer(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Logs the consumer's partitions after a rebalance. Revoked partitions need no action."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        everything = sorted(self._consumer.assignment())  # includes the kept ones of a cooperative consumer
        log.info("assigned: %s", ", ".join(f"{topic}-{number}" for topic, number in everything))

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        pass


def consume(consumer: KafkaConsumer, topic: str) -> None:
    """Consume `topic` until SIGTERM or SIGINT."""
    # A list instead of a threading.Event: a second signal would wait for the lock that the first one holds.
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    consumer.subscribe([topic], listener=Announcer(consumer))
    try:
        while not signals:
            work(consumer, signals)
    finally:
        consumer.close(timeout_ms=CLOSE_MS)
    log.info("stopped")


def work(consumer: KafkaConsumer, signals: Sequence[int]) -> None:
    """Process and commit a batch, if there is one."""
    try:
        batches = consumer.poll(timeout_ms=500, max_records=MAX_BATCH)
    except KafkaConnectionError as error:
        # While no broker answers, kafka-python can raise what its own request for metadata met.
        log.warning("no broker answers: %s", error)
        time.sleep(PAUSE_S)
        return
    for partition, records in batches.items():
        for record in records:
            process(record)
        log.debug("%s-%d: processed offsets %d to %d", *partition, records[0].offset, records[-1].offset)
    if batches:
        commit(consumer, signals)


def commit(consumer: KafkaConsumer, signals: Sequence[int]) -> None:
    """Commit all records that `poll` has returned; they are processed.

    While no broker answers, the commit is tried again until a signal comes.
    """
    while True:
        try:
            consumer.commit(timeout_ms=COMMIT_MS)
        except KafkaTimeoutError as error:
            if signals:
                log.warning("not committed: %s", error)
                return
        except (CommitFailedError, RebalanceInProgressError) as error:
            # Too late: the new owners of the partitions get these records again. The next poll rejoins.
            log.warning("not committed: %s", error)
            return
        else:
            return


def main() -> None:
    options = parser(__doc__).parse_args()
    consumer = KafkaConsumer(
        bootstrap_servers=options.bootstrap_server,
        group_id=options.group,
        partition_assignment_strategy=[StickyAssignor()],
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    consume(consumer, options.topic)


if __name__ == "__main__":
    start_logging()
    main()
