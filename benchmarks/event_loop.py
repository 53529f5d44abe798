"""How long a leader blocks its event loop while it reads its members and assigns in a thread.

    python -m benchmarks.event_loop
    python -m benchmarks.event_loop --strategy range --partitions 100000 --members 1000

A thread holds Python's lock for one switch interval (5 ms by default) and for as long as a single operation
in C takes, for instance a large sort or union. A task that repeatedly sleeps for a millisecond measures how
late it wakes up. Every member of the group reads every topic (100 partitions each); one member is new, and
the others own what the strategy gave them before. aiokafka decodes the metadata of the topics in the event
loop itself; the benchmark measures that separately.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from kafka_assignors.assignor import Assignor
from kafka_assignors.group import Topic
from kafka_assignors.messages import NEVER_ASSIGNED, JoinedMember, LastAssignment
from kafka_assignors.strategies import load_strategy
from kafka_assignors.wire import decode_assignment

PARTITIONS_PER_TOPIC = 100
T = TypeVar("T")


class PlainAssignor(Assignor):
    log = logging.getLogger(__name__)


async def in_thread(what: str, work: Callable[[], T]) -> T:
    """Run `work` in a thread, and print its duration and the longest delay of the loop."""
    late_ms: list[float] = [0.0]

    async def watch() -> None:
        while True:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            late_ms.append((time.perf_counter() - due) * 1000)

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    began = time.perf_counter()
    result = await asyncio.to_thread(work)
    took_ms = (time.perf_counter() - began) * 1000
    await asyncio.sleep(0.005)  # So that the last delay also counts.
    watching.cancel()
    print(f"{what:24} {took_ms:8.0f} ms, the loop late by {max(late_ms):6.1f} ms at most", flush=True)
    return result


async def lead(name: str, partitions: int, members: int) -> None:
    strategy = load_strategy(name)
    assignor = PlainAssignor(strategy)
    topics = [
        Topic(f"topic-{i}", PARTITIONS_PER_TOPIC) for i in range(max(1, partitions // PARTITIONS_PER_TOPIC))
    ]
    names = [topic.name for topic in topics]
    ids = [f"member-{i:05d}" for i in range(members)]

    newcomer = JoinedMember(
        "newcomer", None, assignor.subscription_with(NEVER_ASSIGNED, names, None, held=False)
    )
    settled = [JoinedMember(id, None, newcomer.metadata) for id in ids]
    given = assignor.encode_assignments(assignor.read_members(settled), topics, 1).assignments
    rejoining = [
        JoinedMember(
            id,
            None,
            assignor.subscription_with(
                LastAssignment(decode_assignment(given[id]).partitions, generation=1), names, None, held=False
            ),
        )
        for id in ids
    ]

    print(f"{name}: {partitions} partitions, {members} members")
    joined = await in_thread("  read the members", lambda: assignor.read_members([*rejoining, newcomer]))
    await in_thread("  assign", lambda: assignor.encode_assignments(joined, topics, 2))


def decode_metadata(partitions: int) -> None:
    from aiokafka.cluster import ClusterMetadata
    from aiokafka.protocol.metadata import MetadataResponse_v1

    of_one = [(0, number, 1, [1, 2, 3], [1, 2, 3]) for number in range(PARTITIONS_PER_TOPIC)]
    data = MetadataResponse_v1(
        [(node, "host", 9092, rack) for node, rack in ((1, "a"), (2, "b"), (3, "c"))],
        1,
        [(0, f"topic-{i}", False, of_one) for i in range(partitions // PARTITIONS_PER_TOPIC)],
    ).encode()
    began = time.perf_counter()
    ClusterMetadata().update_metadata(MetadataResponse_v1.decode(io.BytesIO(data)))
    print(f"  aiokafka reads metadata {(time.perf_counter() - began) * 1000:7.0f} ms, in the loop")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--strategy", default="sticky")
    parser.add_argument("--partitions", type=int, action="append")
    parser.add_argument("--members", type=int, default=100)
    options = parser.parse_args()
    for partitions in options.partitions or [1000, 10_000, 100_000]:
        asyncio.run(lead(options.strategy, partitions, options.members))
        decode_metadata(partitions)


if __name__ == "__main__":
    main()
