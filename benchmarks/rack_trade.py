"""What `rack-aware-sticky` moves and what still crosses racks, for several worths of a rack miss.

    python -m benchmarks.rack_trade

24 members in three racks have settled on 240 partitions with replicas in two racks each. Then a quarter of
the partitions are left with one replica, in any rack. It is computed: no broker runs. The table is in
docs/racks.md.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace

from kafka_assignors import Group, Member, Topic
from kafka_assignors.quality import measure
from kafka_assignors.strategies import RackAwareSticky

MEMBERS, PARTITIONS, RACKS = 24, 240, "abc"
WORTHS = (0, 1, 1.5, 2, 3, 5, math.inf)


def moved_replicas(rng: random.Random) -> Group:
    """The group after its replicas were moved, with the rates of the partitions in bytes a second."""
    before = tuple(frozenset(rng.sample(RACKS, 2)) for _ in range(PARTITIONS))
    after = tuple(frozenset(rng.sample(RACKS, 1)) if rng.random() < 0.25 else replicas for replicas in before)
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


def main() -> None:
    group = moved_replicas(random.Random(7))
    print("| `moves_per_miss` | moved | misses | across racks before | after |")
    print("|---|---:|---:|---:|---:|")
    for worth in WORTHS:
        quality = measure(group, RackAwareSticky(worth).assign(group))
        assert quality.rack_traffic is not None
        before, after = (
            f"{rate / 1e6:.1f} MB/s" for rate in (quality.rack_traffic.before, quality.rack_traffic.after)
        )
        print(f"| {worth} | {quality.moved} | {quality.rack_misses} | {before} | {after} |")


if __name__ == "__main__":
    main()
