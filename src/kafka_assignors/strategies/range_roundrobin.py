"""Kafka's `range` and `roundrobin`, equal to those of kafka-clients for every group and every leader.

**Order** (`in_java_order`) is part of the contract, since any client may lead. Static members come first, by
instance id, then the others by member id (`MemberInfo.compareTo` in `AbstractPartitionAssignor`). Java
compares by UTF-16 code units and Python by code points: they disagree about a character above U+FFFF beside
one from U+E000 to U+FFFF.

**Range.** Each topic on its own, cut into contiguous ranges, one for each subscriber in order. Topics with
the same subscribers and the same number of partitions are *co-partitioned*: partition p of each goes to the
same member. Each set of them is computed once.

**Racks of range (KIP-881).** Partitions first go to members with a replica in their own rack, within their
share. A member without a rack matches every partition.

1. *A topic without co-partitioned ones*: the members, in order, each take partitions in their rack, lowest
   numbers first. Only if its racks matter: a member's rack is among those of the replicas, and not every
   partition is in all of them.
2. *Co-partitioned topics*: the partition numbers, in order, each go to the first member with room that
   matches the partition in *all* these topics; as soon as the racks of *any* topic of the group matter.
3. *The rest* of a topic is handed out in order, each member taking what its share still lacks.

**Round robin.** Topics by name, partitions by number, and one dealer goes round the members for all of them,
past those that do not subscribe. Within a topic of m subscribers each gets every m-th partition: a `range`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise

from kafka_assignors.group import Assignment, Group, Member, Topic
from kafka_assignors.strategy import RebalanceProtocol, Strategy


def java_order(text: str) -> bytes:
    """A sort key that orders strings as Java's `String.compareTo` does."""
    # Big-endian code units compare byte by byte as they compare as numbers. A lone surrogate cannot arrive
    # over the wire, but it can from JSON; it sorts like any other code unit.
    return text.encode("utf-16-be", "surrogatepass")


def in_java_order(members: Iterable[Member]) -> list[Member]:
    """The members in the order of Kafka's assignors: static ones by instance id, then dynamic ones by id.

    Two members with one instance id, which a broker never allows, are ordered by member id; in Java a hash
    table decides their order.
    """

    def rank(member: Member) -> tuple[bool, bytes, bytes]:
        by_id = java_order(member.id)
        if member.instance_id is None:
            return True, by_id, by_id
        return False, java_order(member.instance_id), by_id

    return sorted(members, key=rank)


def topics_by_subscribers(group: Group, members: list[Member]) -> list[tuple[tuple[int, ...], list[Topic]]]:
    """The topics with partitions and subscribers, grouped by their subscribers: positions in `members`.

    Time is linear in the sizes of the distinct subscriptions and of the result.
    """
    by_subscription: dict[frozenset[str], list[int]] = defaultdict(list)
    for position, member in enumerate(members):
        by_subscription[member.topics].append(position)

    subscriptions_to: dict[str, list[int]] = defaultdict(list)
    for number, names in enumerate(by_subscription):
        for name in names:
            topic = group.topics.get(name)
            if topic is not None and topic.partitions:
                subscriptions_to[name].append(number)

    gathered: dict[tuple[int, ...], list[Topic]] = defaultdict(list)
    for name, numbers in subscriptions_to.items():
        gathered[tuple(numbers)].append(group.topics[name])
    positions = list(by_subscription.values())
    return [
        (tuple(sorted(chain.from_iterable(positions[number] for number in numbers))), topics)
        for numbers, topics in gathered.items()
    ]


@dataclass(frozen=True, slots=True)
class Range(Strategy):
    """Kafka's `range`: contiguous ranges of each topic, the same in co-partitioned topics, racks respected.

    Balanced within each topic; over all topics the first members get the extra partition of every one.
    """

    name = "range"
    protocols = (RebalanceProtocol.EAGER,)

    def follows_racks(self) -> bool:
        """True: partitions go to members with a replica in their rack."""
        return True

    def assign(self, group: Group) -> Assignment:
        members = in_java_order(group.members.values())
        co_partitioned: list[tuple[tuple[int, ...], list[Topic]]] = []
        for subscribers, topics in topics_by_subscribers(group, members):
            by_partitions: dict[int, list[Topic]] = defaultdict(list)
            for topic in topics:
                by_partitions[topic.partitions].append(topic)
            co_partitioned += [(subscribers, equal) for equal in by_partitions.values()]

        # An empty rack is no rack.
        racks = [member.rack or None for member in members]
        with_racks_that_matter = {
            topic.name
            for subscribers, topics in co_partitioned
            if (known := {racks[position] for position in subscribers} - {None})
            for topic in topics
            if _racks_matter(topic, known)
        }

        assigned: list[dict[str, Sequence[int]]] = [{} for _ in members]
        for subscribers, topics in co_partitioned:
            subscriber_racks = [racks[position] for position in subscribers]
            shares: Sequence[Sequence[int]]
            if len(topics) == 1 and topics[0].name in with_racks_that_matter:
                shares = _matched_alone(topics[0], subscriber_racks)
            elif len(topics) > 1 and with_racks_that_matter and any(subscriber_racks):
                shares = _matched_together(topics, subscriber_racks)
            else:
                shares = ranges(topics[0].partitions, len(subscribers))
            names = [topic.name for topic in topics]
            # Where there are fewer partitions than subscribers, the last of them have no range.
            for position, share in zip(subscribers, shares, strict=False):
                if share:
                    assigned[position].update(dict.fromkeys(names, share))
        return Assignment({member.id: topics for member, topics in zip(members, assigned, strict=True)})


