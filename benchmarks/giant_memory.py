"""The memory of the fold of a giant group (members x partitions) as the generations grow.

    python -m benchmarks.giant_memory
    python -m benchmarks.giant_memory --members 500 --partitions 20000 --generations 40

Each generation comes as the bytes of its record, and one member restarts under a new id in it. The table
shows Python's peak allocation since the previous line, which may not grow once the fold has the last eight
assignments of each member. Spark's batches are not included: Spark passes 256 rows at a time.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Iterator

from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors.wire import ConsumerAssignment, Subscription, encode_assignment, encode_subscription
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.folds.consumer_offsets import (
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    encode_group_metadata,
    encode_key,
)
from kafka_assignors_replay.folds.group import FoldWork, SortedRow, fold_sorted
from kafka_assignors_replay.result import Mode

START_MICROS = 1_772_409_600_000_000
STRATEGIES = ("range", "cooperative-sticky")
MIB = 2**20
KEY = encode_key(GroupMetadataKey("giant"))


def values(members: int, partitions: int, generations: int) -> Iterator[bytes]:
    """The records of a group under `range`."""
    topic = Topic("giant.events", partitions)
    strategy = load_strategy("range")
    names = [f"giant-{number:04}" for number in range(members)]
    for generation in range(1, generations + 1):
        names[generation % members] += "x"
        group = Group.of([topic], [Member(name, frozenset({topic.name})) for name in names], generation)
        given = strategy.assign(group).members
        yield encode_group_metadata(
            GroupMetadata(
                3,
                "consumer",
                generation,
                "range",
                names[0],
                tuple(
                    GroupMember(
                        member_id=name,
                        client_id="giant",
                        client_host=f"/10.0.{place // 256}.{place % 256}",
                        session_timeout_ms=45_000,
                        subscription=encode_subscription(Subscription(1, (topic.name,), b"", given[name])),
                        assignment=encode_assignment(ConsumerAssignment(1, given[name])),
                        rebalance_timeout_ms=300_000,
                    )
                    for place, name in enumerate(names)
                ),
            )
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.giant_memory", description=__doc__)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--generations", type=int, default=24)
    given = parser.parse_args()
    catalogue = Catalogue([CatalogueEntry(None, Topic("giant.events", given.partitions))])
    step = max(1, given.generations // 4)
    print(f"{given.members} members, {given.partitions:,} partitions, {' and '.join(STRATEGIES)}\n")
    print("| generations | record, KiB | at most, MiB |")
    print("|---:|---:|---:|")

    def records() -> Iterator[SortedRow]:
        of_all = values(given.members, given.partitions, given.generations)
        for number, value in enumerate(of_all):
            if number and number % step == 0:
                most = tracemalloc.get_traced_memory()[1]
                tracemalloc.reset_peak()
                print(f"| {number} | {len(value) / 1024:,.0f} | {most / MIB:,.0f} |", flush=True)
            yield b"giant", 0, number, KEY, START_MICROS + 30_000_000 * number, value

    tracemalloc.start()
    for _ in fold_sorted(records(), FoldWork(catalogue, STRATEGIES, tuple(Mode))):
        pass


if __name__ == "__main__":
    main()
