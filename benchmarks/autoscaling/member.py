"""A member of a real group with limited throughput: aiokafka with our cooperative consumer.

    python -m benchmarks.autoscaling.member SPEC RATE [WEIGHTS CAPACITY]

SPEC is a `benchmarks.pause.members.spec.MemberSpec` in JSON. Each record takes 1/RATE seconds. With the file
WEIGHTS, the member runs `weighted` with that CAPACITY; without it, `cooperative-sticky`. On SIGUSR1 the
member joins again, so that the leader reads the weights.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Sequence

from benchmarks.pause.journal import JournalWriter, Kind
from benchmarks.pause.members.aiokafka_member import Listener, settings_of
from benchmarks.pause.members.spec import MemberSpec, stand_by
from kafka_assignors.weights import WeightsFile
from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer, CooperativeStickyAssignor, WeightedAssignor

_AT_A_TIME = 10
"""The most records of one call. A small number, so that records in progress hardly delay a handover."""


async def consume(spec: MemberSpec, journal: JournalWriter, rate: float, weighted: Sequence[str]) -> None:
    assignor = (
        WeightedAssignor(WeightsFile(weighted[0]), capacity=int(weighted[1]))
        if weighted
        else CooperativeStickyAssignor()
    )
    consumer = CooperativeAIOKafkaConsumer(partition_assignment_strategy=[assignor], **settings_of(spec))
    consumer.subscribe([spec.topic], listener=Listener(journal))
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)
    loop.add_signal_handler(signal.SIGUSR1, consumer.enforce_rebalance, "the weights have changed")
    try:
        await consumer.start()
        free_s = time.monotonic()
        while not stopping.is_set():
            batch = await consumer.getmany(timeout_ms=spec.poll_ms, max_records=_AT_A_TIME)
            for records in batch.values():
                for record in records:
                    free_s = max(free_s, time.monotonic()) + 1 / rate
                    await asyncio.sleep(free_s - time.monotonic())
                    assert record.value is not None  # Each value is the time at which the record was made.
                    journal.delivered(record.partition, record.offset, record.value)
    finally:
        await consumer.stop()
        journal.add(Kind.LEFT)


if __name__ == "__main__":
    asyncio.run(consume(*stand_by(), float(sys.argv[2]), sys.argv[3:]))