def _replica_racks(topic: Topic) -> Sequence[frozenset[str]]:
    return topic.replica_racks if topic.replica_racks is not None else (frozenset(),) * topic.partitions


def _racks_matter(topic: Topic, member_racks: set[str | None]) -> bool:
    """Whether racks decide: a member is in one of the topic's, and not every partition is in all of them."""
    replica_racks = _replica_racks(topic)
    topic_racks = frozenset().union(*replica_racks)
    return not topic_racks.isdisjoint(member_racks) and any(racks != topic_racks for racks in replica_racks)


def ranges(partitions: int, subscribers: int) -> list[range]:
    """The partitions of each subscriber without racks; the list ends before those that get none."""
    base, extras = divmod(partitions, subscribers)
    starts = [base * i + min(i, extras) for i in range(min(subscribers, partitions) + 1)]
    return [range(start, end) for start, end in pairwise(starts)]


def _matched_alone(topic: Topic, racks: list[str | None]) -> list[list[int]]:
    """Step 1: subscriber by subscriber, the lowest free partitions in its rack, up to its share."""
    shares = _Shares(topic.partitions, len(racks))
    in_rack: dict[str | None, list[int]] = defaultdict(list)
    for partition, replica_racks in enumerate(_replica_racks(topic)):
        for replica_rack in replica_racks:
            in_rack[replica_rack].append(partition)
    in_rack[None] = list(range(topic.partitions))

    # One iterator a rack, going on where the last member of it stopped: every replica is looked at once.
    candidates = {rack: filter(shares.free.__getitem__, partitions) for rack, partitions in in_rack.items()}
    for subscriber, rack in enumerate(racks):
        if found := list(islice(candidates.get(rack, ()), shares.room(subscriber))):
            shares.take(subscriber, found)
    return shares.completed()


def _matched_together(topics: list[Topic], racks: list[str | None]) -> list[list[int]]:
    """Step 2: partition by partition, the first subscriber with room that it suits in all these topics."""
    shares = _Shares(topics[0].partitions, len(racks))
    waiting: dict[str | None, deque[int]] = defaultdict(deque)
    for subscriber, rack in enumerate(racks):
        waiting[rack].append(subscriber)

    for partition, replica_racks in enumerate(zip(*map(_replica_racks, topics), strict=True)):
        first: list[int] = []
        for rack in (*frozenset.intersection(*replica_racks), None):
            queue = waiting.get(rack, ())
            # Room never comes back, so a full member can be forgotten.
            while queue and not shares.room(queue[0]):
                queue.popleft()
            first += islice(queue, 1)
        if first:
            shares.take(min(first), [partition])
    return shares.completed()


class _Shares:
    """The shares of a set of co-partitioned topics while they are handed out; subscribers are positions."""

    def __init__(self, partitions: int, subscribers: int) -> None:
        self._base, self._extras = divmod(partitions, subscribers)
        self._taken: list[list[int]] = [[] for _ in range(subscribers)]
        self.free = bytearray(b"\x01") * partitions
        """1 for every partition that is not taken yet."""

    def room(self, subscriber: int) -> int:
        """How many more this one may take: an extra partition only while any are left."""
        return max(0, self._base + (self._extras > 0) - len(self._taken[subscriber]))

    def take(self, subscriber: int, partitions: Sequence[int]) -> None:
        """Hands over these free partitions: at least one, and no more than there is room for."""
        taken = self._taken[subscriber]
        taken += partitions
        for partition in partitions:
            self.free[partition] = 0
        if len(taken) > self._base:
            self._extras -= 1

    def completed(self) -> list[list[int]]:
        """Step 3: hands out what is left, in order, and returns what each subscriber has, ascending."""
        rest = filter(self.free.__getitem__, range(len(self.free)))
        for subscriber in range(len(self._taken)):
            if found := list(islice(rest, self.room(subscriber))):
                self.take(subscriber, found)
        return [sorted(taken) for taken in self._taken]


@dataclass(frozen=True, slots=True)
class RoundRobin(Strategy):
    """Kafka's `roundrobin`: partitions dealt one by one to the members that subscribe to their topic.

    Loads differ by one at most if all members subscribe to the same topics; else there is no such bound.
    """

    name = "roundrobin"
    protocols = (RebalanceProtocol.EAGER,)

    def assign(self, group: Group) -> Assignment:
        members = in_java_order(group.members.values())
        subscribed = [
            (topic, subscribers)
            for subscribers, topics in topics_by_subscribers(group, members)
            for topic in topics
        ]
        subscribed.sort(key=lambda entry: java_order(entry[0].name))
        dealt: list[dict[str, range]] = [{} for _ in members]
        turn = 0
        for topic, subscribers in subscribed:
            # The next subscriber of this lap round the members, else the first one of the next lap.
            first = bisect_left(subscribers, turn) % len(subscribers)
            served = subscribers[first:] + subscribers[:first]
            # A topic with fewer partitions than subscribers ends before every subscriber has had one.
            for partition, position in enumerate(served[: topic.partitions]):
                dealt[position][topic.name] = range(partition, topic.partitions, len(subscribers))
            turn = served[(topic.partitions - 1) % len(served)] + 1
        return Assignment({member.id: topics for member, topics in zip(members, dealt, strict=True)})
