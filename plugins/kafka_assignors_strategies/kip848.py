"""`kip848-uniform` and `kip848-range`: the assignments of a broker's assignors for a KIP-848 group.

The partitions that a member owns stand for its last target, from which the broker starts. The classes are in
`org.apache.kafka.coordinator.group.assignor` of Kafka 4.4.

**Range** is equal to `RangeAssignor` for every group. Topic by topic, consecutive partitions go to
consecutive members, static ones first. Neither racks nor earlier ownership play a part.

**Uniform, if all members subscribe to the same topics.** The assignor goes through the members once. A member
with more than its share keeps some, and gives the others back; it may have one of the extra partitions if it
has that many already, or if there are only as many members left as extra partitions. Then members that lack
partitions take, one after the other, all that they lack: first those without an owner, then those given back.

**Uniform, if subscriptions differ** (`assign_mixed`). Every member keeps what it has. A topic at a time,
those with most partitions a subscriber first, the partitions without an owner go to the subscribers with the
least load. Then, in the same order, the fullest subscribers give partitions of the topic, highest numbers
first, to the emptiest, until their loads are no more than one apart or the full ones have none left to give.
That ends when nothing moves, or after 16 rounds. It finds no chains: loads can be less even than possible.

**Order.** The broker takes members, topics and partitions in the order of its hash tables, here they come by
id, name and number. With equal subscriptions the order decides only which partitions move and which members
have the extra ones; otherwise it decides ties between members, and through them at times a load.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace
from operator import attrgetter

from kafka_assignors.group import Assignment, Group, Member, TopicPartitions
from kafka_assignors.strategies.range_roundrobin import Range, topics_by_subscribers
from kafka_assignors.strategy import RebalanceProtocol, Strategy


@dataclass(frozen=True, slots=True)
class Kip848Uniform(Strategy):
    """The broker's `uniform` (KIP-848): even loads and few moves, without a look at racks.

    Time is linear in the partitions where all members subscribe to the same topics; else each of at most 16
    rounds is, up to a logarithm, linear in the subscriptions and the partitions.
    """

    name = "kip848-uniform"
    protocols = (RebalanceProtocol.CONSUMER,)

    def assign(self, group: Group) -> Assignment:
        """The target of the group's next epoch."""
        members = sorted(group.members.values(), key=attrgetter("id"))
        if len({member.topics for member in members}) > 1:
            return assign_mixed(group, members)
        return Assignment(dict(zip(group.members, self._assign_alike(group, members), strict=True)))

    def _assign_alike(self, group: Group, members: Sequence[Member]) -> Iterator[TopicPartitions]:
        """The assignment of a group whose members all subscribe to the same topics."""
        claims = group.claims
        topics = sorted(members[0].topics & group.topics.keys()) if members else []
        free = _Free((name, claims.unowned[name]) for name in topics if name in claims.unowned)
        total = sum(group.topics[name].partitions for name in topics)
        base, extras = divmod(total, max(1, len(members)))
        kept: dict[str, TopicPartitions] = {}
        lacking: list[tuple[str, int]] = []
        for left, member in zip(range(len(members), 0, -1), members, strict=True):
            had = claims.owners.get(member.id, {})
            load = sum(map(len, had.values()))
            # A member that has an extra one already gets it, unless all remaining members must take one.
            share = base + (extras > 0 and (load > base or left <= extras))
            extras -= share > base
            if load > share:
                had = _first(had, share, free)
            elif load < share:
                lacking.append((member.id, share - load))
            kept[member.id] = had
        for member_id, count in lacking:
            kept[member_id] = _with(kept[member_id], free.take(count))
        return (kept[member_id] for member_id in group.members)


def _first(had: TopicPartitions, share: int, free: _Free) -> dict[str, Sequence[int]]:
    """The first `share` partitions by topic and number; the others become free."""
    keeps: dict[str, Sequence[int]] = {}
    for topic, partitions in sorted(had.items()):
        if kept := partitions[:share]:
            keeps[topic] = kept
        if given_back := partitions[share:]:
            free.add(topic, given_back)
        share -= len(kept)
    return keeps


class _Free:
    """Partitions without an owner, in the order in which they are given out."""

    def __init__(self, partitions: Iterable[tuple[str, Sequence[int]]]) -> None:
        self._parts = deque(partitions)

    def add(self, topic: str, partitions: Sequence[int]) -> None:
        self._parts.append((topic, partitions))

    def take(self, count: int) -> Iterator[tuple[str, Sequence[int]]]:
        """The next `count` partitions; there must be as many."""
        while count:
            topic, partitions = self._parts.popleft()
            if len(partitions) > count:
                self._parts.appendleft((topic, partitions[count:]))
                partitions = partitions[:count]
            count -= len(partitions)
            yield topic, partitions


