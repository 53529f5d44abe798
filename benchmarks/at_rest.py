"""CPU of a consumer with no, little or much work: our cooperative consumer and the client's own.

    python -m benchmarks.at_rest
    python -m benchmarks.at_rest --client kafka-python
    python -m benchmarks.at_rest --rounds 9 --seconds 20 --partitions 60

In each round new processes, one for each class, read one topic at the same time, in their own groups, so that
other load on the machine affects all of them equally. Five seconds after their partitions are assigned, three
loads follow: no record; a record a second for each partition; a backlog of 2000 records for each partition,
which is written while the consumers are paused. The CPU is that of the whole process, with system calls, but
without the broker, which the benchmark starts. The output shows the medians of the rounds and of their
ratios, and the smallest and the greatest ratio.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from compat_tests.support.kafka_cluster import KafkaCluster

STOCK, OURS = "stock", "ours"
AIOKAFKA, KAFKA_PYTHON = "aiokafka", "kafka-python"
IDLE, STEADY, BACKLOG = "no record", "a record a second", "backlog"
BACKLOG_PER_PARTITION = 2000
JOIN_SECONDS = 60.0
DRAIN_SECONDS = 120.0
WARM_UP_SECONDS = 5.0
RECORD = b"x" * 100
_UNITS = {IDLE: "ms a second", STEADY: "ms a second", BACKLOG: "us a record"}


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of one process, since its start or between two readings."""

    cpu_s: float
    records: int

    def since(self, earlier: Usage) -> Usage:
        return Usage(self.cpu_s - earlier.cpu_s, self.records - earlier.records)


# ---- the process that consumes


def tell_usage(records: int = 0) -> None:
    print(json.dumps([time.process_time(), records]), flush=True)


async def consume_with_aiokafka(kind: str, topic: str, bootstrap: str, partitions: int) -> None:
    """Join, say so, consume, and answer each line on standard input with a `Usage`."""
    from aiokafka import AIOKafkaConsumer

    from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer

    made: Any = AIOKafkaConsumer if kind == STOCK else CooperativeAIOKafkaConsumer
    consumer = made(bootstrap_servers=bootstrap, group_id=uuid.uuid4().hex)
    consumer.subscribe([topic])
    records = 0

    def answer() -> None:
        _obey(consumer, sys.stdin.readline().strip())
        tell_usage(records)

    async with consumer:
        give_up_at = time.monotonic() + JOIN_SECONDS
        while len(consumer.assignment()) < partitions:
            _check(give_up_at)
            await asyncio.sleep(0.05)
        for partition in consumer.assignment():
            await consumer.position(partition)
        asyncio.get_running_loop().add_reader(sys.stdin, answer)
        tell_usage()
        async for _ in consumer:
            records += 1


def consume_with_kafka_python(kind: str, topic: str, bootstrap: str, partitions: int) -> None:
    """The same with `poll`. The polling thread also pauses and resumes, since the consumer belongs to it."""
    from kafka import KafkaConsumer

    from kafka_assignors_kafka_python import CooperativeKafkaConsumer

    made: Any = KafkaConsumer if kind == STOCK else CooperativeKafkaConsumer
    consumer = made(bootstrap_servers=bootstrap, group_id=uuid.uuid4().hex)
    consumer.subscribe([topic])
    records = 0
    order = ""
    obeyed = threading.Event()

    def answer() -> None:
        nonlocal order
        for line in sys.stdin:
            if line.strip():
                obeyed.clear()
                order = line.strip()
                obeyed.wait()
            else:
                tell_usage(records)

    give_up_at = time.monotonic() + JOIN_SECONDS
    while len(consumer.assignment()) < partitions:
        _check(give_up_at)
        # With shorter calls kafka-python's own consumer may miss the end of its join and never recover.
        consumer.poll(timeout_ms=1000)
    for partition in consumer.assignment():
        consumer.position(partition)
    threading.Thread(target=answer, daemon=True).start()
    tell_usage()
    while True:
        records += sum(map(len, consumer.poll(timeout_ms=1000).values()))
        if order:
            _obey(consumer, order)
            tell_usage(records)  # Before the next call delivers records of the resumed partitions.
            order = ""
            obeyed.set()


def _check(give_up_at: float) -> None:
    if time.monotonic() > give_up_at:
        raise RuntimeError(f"nothing was assigned within {JOIN_SECONDS:g} s")


def _obey(consumer: Any, order: str) -> None:
    if order == "pause":
        consumer.pause(*consumer.assignment())
    elif order == "resume":
        consumer.resume(*consumer.assignment())


# ---- the process that measures


