"""`kip848-uniform` and `kip848-range`: the assignments of a broker's assignors for a KIP-848 group.

`Group` describes the group between two epochs: the partitions that a member owns stand for its last target,
from which the broker starts.

**Range.** Topic by topic, consecutive partitions to consecutive members: with P partitions and n subscribers
every subscriber gets P // n of them, and the first P % n one more. Static members come first, ordered by
instance id, then the others by member id. Neither racks nor earlier ownership play a part, unlike in the
clients' `range` (KIP-881). It does not depend on a hash table. Equal to
`org.apache.kafka.coordinator.group.assignor.RangeAssignor` of Kafka 4.4 for every group.

**Uniform, if all members subscribe to the same topics.** It is sticky and looks at no rack. With P partitions
and n members every member gets P // n, and P % n of them one more. The assignor goes through the members
once. A member with more than its share keeps the first that its hash tables name, and gives the others back;
it may have one of the extra partitions if it has that many already, or if there are only as many members left
as extra partitions. Then the members that lack partitions take, one after the other, all that they lack from
the free ones: first those that had no owner, then those that were given back. It makes no unnecessary move.

**Uniform, if subscriptions differ** (`assign_mixed`). Every member keeps the partitions that it has. A topic
at a time, those with most partitions a subscriber first (then those with fewer subscribers, then by id), the
partitions without an owner go to the subscribers with the least load, of equal ones to the first. Then the
same topics are *balanced*, again and again: the fullest subscribers give partitions of the topic, highest
numbers first, to the emptiest, until their loads are no more than one apart or the full ones have no
partition of this topic left to give. That ends when all topics were gone through in turn and nothing moved,
or after 16 rounds. It finds no chains. A member that is too full, but has nothing of a topic that an emptier
one reads, stays as it is, though a third could pass something on. So the loads can be less even than
possible, and partitions may move without need.

**Order.** Uniform takes members, topics and partitions in the order of the broker's hash tables, for which it
needs the ids of the topics (`Topic.id`). For an unknown id it takes the first 16 bytes of the SHA-256 of the
topic's name: then single partitions may go elsewhere than on the broker, but loads and the number of moves
are the broker's if all members subscribe to the same topics. The order looks random but is not: it follows
from the hash codes and from the size of the table.

A `HashMap` (and so a `HashSet`) of `capacity` buckets, a power of two, keeps an entry in the bucket that the
lowest bits of its spread hash code name, and iterates bucket by bucket; within a bucket the entries keep the
order of their insertion. The table doubles when it is more than three quarters full, and while it has less
than 64 buckets also when a ninth entry falls into one; neither changes the order within a bucket. From 64
buckets on, a ninth entry turns its bucket into a tree, whose own order is not reproduced here.

A `TimelineHashMap`, in which the coordinator keeps the members, takes the *highest* bits of the hash code
times a constant. Members that share all the bits in use stand there in the reverse order of their arrival.

A group does not record three facts that can change the order of those that share a bucket: the order in which
members joined (a single one of `generation` -1 counts as the latest, and comes last), the order of partitions
in the last target (here ascending), and that of its topics (here by name). `java` is the release of Java that
the broker runs on; the one difference is between 18 and 19, for a member with just 12, 24, 48 … partitions of
a topic.

Uniform is equal to `org.apache.kafka.coordinator.group.assignor.UniformAssignor` of Kafka 4.4, given the same
tables. Sources of these: `String.hashCode`, `HashMap.hash` and `HashSet(Collection)` of Java 17 to 25;
`org.apache.kafka.common.Uuid` and `org.apache.kafka.timeline.BaseHashTable` of Kafka 4.4.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from kafka_assignors.group import NO_GENERATION, Assignment, Group, Member, Topic, TopicPartitions
from kafka_assignors.strategies.range_roundrobin import (
    in_java_order,
    java_order,
    ranges,
    topics_by_subscribers,
)
from kafka_assignors.strategy import RebalanceProtocol, Strategy
from kafka_assignors.wire.consumer_offsets import string_hash


@dataclass(frozen=True, slots=True)
class Kip848Uniform(Strategy):
    """The broker's `uniform` (KIP-848): even loads and few moves, without a look at racks.

    Time is linear in the partitions where all members subscribe to the same topics; else each of at most 16
    rounds is, up to a logarithm, linear in the subscriptions and the partitions.
    """

    java: int = 21

    name = "kip848-uniform"
    protocols = (RebalanceProtocol.CONSUMER,)

    def assign(self, group: Group) -> Assignment:
        """The target of the group's next epoch."""
        members = _in_table_order(group.members.values())
        if len({member.topics for member in members}) > 1:
            ids = {name: topic_id(topic) for name, topic in group.topics.items()}
            return assign_mixed(group, members, ids)
        return Assignment(dict(zip(group.members, self._assign_alike(group, members), strict=True)))

    def _assign_alike(self, group: Group, members: Sequence[Member]) -> Iterator[TopicPartitions]:
        """The assignment of a group whose members all subscribe to the same topics."""
        claims = group.claims
        subscription = next(iter(members)).topics if members else frozenset()
        known = subscription & group.topics.keys()
        hashes = {name: uuid_hash(topic_id(group.topics[name])) for name in known}
        room = collection_capacity(len(subscription), self.java)
        by_name = in_hash_order(((string_hash(n), n) for n in sorted(subscription, key=java_order)), room)
        topics = in_hash_order(((hashes[name], name) for name in by_name if name in hashes), room)

        free = _Free((name, claims.unowned[name]) for name in topics if name in claims.unowned)
        total = sum(group.topics[name].partitions for name in topics)
        base, extras = divmod(total, max(1, len(members)))
        kept: dict[str, TopicPartitions] = {}
        lacking: list[tuple[str, int]] = []
        for left, member in zip(range(len(members), 0, -1), members, strict=True):
            had = claims.prior.get(member.id, {})
            load = sum(map(len, had.values()))
            # A member that has an extra one already gets it, unless all remaining members must take one.
            share = base + (extras > 0 and (load > base or left <= extras))
            extras -= share > base
            if load > share:
                had = self._first(had, share, hashes, free)
            elif load < share:
                lacking.append((member.id, share - load))
            kept[member.id] = had
        for member_id, count in lacking:
            kept[member_id] = _with(kept[member_id], free.take(count))
        return (kept[member_id] for member_id in group.members)

    def _first(
        self, had: TopicPartitions, share: int, hashes: dict[str, int], free: _Free
    ) -> dict[str, Sequence[int]]:
        """The first `share` partitions as the member's hash tables have them; the others become free."""
        keeps: dict[str, Sequence[int]] = {}
        for topic in in_hash_order((hashes[name], name) for name in sorted(had, key=java_order)):
            partitions = had[topic]
            if len(partitions) > share:
                room = collection_capacity(len(partitions), self.java)
                ordered = in_hash_order(((number, number) for number in partitions), room)
                partitions = sorted(ordered[:share])
                free.add(topic, ordered[share:])
            if partitions:
                keeps[topic] = partitions
            share -= len(partitions)
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
        both[topic] = sorted((*both[topic], *partitions)) if topic in both else sorted(partitions)
    return both


