"""Groups to measure on: typical large consumer groups, and groups that are hard to balance.

A workload has situations: *fresh*, no partition has an owner; *join*, members own a balanced share and the
last member is new; *leave*, the last member has left, and the others own their share; *unchanged*, all
members own a balanced share, as when one of them joins again. Names sort like numbers. All randomness comes
from the fixed seeds in this module.

`kafka uniform` and `kafka bucket` are the homogeneous and heterogeneous subscriptions of Kafka's own
`ClientSideAssignorBenchmark` (jmh-benchmarks in apache/kafka): 100 topics, up to 10,000 members, ten
partitions a member, three replicas over three racks where racks count, and a member that joins.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies.sticky import CooperativeSticky

__all__ = ["WORKLOADS", "Workload", "joined", "left", "unchanged"]

GENERATION = 8


@dataclass(frozen=True, slots=True)
class Workload:
    """A name with the number of members and partitions, the fresh group, and the situations."""

    name: str
    fresh: Callable[[], Group]
    situations: tuple[str, ...] = ("fresh", "join")

    def group(self, situation: str) -> Group:
        """The group in one of its situations."""
        return _SITUATIONS[situation](self.fresh())


def joined(fresh: Group) -> Group:
    """The group when its last member is new and the others own their assignment without it."""
    *before, last = fresh.members.values()
    return Group.of(fresh.topics.values(), [*_settled(fresh, before), last], GENERATION)


def left(fresh: Group) -> Group:
    """The group without its last member, when the others own their assignment with it."""
    return Group.of(fresh.topics.values(), _settled(fresh, fresh.members.values())[:-1], GENERATION)


def unchanged(fresh: Group) -> Group:
    """The group when all members own their assignment."""
    return Group.of(fresh.topics.values(), _settled(fresh, fresh.members.values()), GENERATION)


def _settled(fresh: Group, members: Collection[Member]) -> list[Member]:
    """These members of the group; each owns its assignment in a group of only these members."""
    assignment = CooperativeSticky().assign(Group.of(fresh.topics.values(), members))
    return [replace(m, owned=assignment.members[m.id], generation=GENERATION - 1) for m in members]


_SITUATIONS: dict[str, Callable[[Group], Group]] = {
    "fresh": lambda group: group,
    "join": joined,
    "leave": left,
    "unchanged": unchanged,
}


def _topics(count: int, partitions: int) -> list[Topic]:
    return [Topic(f"topic-{number:05}", partitions) for number in range(count)]


def _group(topics: Sequence[Topic], subscriptions: Iterable[Iterable[Topic]]) -> Group:
    """Members that subscribe to these topics, in order."""
    members = (
        Member(f"member-{number:05}", frozenset(topic.name for topic in subscribed))
        for number, subscribed in enumerate(subscriptions)
    )
    return Group.of(topics, members)


def _uniform(members: int, topics: int, partitions: int) -> Group:
    """Every member reads every topic."""
    all_topics = _topics(topics, partitions)
    return _group(all_topics, [all_topics] * members)


def _small(members: int, sizes: Sequence[int], *, mixed: bool = False) -> Group:
    """Topics of these sizes that every member reads; if `mixed`, every other member leaves out the last."""
    topics = [Topic(f"topic-{number:05}", partitions) for number, partitions in enumerate(sizes)]
    some = topics[:-1] if mixed else topics
    return _group(topics, (some if number % 2 else topics for number in range(members)))


def _in_racks(group: Group, racks: str, replicas: int) -> Group:
    """The group with members in these racks in turn, and replicas in random racks."""
    rng = random.Random(1)
    topics = [
        replace(t, replica_racks=tuple(frozenset(rng.sample(racks, replicas)) for _ in range(t.partitions)))
        for t in group.topics.values()
    ]
    members = [replace(m, rack=racks[n % len(racks)]) for n, m in enumerate(group.members.values())]
    return Group.of(topics, members)


def _bucket(members: int, topics: int, partitions: int, buckets: int = 5) -> Group:
    """Disjoint buckets of neighbouring topics, each with neighbouring members of its own."""
    all_topics = _topics(topics, partitions)
    size = topics // buckets
    parts = [all_topics[bucket * size : (bucket + 1) * size] for bucket in range(buckets)]
    return _group(all_topics, (parts[number * buckets // members] for number in range(members)))


def _half(members: int, topics: int, partitions: int) -> Group:
    """Every member reads a random half of the topics; no two members have the same subscription."""
    rng = random.Random(1)
    all_topics = _topics(topics, partitions)
    return _group(all_topics, (rng.sample(all_topics, topics // 2) for _ in range(members)))


def _chain(members: int, partitions: int) -> Group:
    """Each member reads two neighbouring topics; the last one reads only the first topic.

    When the last member joins, it can get its share only from a member that must get as much from its
    neighbour, and so on along the chain.
    """
    topics = _topics(members, partitions)
    return _group(topics, [*(topics[n : n + 2] for n in range(members - 1)), topics[:1]])


_EVERY_DAY = ("fresh", "join", "leave", "unchanged")

WORKLOADS = (
    Workload("three topics 8 x 31", lambda: _small(8, (16, 12, 3)), _EVERY_DAY),
    Workload("mixed three topics 8 x 31", lambda: _small(8, (16, 12, 3), mixed=True), _EVERY_DAY),
    Workload("kafka uniform 100 x 1k", lambda: _uniform(100, 100, 10)),
    Workload("kafka uniform 1000 x 10k", lambda: _uniform(1000, 100, 100)),
    Workload("kafka uniform 10000 x 100k", lambda: _uniform(10_000, 100, 1000)),
    Workload("kafka bucket 100 x 1k", lambda: _bucket(100, 100, 10)),
    Workload("kafka bucket 1000 x 10k", lambda: _bucket(1000, 100, 100)),
    Workload("kafka bucket 10000 x 100k", lambda: _bucket(10_000, 100, 1000)),
    Workload("kafka uniform 1000 x 10k, 3-of-3 racks", lambda: _in_racks(_uniform(1000, 100, 100), "abc", 3)),
    Workload("uniform 1000 x 10k, 2-of-4 racks", lambda: _in_racks(_uniform(1000, 100, 100), "abcd", 2)),
    Workload("uniform 10000 x 100k, 2-of-4 racks", lambda: _in_racks(_uniform(10_000, 100, 1000), "abcd", 2)),
    Workload("one topic 100 x 10k", lambda: _uniform(100, 1, 10_000)),
    Workload("uniform 100 x 10k", lambda: _uniform(100, 100, 100)),
    Workload("uniform 1000 x 100k", lambda: _uniform(1000, 1000, 100)),
    Workload("bucket 5000 x 50k", lambda: _bucket(5000, 500, 100)),
    Workload("half 1000 x 10k", lambda: _half(1000, 100, 100)),
    Workload("uniform 2000 x 1M", lambda: _uniform(2000, 500, 2000)),
    Workload("half 2000 x 1M", lambda: _half(2000, 500, 2000)),
    Workload("chain 500 x 50k", lambda: _chain(500, 100)),
)
