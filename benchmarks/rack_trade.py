"""Moves and cross-rack traffic of `rack-aware-sticky` for several values of `moves_per_miss`.

    python -m benchmarks.rack_trade
    python -m benchmarks.rack_trade --group           # a minute; needs what `make test` needs, and Linux
    python -m benchmarks.rack_trade --group --client kafka-python

Members in three racks have settled on partitions with replicas in two racks each. Then a quarter of the
partitions keep only one replica, in any rack. The first table is computed, for 24 members and 240 partitions.
With `--group`, a real group of 6 members and 48 partitions does it on three brokers: each member is a process
with our cooperative consumer, replicas are reassigned, and the kernel of the consumers counts the bytes from
other racks. The tables are in docs/strategies.md.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from benchmarks.rolling import PROGRAMS
from compat_tests.scenarios.rack import at_rest, groups_in_racks, measure, misses, moved
from compat_tests.support.kafka_cluster import RACKS, KafkaCluster
from kafka_assignors import Group, Member, Topic
from kafka_assignors import quality as quality_of
from kafka_assignors.group import TopicPartitions
from kafka_assignors.strategies import RackAwareSticky

MEMBERS, PARTITIONS = 24, 240
WORTHS = (0, 1, 1.5, 2, 3, 5, math.inf)

REAL_MEMBERS = ("a1", "b1", "c1", "a2", "b2", "c2")
REAL_PARTITIONS = 48
STRATEGIES = {
    "`cooperative-sticky`": "cooperative-sticky",
    "`rack-aware-sticky`, `moves_per_miss` 1.5": "rack-aware-sticky:1.5",
    "`rack-aware-sticky`, `moves_per_miss` 3": "rack-aware-sticky:3",
    "`rack-aware-sticky`": "rack-aware-sticky",
}
_RECORDS = 10
"""Per partition and phase; 5 MB in total."""

_SESSION_MS = 30_000
"""Long enough that no session expires, even on a busy machine."""


def replicas_before_and_after(
    rng: random.Random, partitions: int
) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
    """The racks of each partition's replicas, before and after a quarter of them lose all but one replica."""
    before: list[Sequence[str]] = [rng.sample(RACKS, 2) for _ in range(partitions)]
    return before, [rng.sample(RACKS, 1) if rng.random() < 0.25 else racks for racks in before]


def moved_replicas(rng: random.Random) -> Group:
    """The group after its replicas moved, with the rates of the partitions in bytes a second."""
    before, after = (tuple(map(frozenset, racks)) for racks in replicas_before_and_after(rng, PARTITIONS))
    rates = tuple(rng.randint(10_000, 2_000_000) for _ in range(PARTITIONS))
    members = [
        Member(f"m{number:02}", frozenset({"orders"}), rack=RACKS[number % len(RACKS)])
        for number in range(MEMBERS)
    ]
    settled = RackAwareSticky().assign(Group.of([Topic("orders", PARTITIONS, before)], members))
    return Group.of(
        [Topic("orders", PARTITIONS, after, weights=rates)],
        [replace(member, owned=settled.members[member.id], generation=1) for member in members],
        2,
    )


def across_racks(group: Group, held: Mapping[str, TopicPartitions]) -> int:
    """The rate of the partitions that have no replica in the rack of their member, in bytes a second."""
    topic = group.topics["orders"]
    assert topic.weights is not None
    return sum(
        topic.weights[partition] or 0
        for member, of in held.items()
        for partition in topic.rack_misses(group.members[member].rack, of.get("orders", ()))
    )


def computed() -> Iterator[str]:
    """The table of a computed group, line by line."""
    group = moved_replicas(random.Random(7))
    yield "| `moves_per_miss` | moved | misses | across racks before | after |"
    yield "|---|---:|---:|---:|---:|"
    for worth in WORTHS:
        assignment = RackAwareSticky(worth).assign(group)
        quality = quality_of.measure(group, assignment)
        before, after = (
            f"{across_racks(group, held) / 1e6:.1f} MB/s"
            for held in (group.claims.owners, assignment.members)
        )
        yield f"| {worth} | {quality.moved} | {quality.rack_misses} | {before} | {after} |"


def measured(kafka: KafkaCluster, program: str) -> Iterator[str]:
    """The table of a real group under each strategy, line by line. All groups read the same topic."""
    at_first, later = (
        [[1 + RACKS.index(rack) for rack in racks] for racks in replicas]
        for replicas in replicas_before_and_after(random.Random(1), REAL_PARTITIONS)
    )
    programs = dict.fromkeys(STRATEGIES.values(), program)
    with groups_in_racks(
        kafka, program, programs, replicas=at_first, members=REAL_MEMBERS, session_timeout_ms=_SESSION_MS
    ) as groups:
        formed = at_rest(groups)
        crossed = measure(kafka, groups, _RECORDS)
        kafka.reassign(groups[0].topic("orders"), later)
        settled = at_rest(groups)
        crosses = measure(kafka, groups, _RECORDS)
    columns = ("misses", "once replicas moved", "moved", "rebalances", "left", "across racks", "at rest")
    yield f"| strategy | {' | '.join(columns)} |"
    yield f"|---|{'--:|' * len(columns)}"
    for name, group, before, after in zip(STRATEGIES, groups, formed, settled, strict=True):
        cells = (
            name,
            misses(before, at_first),
            misses(before, later),
            moved(before, after),
            after.generation - before.generation,
            misses(after, later),
            f"{crossed[group.id]:.1%}",
            f"{crosses[group.id]:.1%}",
        )
        yield f"| {' | '.join(map(str, cells))} |"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Rack misses against moves.")
    parser.add_argument("--group", action="store_true", help="in a real group on three brokers")
    parser.add_argument("--client", choices=PROGRAMS, default="aiokafka", help="of that group")
    options = parser.parse_args(arguments)
    if options.group:
        with KafkaCluster(brokers=3) as kafka:
            print("\n".join(measured(kafka, PROGRAMS[options.client])))
    else:
        print("\n".join(computed()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
