"""Groups to measure on: the shapes that large consumer groups have, and those that are hard.

Every workload comes fresh, where nobody owns anything, and as a join, where everybody owns a balanced
share and the last member is new. Names are ordered like numbers; there is no randomness outside the seeds
given here.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies.cooperative_sticky import CooperativeSticky

__all__ = ["WORKLOADS", "Workload", "joined"]

GENERATION = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """A name with the numbers of members and partitions in it, and the fresh group."""

    name: str
    fresh: Callable[[], Group]


def joined(fresh: Group) -> Group:
    """The same group when its last member is new and the others own what they were assigned without it."""
    *before, last = fresh.members.values()
    assignment = CooperativeSticky().assign(Group.of(fresh.topics.values(), before))
    return Group.of(
        fresh.topics.values(),
        [*(replace(m, owned=assignment.members[m.id], generation=GENERATION - 1) for m in before), last],
        GENERATION,
    )


def _topics(count: int, partitions: int) -> list[Topic]:
    return [Topic(f"topic-{number:05}", partitions) for number in range(count)]


def _uniform(members: int, topics: int, partitions: int, racks: str = "", replicas: int = 2) -> Group:
    """Everybody reads everything; with racks, each partition has replicas in some of them."""
    all_topics = _topics(topics, partitions)
    if racks:
        rng = random.Random(1)
        all_topics = [
            replace(t, replica_racks=tuple(frozenset(rng.sample(racks, replicas)) for _ in range(partitions)))
            for t in all_topics
        ]
    names = frozenset(topic.name for topic in all_topics)
    return Group.of(
        all_topics,
        (
            Member(f"member-{number:05}", names, rack=racks[number % len(racks)] if racks else None)
            for number in range(members)
        ),
    )


def _bucket(members: int, topics: int, partitions: int, buckets: int = 5) -> Group:
    """Disjoint buckets of topics, each with members of its own."""
    all_topics = _topics(topics, partitions)
    names = [frozenset(t.name for t in all_topics[bucket::buckets]) for bucket in range(buckets)]
    return Group.of(all_topics, (Member(f"member-{n:05}", names[n % buckets]) for n in range(members)))


def _half(members: int, topics: int, partitions: int) -> Group:
    """Everybody reads a random half of the topics: no two members are alike."""
    rng = random.Random(1)
    all_topics = _topics(topics, partitions)
    names = [topic.name for topic in all_topics]
    return Group.of(
        all_topics,
        (Member(f"member-{n:05}", frozenset(rng.sample(names, topics // 2))) for n in range(members)),
    )


def _narrow(members: int, topics: int, partitions: int) -> Group:
    """Everybody reads everything but for one member, which reads a single topic."""
    group = _uniform(members, topics, partitions)
    first = next(iter(group.members.values()))
    return Group.of(
        group.topics.values(),
        [replace(first, topics=frozenset({next(iter(group.topics))})), *list(group.members.values())[1:]],
    )


WORKLOADS = (
    Workload("uniform 100 x 1k", lambda: _uniform(100, 10, 100)),
    Workload("half 200 x 400", lambda: _half(200, 40, 10)),
    Workload("one topic 100 x 10k", lambda: _uniform(100, 1, 10_000)),
    Workload("uniform 1000 x 10k", lambda: _uniform(1000, 100, 100)),
    Workload("uniform 1000 x 10k, 2-of-4 racks", lambda: _uniform(1000, 100, 100, "abcd")),
    Workload("bucket 1000 x 10k", lambda: _bucket(1000, 100, 100)),
    Workload("half 1000 x 10k", lambda: _half(1000, 100, 100)),
    Workload("narrow 500 x 20k", lambda: _narrow(500, 200, 100)),
    Workload("uniform 1000 x 100k", lambda: _uniform(1000, 1000, 100)),
    Workload("bucket 5000 x 50k", lambda: _bucket(5000, 500, 100)),
    Workload("uniform 2000 x 1M", lambda: _uniform(2000, 500, 2000)),
    Workload("narrow 2000 x 1M", lambda: _narrow(2000, 500, 2000)),
)
