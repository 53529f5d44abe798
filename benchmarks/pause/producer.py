"""Writes a record to each partition once per interval, evenly spread over time, until SIGTERM.

    python -m benchmarks.pause.producer BOOTSTRAP TOPIC PARTITIONS INTERVAL_MS

The value of a record is the time at which it was made, in nanoseconds of CLOCK_MONOTONIC. After a stop
(SIGSTOP, SIGCONT) the producer does not write the missed records.
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import Producer

from compat_tests.support.member_reports import sigterms

_TICK_S = 0.005
_LATE_NS = 200_000_000


def produce(bootstrap: str, topic: str, partitions: int, interval_ms: int) -> None:
    stopping = sigterms()
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": 1})
    step_ns = interval_ms * 1_000_000 // partitions
    due_ns = time.monotonic_ns()
    partition = 0
    while not stopping:
        time.sleep(_TICK_S)
        now_ns = time.monotonic_ns()
        if now_ns - due_ns > _LATE_NS:
            due_ns = now_ns
        while due_ns <= now_ns:
            value = time.monotonic_ns().to_bytes(8, "little")
            producer.produce(topic, value, partition=partition)
            partition = (partition + 1) % partitions
            due_ns += step_ns
        producer.poll(0)
    producer.flush(10)


if __name__ == "__main__":
    produce(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