def _in_table_order(members: Iterable[Member]) -> list[Member]:
    """The members as the coordinator goes through them."""
    coded = [(string_hash(member.id), member) for member in members]
    coded.sort(key=lambda entry: (timeline_position(entry[0]), java_order(entry[1].id)))
    new = [entry for entry in coded if entry[1].generation == NO_GENERATION and not entry[1].owned]
    if len(new) == 1:
        # The member whose heartbeat is being answered is not in the table yet.
        coded.remove(new[0])
        coded.append(new[0])
    return in_hash_order(coded)


def topic_id(topic: Topic) -> bytes:
    """The 16 bytes of the topic's id; if it is unknown, of a digest of its name."""
    if topic.id is not None:
        try:
            known = base64.b64decode(topic.id + "==", altchars=b"-_", validate=True)
        except ValueError:
            known = b""  # an id in a form that is not Kafka's
        if len(known) == 16:
            return known
    return hashlib.sha256(topic.name.encode("utf-8", "surrogatepass")).digest()[:16]


@dataclass(frozen=True, slots=True)
class Kip848Range(Strategy):
    """The broker's `range` (KIP-848): contiguous ranges of each topic, without a look at racks.

    Time is linear in the topics times their subscribers.
    """

    name = "kip848-range"
    protocols = (RebalanceProtocol.CONSUMER,)

    def assign(self, group: Group) -> Assignment:
        """The target of the group's next epoch."""
        members = in_java_order(group.members.values())
        assigned: list[dict[str, Sequence[int]]] = [{} for _ in members]
        for subscribers, topics in topics_by_subscribers(group, members):
            for topic in topics:
                shares = ranges(topic.partitions, len(subscribers))
                # Where there are fewer partitions than subscribers, the last of them have no range.
                for position, share in zip(subscribers, shares, strict=False):
                    assigned[position][topic.name] = share
        return Assignment({member.id: topics for member, topics in zip(members, assigned, strict=True)})


