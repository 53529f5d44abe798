"""Starts the consumers of a soak, each in its own process, and writes records for those that read.

Each client, consumer and situation has its own group:

    busy            a busy consumer, and with assignors of this project a standby
    quiet           an idle consumer, and one without a partition: the topic has a single one
    paused          one consumer that has paused all its partitions
    rebalancing     a consumer that stays (and sometimes subscribes to another topic), and one that joins,
                    leaves and joins again
"""

from __future__ import annotations

import fnmatch
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from compat_tests.soak.members import member
from compat_tests.soak.members.member import Order
from compat_tests.support.kafka_cluster import Kafka, KafkaCluster
from compat_tests.support.processes import Child, Processes

__all__ = ["CLIENTS", "name_of", "run"]

CLIENTS = ("aiokafka", "kafka_python")
PARTITIONS = 4
RECORDS_PER_SECOND = 4
RECORD = b"x" * 200

WITH_RECORDS, WITHOUT_RECORDS = "with-records", "without-records"

OF_ALL = {
    member.BUSY: ("busy", WITH_RECORDS),
    member.IDLE: ("quiet", WITHOUT_RECORDS),
    member.PARTITIONLESS: ("quiet", WITHOUT_RECORDS),
    member.PAUSED: ("paused", WITH_RECORDS),
    member.REBALANCING: ("rebalancing", WITH_RECORDS),
    member.RESTARTING: ("rebalancing", WITH_RECORDS),
}
OF_OURS = {**OF_ALL, member.STANDBY: ("busy", WITH_RECORDS)}
ROLES = {
    member.COOPERATIVE: OF_OURS,
    # An eager member differs from a stock one only by its assignor, which does not depend on pauses.
    member.EAGER: {role: place for role, place in OF_OURS.items() if role != member.PAUSED},
    member.STOCK: OF_ALL,
}
"""The roles of each consumer, with their group and topic; clients sort members of a group in this order."""


def name_of(client: str, consumer: str, role: str) -> str:
    return f"{client}-{consumer}-{role}"


def orders(kafka: Kafka, folder: Path, sample_every_s: float, only: Sequence[str]) -> Iterator[Order]:
    """One order for each process; `only` are patterns of names, and without patterns all match."""
    for client in CLIENTS:
        for consumer, of_consumer in ROLES.items():
            for place, (role, (group, topic)) in enumerate(of_consumer.items()):
                name = name_of(client, consumer, role)
                if only and not any(fnmatch.fnmatch(name, pattern) for pattern in only):
                    continue
                yield Order(
                    name=f"{place}-{role}",
                    client=client,
                    consumer=consumer,
                    role=role,
                    bootstrap=kafka.bootstrap,
                    group=f"{client}-{consumer}-{group}",
                    topics=(topic,),
                    file=str(folder / f"{name}.jsonl"),
                    sample_every_s=sample_every_s,
                )


def run(
    folder: Path, minutes: float, sample_every_s: float, only: Sequence[str], tell: Callable[[str], None]
) -> None:
    """Run the soak; the samples are always up to date in `folder`. RuntimeError if a consumer ends early."""
    from confluent_kafka import Producer

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.jsonl"):
        old.unlink()
    with KafkaCluster() as kafka, Processes() as processes:
        for topic, partitions in ((WITH_RECORDS, PARTITIONS), (WITHOUT_RECORDS, 1)):
            kafka.create_topic(topic, partitions)
            kafka.create_topic(f"{topic}-besides", 1)
        producer = Producer({"bootstrap.servers": kafka.bootstrap})
        running: dict[str, Child] = {}
        for order in orders(kafka, folder, sample_every_s, only):
            name = name_of(order.client, order.consumer, order.role)
            program = f"compat_tests.soak.members.{order.client}_member"
            log = folder / f"{name}.log"
            running[name] = processes.start([sys.executable, "-m", program, order.to_json()], log)
            # The first of a group gets its partition before the next one joins; a joint start would be slow.
            time.sleep(1.0)
        tell(f"{len(running)} consumers run, samples are in {folder}")
        ends_at, written = time.monotonic() + minutes * 60, 0
        while time.monotonic() < ends_at:
            for _ in range(RECORDS_PER_SECOND):
                producer.produce(WITH_RECORDS, RECORD, partition=written % PARTITIONS)
                written += 1
            producer.flush(10)
            for name, process in running.items():
                if process.poll() is not None:
                    raise RuntimeError(f"{name} ended with {process.returncode}: see {folder / name}.log")
            time.sleep(1.0)
        tell(f"{written} records were written")