class Consumer:
    """Starts, controls and measures a process that consumes."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "benchmarks.at_rest", "--consume", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait_for_assignment(self) -> None:
        self._line()

    def usage(self, order: str = "") -> Usage:
        """Send the process an order (`pause`, `resume` or none), and return its usage so far."""
        assert self._process.stdin is not None
        print(order, file=self._process.stdin, flush=True)
        return Usage(*json.loads(self._line()))

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"a consumer ended with exit code {self._process.wait()}")
        return line


class Round:
    """Consumers of all classes that read the same topic."""

    def __init__(self, kafka: KafkaCluster, options: argparse.Namespace) -> None:
        from confluent_kafka import Producer

        self._topic = uuid.uuid4().hex
        self._partitions = options.partitions
        self._seconds = options.seconds
        kafka.create_topic(self._topic, options.partitions)
        backlog = BACKLOG_PER_PARTITION * options.partitions
        self._producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "linger.ms": 0,
                "queue.buffering.max.messages": max(100_000, 2 * backlog),
            }
        )
        self._consumers = {
            kind: Consumer(options.client, kind, self._topic, kafka.bootstrap, str(options.partitions))
            for kind in (STOCK, OURS)
        }

    def measure(self) -> dict[str, dict[str, Usage]]:
        """The usage by load and by class."""
        try:
            for consumer in self._consumers.values():
                consumer.wait_for_assignment()
            time.sleep(WARM_UP_SECONDS)
            idle = self._during(lambda: time.sleep(self._seconds))
            steady = self._during(self._write_steadily)
            return {IDLE: idle, STEADY: steady, BACKLOG: self._drain()}
        finally:
            for consumer in self._consumers.values():
                consumer.end()

    def _during(self, work: Callable[[], None]) -> dict[str, Usage]:
        before = {kind: consumer.usage() for kind, consumer in self._consumers.items()}
        work()
        return {kind: consumer.usage().since(before[kind]) for kind, consumer in self._consumers.items()}

    def _write_steadily(self) -> None:
        began = time.monotonic()
        for count in range(int(self._seconds * self._partitions)):
            time.sleep(max(0.0, began + count / self._partitions - time.monotonic()))
            self._producer.produce(self._topic, RECORD, partition=count % self._partitions)
            self._producer.poll(0)
        self._producer.flush(10)

    def _drain(self) -> dict[str, Usage]:
        for consumer in self._consumers.values():
            consumer.usage("pause")
        for _ in range(BACKLOG_PER_PARTITION):
            for partition in range(self._partitions):
                self._producer.produce(self._topic, RECORD, partition=partition)
            self._producer.poll(0)
        self._producer.flush(60)
        goal = BACKLOG_PER_PARTITION * self._partitions
        before = {kind: consumer.usage("resume") for kind, consumer in self._consumers.items()}
        drained: dict[str, Usage] = {}
        give_up_at = time.monotonic() + DRAIN_SECONDS
        while len(drained) < len(before):
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"the backlog was not read within {DRAIN_SECONDS:g} s")
            time.sleep(0.02)
            for kind in before.keys() - drained.keys():
                usage = self._consumers[kind].usage().since(before[kind])
                if usage.records >= goal:
                    drained[kind] = usage
        return drained


def show(rounds: list[dict[str, dict[str, Usage]]], seconds: float) -> None:
    """Print the medians, and the ratios of our consumer to the stock one."""
    for load in (IDLE, STEADY, BACKLOG):
        usages = [measured[load] for measured in rounds]

        def cost(usage: Usage, load: str = load) -> float:
            if load == BACKLOG:
                return usage.cpu_s / usage.records * 1e6
            return usage.cpu_s * 1e3 / seconds

        unit = _UNITS[load]
        stock, ours = (statistics.median(cost(usage[kind]) for usage in usages) for kind in (STOCK, OURS))
        ratios = [cost(usage[OURS]) / cost(usage[STOCK]) for usage in usages]
        print(
            f"{load:20} stock {stock:6.2f}, ours {ours:6.2f} {unit}; ratio {statistics.median(ratios):.3f} "
            f"({min(ratios):.3f} to {max(ratios):.3f} in {len(ratios)} rounds)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=10.0, help="of the first two loads")
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--client", choices=(AIOKAFKA, KAFKA_PYTHON), default=AIOKAFKA)
    parser.add_argument("--consume", nargs=5, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.consume:
        client, kind, topic, bootstrap, partitions = options.consume
        if client == AIOKAFKA:
            asyncio.run(consume_with_aiokafka(kind, topic, bootstrap, int(partitions)))
        else:
            consume_with_kafka_python(kind, topic, bootstrap, int(partitions))
        return
    rounds = []
    with KafkaCluster() as kafka:
        for number in range(options.rounds):
            rounds.append(Round(kafka, options).measure())
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    show(rounds, options.seconds)


if __name__ == "__main__":
    main()