_ROUNDS = 16


def assign_mixed(group: Group, members: list[Member], topic_ids: Mapping[str, bytes]) -> Assignment:
    """The target; `members` are in the order in which the broker numbers them."""
    subscribers = {
        topic.name: positions
        for positions, topics in topics_by_subscribers(group, members)
        for topic in topics
    }

    def rank(topic: str) -> tuple[float, int, tuple[int, int]]:
        readers = len(subscribers[topic])
        return -(group.topics[topic].partitions / readers), readers, _signed(topic_ids[topic])

    claims = group.claims
    work = _Work([claims.prior.get(member.id, {}) for member in members])
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
        takers = _takers(self._by_load(subscribers), self._loads)
        gained: dict[int, list[int]] = {}
        for partition, (_, taker) in zip(partitions, takers, strict=False):
            gained.setdefault(taker, []).append(partition)
            self._loads[taker] += 1
        self._add(topic, gained)

    def balance(self, topic: str, subscribers: Sequence[int]) -> bool:
        """Let the fullest subscribers give partitions of the topic to the emptiest; whether any moved."""
        by_load = self._by_load(subscribers)
        if self._loads[by_load[-1]] - self._loads[by_load[0]] <= 1:
            return False
        stock = {
            position: sorted(self._held[position][topic])
            for position in subscribers
            if topic in self._held[position]
        }
        gained: dict[int, list[int]] = {}
        takers = _takers(by_load, self._loads)
        for most, giver in _givers(by_load, self._loads, stock):
            least, taker = next(takers)
            if most - least <= 1:
                break
            gained.setdefault(taker, []).append(stock[giver].pop())
            self._loads[giver] -= 1
            self._loads[taker] += 1
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

    def _by_load(self, subscribers: Sequence[int]) -> list[int]:
        return sorted(subscribers, key=self._loads.__getitem__)  # stable: ties by position

    def _add(self, topic: str, gained: Mapping[int, Sequence[int]]) -> None:
        for position, partitions in gained.items():
            held = self._held[position]
            held[topic] = sorted((*held.get(topic, ()), *partitions))


