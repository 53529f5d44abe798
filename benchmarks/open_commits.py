"""CPU of a commit while many are open: `python -m benchmarks.open_commits --bootstrap-server HOST:PORT`.

One consumer requests many commits of one partition at once, or one after the other (`open` is 1). The output
shows how many succeed in a second, the CPU of the process for each commit, and the longest turn of the event
loop (aiokafka) or the I/O thread (kafka-python): the CPU of its thread between two wake-ups of a task that
sleeps for a millisecond. Stock clients and ours are measured; `PYTHONPATH` decides which release of ours.
"""

from __future__ import annotations

import argparse
import asyncio
import time
import uuid
from typing import Any

COUNTS = (1, 10, 100, 2_000)
IN_TURN = 500
"""The commits that follow each other for `open` 1."""


async def of_aiokafka(bootstrap: str, topic: str, kind: str, count: int) -> tuple[float, float, float]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    from kafka_assignors_aiokafka import CooperativeAIOKafkaConsumer

    make = CooperativeAIOKafkaConsumer if kind == "ours" else AIOKafkaConsumer
    consumer = make(
        topic, bootstrap_servers=bootstrap, group_id=f"commits-{uuid.uuid4().hex}", enable_auto_commit=False
    )
    await consumer.start()
    longest_s = 0.0

    async def watch() -> None:
        nonlocal longest_s
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            longest_s = max(longest_s, time.thread_time() - before)

    try:
        tp = TopicPartition(topic, 0)
        await consumer.commit({tp: 0})
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.01)
        longest_s, began, began_at = 0.0, time.process_time(), time.perf_counter()
        if count == 1:
            count = IN_TURN
            for offset in range(count):
                await consumer.commit({tp: offset})
        else:
            await asyncio.gather(*(consumer.commit({tp: offset}) for offset in range(count)))
        cpu, took_s = time.process_time() - began, time.perf_counter() - began_at
        watching.cancel()
    finally:
        await consumer.stop()
    return count / took_s, cpu / count * 1e6, longest_s * 1000


def of_kafka_python(bootstrap: str, topic: str, kind: str, count: int) -> tuple[float, float, float]:
    from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

    from kafka_assignors_kafka_python import CooperativeKafkaConsumer

    make = CooperativeKafkaConsumer if kind == "ours" else KafkaConsumer
    consumer = make(
        topic, bootstrap_servers=bootstrap, group_id=f"commits-{uuid.uuid4().hex}", enable_auto_commit=False
    )
    longest_s = 0.0

    async def watch(net: Any) -> None:
        nonlocal longest_s
        while not is_over:
            before = time.thread_time()
            await net.sleep(0.001)
            longest_s = max(longest_s, time.thread_time() - before)

    is_over = False
    try:
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        tp = TopicPartition(topic, 0)
        consumer.commit({tp: OffsetAndMetadata(0, "", -1)})
        coordinator = consumer._coordinator
        watching = coordinator._manager.call_soon(watch, coordinator._net)
        time.sleep(0.01)
        longest_s, began, began_at = 0.0, time.process_time(), time.perf_counter()
        if count == 1:
            count = IN_TURN
            for offset in range(count):
                consumer.commit({tp: OffsetAndMetadata(offset, "", -1)})
        else:
            futures = [
                consumer.commit_async({tp: OffsetAndMetadata(offset, "", -1)}, lambda *outcome: None)
                for offset in range(count)
            ]
            while not all(future.is_done for future in futures):
                consumer.poll(timeout_ms=10)
        cpu, took_s = time.process_time() - began, time.perf_counter() - began_at
        is_over = True
        coordinator._net.run(coordinator._manager.wait_for, watching, 5_000)
    finally:
        is_over = True
        consumer.close()
    return count / took_s, cpu / count * 1e6, longest_s * 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.open_commits", description=__doc__)
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--topic", default="open-commits", help="exists, with one partition")
    args = parser.parse_args()
    print(f"{'':>24} {'open':>6} {'a second':>9} {'CPU µs':>8} {'turn ms':>11}")
    for client in ("aiokafka", "kafka-python"):
        for kind in ("stock", "ours"):
            for count in COUNTS:
                if client == "aiokafka":
                    rate, cpu, turn = asyncio.run(of_aiokafka(args.bootstrap_server, args.topic, kind, count))
                else:
                    rate, cpu, turn = of_kafka_python(args.bootstrap_server, args.topic, kind, count)
                print(f"{f'{client}, {kind}':>24} {count:6} {rate:9.0f} {cpu:8.1f} {turn:11.1f}", flush=True)


if __name__ == "__main__":
    main()
