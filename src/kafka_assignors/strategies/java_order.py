"""The orders in which Kafka's Java code walks through members, topics and partitions.

**Clients' assignors** (`in_java_order`). Every client that leads a group must give its members the same
partitions, so the order is part of the contract. Java compares strings by UTF-16 code units and Python by
code points; the two disagree about a name with a character above U+FFFF (an emoji) beside one with a
character from U+E000 to U+FFFF (a private-use or full-width one). Static members come before dynamic ones,
the former ordered by instance id, the latter by member id. Source: `MemberInfo.compareTo` in
`AbstractPartitionAssignor` of kafka-clients, `java.lang.String.compareTo`.

**A broker's hash tables** (`in_hash_order`). KIP-848's `uniform` takes members, topics and partitions as
Java's hash tables give them. That order looks random but is not: it follows from the hash codes and from the
size of the table.

A `HashMap` (and so a `HashSet`) of `capacity` buckets, a power of two, keeps an entry in the bucket that the
lowest bits of its spread hash code name, and iterates bucket by bucket; within a bucket the entries keep the
order of their insertion. The table doubles when it is more than three quarters full, and while it has less
than 64 buckets also when a ninth entry falls into one; neither changes the order within a bucket. From 64
buckets on, a ninth entry turns its bucket into a tree, whose own order is not reproduced here.

A `TimelineHashMap`, in which the coordinator keeps the members, takes the *highest* bits of the hash code
times a constant. Members that share all the bits in use stand there in the reverse order of their arrival.

Sources: `String.hashCode`, `HashMap.hash` and `HashSet(Collection)` in Java's documentation and sources (17
to 25); `org.apache.kafka.common.Uuid` and `org.apache.kafka.timeline.BaseHashTable` of Kafka 4.4.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeVar

from kafka_assignors.group import Group, Member, Topic

T = TypeVar("T")

HASH_MAP_CAPACITY = 16
"""The buckets of a `HashMap` that is made without a capacity."""

_ROOM_IN_A_BUCKET = 8
_LARGEST_THAT_GROWS_INSTEAD = 32
"""A table of at most so many buckets grows where a larger one would make a tree of the bucket."""

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
        by_id = java_order(member.id)
        if member.instance_id is None:
            return True, by_id, by_id
        return False, java_order(member.instance_id), by_id

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