def _takers(by_load: Sequence[int], loads: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Endlessly, the next load to fill up and a member with this load, the emptiest first.

    The caller must raise the load of each member by one before the next.
    """
    level, reached = loads[by_load[0]], 0
    while True:
        while reached < len(by_load) and loads[by_load[reached]] == level:
            reached += 1
        for taker in islice(by_load, reached):
            yield level, taker
        level += 1


def _givers(
    by_load: Sequence[int], loads: Sequence[int], stock: Mapping[int, Sequence[int]]
) -> Iterator[tuple[int, int]]:
    """The next load to lower and a member with this load and with stock, the fullest first.

    The caller must lower the load and the stock of each member by one before the next. A member without stock
    drops out, and the last in the row takes its place.
    """
    row, start = list(by_load), len(by_load)
    level = loads[by_load[-1]] + 1
    while row:
        level = loads[row[start - 1]] if len(row) == start else level - 1
        while start and loads[row[start - 1]] == level:
            start -= 1
        for place in range(len(row) - 1, start - 1, -1):
            giver = row[place]
            if stock.get(giver):
                yield level, giver
            else:
                row[place] = row[-1]
                row.pop()


def _signed(topic_id: bytes) -> tuple[int, int]:
    """A sort key as `Uuid.compareTo` compares: two signed numbers."""
    return int.from_bytes(topic_id[:8], "big", signed=True), int.from_bytes(topic_id[8:], "big", signed=True)


T = TypeVar("T")

HASH_MAP_CAPACITY = 16
"""The buckets of a `HashMap` that is made without a capacity."""

_ROOM_IN_A_BUCKET = 8
_LARGEST_THAT_GROWS_INSTEAD = 32
"""A table of at most this many buckets grows where a larger one would make a tree of the bucket."""

_FIBONACCI = -7046029254386353131


def uuid_hash(topic_id: bytes) -> int:
    """`Uuid.hashCode()` of Kafka, for the 16 bytes of an id, as an unsigned number of 32 bits."""
    both = int.from_bytes(topic_id[:8], "big") ^ int.from_bytes(topic_id[8:], "big")
    return (both >> 32) ^ (both & 0xFFFFFFFF)


def timeline_position(hash_code: int) -> int:
    """The position of an entry in a `TimelineHashMap`: lower ones come first, at any size of the table."""
    signed = hash_code - (1 << 32) if hash_code & 0x80000000 else hash_code
    return signed * _FIBONACCI & 0xFFFFFFFFFFFFFFFF


def collection_capacity(size: int, java: int) -> int:
    """Buckets of a `HashSet` made from a collection of this size, in this release of Java."""
    wanted = -(-size * 4 // 3) if java >= 19 else size * 4 // 3 + 1
    return max(HASH_MAP_CAPACITY, 1 << (wanted - 1).bit_length())


def in_hash_order(entries: Iterable[tuple[int, T]], capacity: int = HASH_MAP_CAPACITY) -> list[T]:
    """The values in the order of a `HashMap` that had `capacity` buckets when the first entry came.

    An entry is a hash code (unsigned, 32 bits) and a value.
    """
    spread = [(hash_code ^ (hash_code >> 16), value) for hash_code, value in entries]
    buckets = max(capacity, _grown(len(spread)))
    if buckets <= _LARGEST_THAT_GROWS_INSTEAD and len(spread) > _ROOM_IN_A_BUCKET:
        buckets = _grown_for_full_buckets([code for code, _ in spread], capacity)
    mask = buckets - 1
    spread.sort(key=lambda entry: entry[0] & mask)  # stable: within a bucket as they came
    return [value for _, value in spread]


def _grown(size: int) -> int:
    """The least power of two of which `size` entries take no more than three quarters."""
    least = 1 << max(0, size - 1).bit_length()
    return least if 4 * size <= 3 * least else 2 * least


def _grown_for_full_buckets(codes: Sequence[int], buckets: int) -> int:
    """The buckets after all of `codes` came, in this order, to a table that may grow for a full bucket."""
    filled: Counter[int] = Counter()
    for count, code in enumerate(codes, 1):
        filled[code & (buckets - 1)] += 1
        before = buckets
        if filled[code & (buckets - 1)] > _ROOM_IN_A_BUCKET and buckets <= _LARGEST_THAT_GROWS_INSTEAD:
            buckets *= 2
        if 4 * count > 3 * buckets:
            buckets *= 2
        if buckets > before:
            filled = Counter(earlier & (buckets - 1) for earlier in codes[:count])
    return buckets