def _with(had: TopicPartitions, more: Iterable[tuple[str, Sequence[int]]]) -> TopicPartitions:
    both = dict(had)
    for topic, partitions in more:
        both[topic] = sorted((*both.get(topic, ()), *partitions))
    return both


@dataclass(frozen=True, slots=True)
class Kip848Range(Strategy):
    """The broker's `range` (KIP-848): contiguous ranges of each topic, without a look at racks.

    It is the clients' `range` for members without racks.
    """

    name = "kip848-range"
    protocols = (RebalanceProtocol.CONSUMER,)

    def assign(self, group: Group) -> Assignment:
        """The target of the group's next epoch."""
        members = {member_id: replace(member, rack=None) for member_id, member in group.members.items()}
        return Range().assign(Group(group.topics, members, group.generation))


_ROUNDS = 16


def assign_mixed(group: Group, members: list[Member]) -> Assignment:
    """The target; `members` are in the order that decides ties."""
    subscribers = {
        topic.name: positions
        for positions, topics in topics_by_subscribers(group, members)
        for topic in topics
    }

    def rank(topic: str) -> tuple[float, int, str]:
        readers = len(subscribers[topic])
        return -(group.topics[topic].partitions / readers), readers, topic

    claims = group.claims
    work = _Work([claims.owners.get(member.id, {}) for member in members])
    topics = sorted(subscribers, key=rank)
    for topic in topics:
        if topic in claims.unowned:
            work.deal(topic, subscribers[topic], claims.unowned[topic])

    shared = [topic for topic in topics if len(subscribers[topic]) > 1]
    last_moved: int | None = None
    for _ in range(_ROUNDS):
        for index, topic in enumerate(shared):
            if index == last_moved:
                return work.result(group, members)
            if work.balance(topic, subscribers[topic]) or last_moved is None:
                last_moved = index
    return work.result(group, members)


class _Work:
    """The partitions of each member, by its position, on the way to the target."""

    def __init__(self, held: Sequence[Mapping[str, Sequence[int]]]) -> None:
        self._held: list[dict[str, Sequence[int]]] = [dict(topics) for topics in held]
        self._loads = [sum(map(len, topics.values())) for topics in held]

    def deal(self, topic: str, subscribers: Sequence[int], partitions: Sequence[int]) -> None:
        takers = self._emptiest(subscribers)
        gained: dict[int, list[int]] = {}
        for partition in partitions:
            self._take(takers, gained, partition)
        self._add(topic, gained)

    def balance(self, topic: str, subscribers: Sequence[int]) -> bool:
        """Let the fullest subscribers give partitions of the topic to the emptiest; whether any moved."""
        takers = self._emptiest(subscribers)
        stock = {
            position: sorted(self._held[position][topic])
            for _, _, position in takers
            if topic in self._held[position]
        }
        givers = [(-load, -place, position) for load, place, position in takers if position in stock]
        heapify(givers)
        gained: dict[int, list[int]] = {}
        # Loads of givers are stale in the other heap, and those of takers here: neither is reached.
        while givers and -givers[0][0] - takers[0][0] > 1:
            load, place, giver = givers[0]
            self._take(takers, gained, stock[giver].pop())
            self._loads[giver] -= 1
            if stock[giver]:
                heapreplace(givers, (load + 1, place, giver))
            else:
                heappop(givers)
        if gained:
            for position, left in stock.items():
                if left:
                    self._held[position][topic] = left
                else:
                    del self._held[position][topic]
            self._add(topic, gained)
        return bool(gained)

    def result(self, group: Group, members: Sequence[Member]) -> Assignment:
        by_id = {member.id: held for member, held in zip(members, self._held, strict=True)}
        return Assignment({member_id: by_id[member_id] for member_id in group.members})

    def _emptiest(self, subscribers: Sequence[int]) -> list[tuple[int, int, int]]:
        """A heap of load, place and position of each: of equal loads the first comes first."""
        by_load = sorted(subscribers, key=self._loads.__getitem__)
        return [(self._loads[position], place, position) for place, position in enumerate(by_load)]

    def _take(self, takers: list[tuple[int, int, int]], gained: dict[int, list[int]], partition: int) -> None:
        load, place, taker = takers[0]
        gained.setdefault(taker, []).append(partition)
        self._loads[taker] += 1
        heapreplace(takers, (load + 1, place, taker))

    def _add(self, topic: str, gained: Mapping[int, Sequence[int]]) -> None:
        for position, partitions in gained.items():
            held = self._held[position]
            held[topic] = sorted((*held.get(topic, ()), *partitions))
