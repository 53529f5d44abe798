"""CPU of a commit while many are open: `python -m benchmarks.open_commits --bootstrap-server HOST:PORT`.

One consumer requests many commits of one partition at once. The output shows the CPU of the process for each
commit, and the longest turn of the event loop (aiokafka) or the I/O thread (kafka-python): the CPU of its
thread between two wake-ups of a task that sleeps for a millisecond. Stock clients and ours are measured;
`PYTHONPATH` decides which release of ours. The state machine alone, without a client, comes first.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import time
import uuid
from typing import Any

COUNTS = (10, 100, 2_000)


def of_machine(count: int) -> float:
    """CPU microseconds of the state machine for a commit request and its response, with `count` open."""
    from kafka_assignors.rebalance import MemberState, Settings
    from kafka_assignors.rebalance import events as v
    from kafka_assignors.strategy import RebalanceProtocol

    member = MemberState(Settings(45, 300, 300))
    membership, partitions = v.Membership("a", 1), frozenset({("orders", 0)})
    for event in (
        v.SubscriptionChanged(frozenset({"orders"})),
        v.AboutToJoin(RebalanceProtocol.COOPERATIVE),
        v.Joined(1, membership),
        v.Assigned(membership, partitions, 0.0),
        v.ListenerReturned(),
    ):
        member, _ = member.handle(event, 0.0)
    queue = _queue()
    began = time.process_time()
    for number in range(count):
        member = _request(member, queue, v, number, partitions)
    for number in range(count):
        member, _ = member.handle(v.CommitAnswered(number, membership, v.MembershipError.NONE), 0.0)
        if queue is not None:
            queue.end(number)
            member = _request_waiting(member, queue)
    return (time.process_time() - began) / count * 1e6


def _queue() -> Any:
    """A commit queue; None with a release that passes all commits to the state machine at once."""
    with contextlib.suppress(ImportError):
        from kafka_assignors.rebalance.session_commits import CommitQueue

        return CommitQueue()
    return None


def _request(member: Any, queue: Any, v: Any, number: int, partitions: Any) -> Any:
    if queue is None:
        return member.handle(v.CommitRequested(number, partitions), 0.0)[0]
    queue.add(number, partitions, member.committable)
    return _request_waiting(member, queue)


def _request_waiting(member: Any, queue: Any) -> Any:
    while (request := queue.next()) is not None:
        member, _ = member.handle(request, 0.0)
    return member


async def of_aiokafka(bootstrap: str, topic: str, kind: str, count: int) -> tuple[float, float]:
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
        longest_s, began = 0.0, time.process_time()
        await asyncio.gather(*(consumer.commit({tp: offset}) for offset in range(count)))
        cpu = time.process_time() - began
        watching.cancel()
    finally:
        await consumer.stop()
    return cpu / count * 1e6, longest_s * 1000


def of_kafka_python(bootstrap: str, topic: str, kind: str, count: int) -> tuple[float, float]:
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
        longest_s, began = 0.0, time.process_time()
        futures = [
            consumer.commit_async({tp: OffsetAndMetadata(offset, "", -1)}, lambda *outcome: None)
            for offset in range(count)
        ]
        while not all(future.is_done for future in futures):
            consumer.poll(timeout_ms=10)
        cpu = time.process_time() - began
        is_over = True
        coordinator._net.run(coordinator._manager.wait_for, watching, 5_000)
    finally:
        is_over = True
        consumer.close()
    return cpu / count * 1e6, longest_s * 1000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.open_commits", description=__doc__)
    parser.add_argument("--bootstrap-server", help="else the machine alone")
    parser.add_argument("--topic", default="open-commits", help="exists, with one partition")
    args = parser.parse_args()
    print(f"{'':>24} {'open':>6} {'CPU µs':>8} {'turn ms':>11}")
    for count in COUNTS:
        print(f"{'the machine alone':>24} {count:6} {of_machine(count):8.1f}")
    if not args.bootstrap_server:
        return
    for client in ("aiokafka", "kafka-python"):
        for kind in ("stock", "ours"):
            for count in COUNTS:
                if client == "aiokafka":
                    cpu, turn = asyncio.run(of_aiokafka(args.bootstrap_server, args.topic, kind, count))
                else:
                    cpu, turn = of_kafka_python(args.bootstrap_server, args.topic, kind, count)
                print(f"{f'{client}, {kind}':>24} {count:6} {cpu:8.1f} {turn:11.1f}", flush=True)


if __name__ == "__main__":
    main()
