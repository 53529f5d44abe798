"""The orders in which Kafka's assignors walk through members and topics.

Whichever client leads a group, its members must get the same partitions, so the order is part of the
contract. Java compares strings by UTF-16 code units and Python by code points; the two disagree about a name
with a character above U+FFFF (an emoji) beside one with a character from U+E000 to U+FFFF (a private-use or
full-width one).

Static members come before dynamic ones, the former ordered by instance id, the latter by member id.

Source: `MemberInfo.compareTo` in `AbstractPartitionAssignor` of kafka-clients, `java.lang.String.compareTo`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from kafka_assignors.group import Group, Member, Topic

__all__ = ["in_java_order", "java_order", "topics_by_subscribers"]


def java_order(text: str) -> bytes:
    """A sort key that orders strings as Java's `String.compareTo` does."""
    # Big-endian code units compare byte by byte as they compare as numbers. A lone surrogate cannot arrive
    # over the wire, but it can from JSON; it sorts like any other code unit.
    return text.encode("utf-16-be", "surrogatepass")


def in_java_order(members: Iterable[Member]) -> list[Member]:
    """The members in the order of Kafka's assignors: static ones by instance id, then dynamic ones by id.

    Two members with one instance id, which a broker never lets happen, are ordered by member id; Java leaves
    their order to a hash table.
    """

    def rank(member: Member) -> tuple[bool, bytes, bytes]:
        by = member.id if member.instance_id is None else member.instance_id
        return member.instance_id is None, java_order(by), java_order(member.id)

    return sorted(members, key=rank)


def topics_by_subscribers(group: Group, members: list[Member]) -> list[tuple[tuple[int, ...], list[Topic]]]:
    """The topics with partitions and subscribers, gathered by who subscribes to them.

    A subscriber is its position in `members`; positions are ascending. Members that subscribe to the same set
    are looked at once, so the time is linear in the sizes of the distinct subscriptions and of the answer.
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
