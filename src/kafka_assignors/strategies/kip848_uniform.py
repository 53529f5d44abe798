"""`kip848-uniform`: what a broker's assignor `uniform` makes of the members of a KIP-848 group.

It is sticky and looks at no rack. `Group` describes the group between two epochs: what members own is taken
for their last target, which is what the broker starts from.

**All members subscribe to the same topics.** With P partitions and n members everybody is to get P // n, and
P % n of them one more. The members are gone through once. Whoever has more than its share keeps the first
that its hash tables name, and gives the others back; it may have one of the extra partitions if it has that
many already, or if there are only as many members left as extra partitions. Then the members that lack
something take, one after the other, all that they lack from what is free: first what nobody had, then what
was given back. Nobody moves more than has to be moved.

**Else** see `_uniform_mixed`.

**Order.** Members, topics and partitions are taken in the order of the broker's hash tables (`_java_hash`),
for which it needs the ids of the topics (`Topic.id`). Where an id is not known, the first 16 bytes of the
SHA-256 of the topic's name stand in for it: which partitions go where is then not what the broker would
decide; loads and the number of moves are, where all members subscribe to the same topics.

Three things leave no trace in a group, and can change the order of those that share a bucket: in which order
the members came (a single one of `generation` -1 is taken for the one that has just joined, and comes last),
in which the last target listed partitions (taken as ascending), and in which it listed topics (taken as by
name). `java` is the release of Java that the broker runs on; the one difference is between 18 and 19, for a
member with just 12, 24, 48 … partitions of a topic.

Equal to `org.apache.kafka.coordinator.group.assignor.UniformAssignor` of Kafka 4.4, given the same tables.
"""

from __future__ import annotations

import base64
import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafka_assignors.group import NO_GENERATION, Assignment, Group, Member, Topic, TopicPartitions
from kafka_assignors.strategies._java_hash import (
    collection_capacity,
    in_hash_order,
    string_hash,
    timeline_position,
    uuid_hash,
)
from kafka_assignors.strategies._order import java_order
from kafka_assignors.strategies._uniform_mixed import assign_mixed
from kafka_assignors.strategy import RebalanceProtocol, Strategy

__all__ = ["Kip848Uniform"]


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
        """What each member of the group gets, all of whom subscribe to the same topics."""
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
            # An extra one is for those that have it already, unless all that are left must take one.
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
        """The next `count` of them; there are as many."""
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
        # The one whose heartbeat is being answered is not in the table yet.
        coded.remove(new[0])
        coded.append(new[0])
    return in_hash_order(coded)


def topic_id(topic: Topic) -> bytes:
    """The 16 bytes of the topic's id, or what stands in for it."""
    if topic.id is not None:
        try:
            known = base64.b64decode(topic.id + "==", altchars=b"-_", validate=True)
        except ValueError:
            known = b""  # whoever kept the catalogue had names of their own
        if len(known) == 16:
            return known
    return hashlib.sha256(topic.name.encode("utf-8", "surrogatepass")).digest()[:16]
