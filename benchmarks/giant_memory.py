"""The memory of one task for a giant group (members x partitions) as the generations grow.

    python -m benchmarks.giant_memory
    python -m benchmarks.giant_memory --members 500 --partitions 20000 --generations 40

The benchmark replays a group and finds its causes, its faults and the accuracy of the replay, as the tasks of
a replay do: each generation is decoded from the bytes of its record, processed, and forgotten. In each
generation one member restarts under a new id. The table shows Python's peak allocation since the previous
line, and the state that passes from chunk to chunk. Neither may grow once the state has the last eight
assignments of each member. Spark's batches are not included: Spark passes a hundred rows at a time.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies.registry import load_strategy
from kafka_assignors.wire import ConsumerAssignment, Subscription, encode_assignment, encode_subscription
from kafka_assignors_replay.catalogue import Catalogue, CatalogueEntry
from kafka_assignors_replay.folds.accuracy import check_generation
from kafka_assignors_replay.folds.causes import CauseFinder
from kafka_assignors_replay.folds.consumer_offsets import (
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    encode_group_metadata,
    encode_key,
)
from kafka_assignors_replay.folds.faults import FaultFinder, FaultRules
from kafka_assignors_replay.folds.group_replay import GroupReplay
from kafka_assignors_replay.folds.rebalances import Generation
from kafka_assignors_replay.folds.records import decode_record
from kafka_assignors_replay.folds.replay_state import write_state
from kafka_assignors_replay.result import Mode

START = datetime(2026, 3, 2, tzinfo=timezone.utc)
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


def generation_of(value: bytes, number: int) -> Generation:
    members = decode_record(KEY, value).members
    return Generation(
        group="giant",
        incarnation=1,
        generation=number,
        offset=number,
        timestamp=START + timedelta(seconds=30 * number),
        protocol="range",
        empty=False,
        replacement=False,
        skipped=0,
        starts_late=False,
        members={member.member_id: member for member in members},
        leader=members[0].member_id,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.giant_memory", description=__doc__)
    parser.add_argument("--members", type=int, default=500)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--generations", type=int, default=24)
    given = parser.parse_args()
    catalogue = Catalogue([CatalogueEntry(None, Topic("giant.events", given.partitions))])
    strategies = {name: load_strategy(name) for name in STRATEGIES}
    tracemalloc.start()
    replay = GroupReplay(catalogue, strategies, tuple(Mode))
    causes, faults = CauseFinder(catalogue), FaultFinder(FaultRules())
    print(f"{given.members} members, {given.partitions:,} partitions, {' and '.join(STRATEGIES)}\n")
    print("| generations | record, KiB | at most, MiB | state between chunks, MiB |")
    print("|---:|---:|---:|---:|")
    step = max(1, given.generations // 4)
    for number, value in enumerate(values(given.members, given.partitions, given.generations), start=1):
        record = generation_of(value, number)
        for _ in replay.feed(record):
            pass
        causes.feed(record)
        for _ in faults.feed(record):
            pass
        check_generation(record, strategies["range"], catalogue)
        if number % step == 0:
            most = tracemalloc.get_traced_memory()[1]
            tracemalloc.reset_peak()
            state = len(write_state(replay.state))
            print(
                f"| {number} | {len(value) / 1024:,.0f} | {most / MIB:,.0f} | {state / MIB:,.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
