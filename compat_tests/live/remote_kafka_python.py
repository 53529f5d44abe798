"""A consumer of kafka-python 2 or 3 that executes the steps of a test (see `remote_consumer`)."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from typing import Any

import kafka
from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

from compat_tests.kafka_python.stock import learn_of
from compat_tests.live.remote_consumer import Setup
from kafka_assignors_kafka_python import StickyAssignor


class Listener(ConsumerRebalanceListener):
    def __init__(self, setup: Setup, consumer: KafkaConsumer) -> None:
        self._setup = setup
        self._consumer = consumer

    def on_partitions_revoked(self, revoked: Any) -> None:
        if self._setup.listener == "commit" and revoked:
            self._consumer.commit()

    def on_partitions_assigned(self, assigned: Any) -> None:
        pass


def listener_of(setup: Setup, consumer: KafkaConsumer) -> Any:
    if setup.listener != "await-commit":
        return Listener(setup, consumer)

    class AsyncListener(kafka.AsyncConsumerRebalanceListener):
        async def on_partitions_revoked(self, revoked: Any) -> None:
            if revoked:
                await consumer.commit_async()

        async def on_partitions_assigned(self, assigned: Any) -> None:
            pass

    return AsyncListener()


def strategy_of(setup: Setup) -> Any:
    if setup.assignor == "ours":
        return StickyAssignor()
    if setup.assignor == "stock":
        return RangePartitionAssignor
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

    return CooperativeStickyAssignor


class Steps:
    """The steps that a test can send, one method each."""

    def __init__(self, setup: Setup, consumer: KafkaConsumer) -> None:
        self._setup = setup
        self._consumer = consumer

    def poll(self) -> Mapping[str, Any]:
        polled = self._consumer.poll(timeout_ms=200)
        if hasattr(self._consumer, "group_metadata"):  # from 3.0 on
            self._metadata = self._consumer.group_metadata()
        return {
            "records": [
                (tp.partition, record.offset) for tp, records in polled.items() for record in records
            ],
            "assigned": [tp.partition for tp in self._consumer.assignment()],
        }

    def positions(self) -> list[int | None]:
        return [self._consumer.position(tp) for tp in sorted(self._consumer.assignment())]

    def commit(self) -> None:
        self._consumer.commit()

    def commit_in_transaction(self, offsets: Mapping[str, int], as_of: str) -> None:
        """Commit with a separate producer and the group metadata of the last poll, or the current one."""
        producer = kafka.KafkaProducer(
            bootstrap_servers=self._setup.bootstrap, transactional_id=f"{self._setup.group}-{id(self)}"
        )
        try:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send_offsets_to_transaction(
                {
                    TopicPartition(self._setup.topic, int(p)): OffsetAndMetadata(offset, "", -1)
                    for p, offset in offsets.items()
                },
                self._metadata if as_of == "poll" else self._consumer.group_metadata(),
            )
            producer.commit_transaction()
        finally:
            producer.close(timeout=5)

    def stop(self) -> None:
        self._consumer.close()


def main() -> None:
    setup = Setup.from_arguments()
    consumer = KafkaConsumer(
        bootstrap_servers=setup.bootstrap,
        group_id=setup.group,
        partition_assignment_strategy=[strategy_of(setup)],
        **setup.settings,
    )
    consumer.subscribe([setup.topic], listener=listener_of(setup, consumer))
    if setup.assignor != "ours":
        learn_of(consumer, [setup.topic])
    steps = Steps(setup, consumer)
    while line := sys.stdin.readline():
        order = json.loads(line)
        try:
            answer = {"answer": getattr(steps, order.pop("do"))(**order)}
        except Exception as error:
            answer = {"answer": None, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    main()
