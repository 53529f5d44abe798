"""Step 1: members and topics that are alike.

A group of two thousand members and a million partitions rarely holds that many *different* things. Members
that subscribe to the same topics, and count the same in balance, are interchangeable except for what they
own: together they are a **cohort**. Topics that are subscribed to by the same cohorts are interchangeable as
well: together they are a **topic class**. A group in which all members subscribe to all topics is one cohort
and one topic class, however large it is. Where racks count, a topic class falls apart by the racks of the
partitions' replicas into **partition classes**; where they do not, it is one partition class.

Names become integers here, once: members are numbered in the order that decides ties (instance id, else
member id), cohorts by their first member, classes by their first topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kafka_assignors.claims import Claims
from kafka_assignors.group import Group, Member, Topic, TopicPartitions
from kafka_assignors.scale import PLAIN, Scale

__all__ = ["Classes", "PartitionClass", "TopicClass", "classify"]


@dataclass(slots=True)
class TopicClass:
    """Topics with the same subscribers: how many partitions they have, and which cohorts subscribe."""

    partitions: int
    cohorts: tuple[int, ...]


@dataclass(slots=True)
class PartitionClass:
    """Partitions that are alike for every member, but for who owned them.

    `racks` are the racks in which the partitions have a replica, as far as members are there; None if no
    member can miss them. `owned` gives the partitions that members owned, by member number and topic,
    `unowned` the rest; `owned_counts` says how many each member owned.
    """

    topic_class: int
    racks: frozenset[str] | None
    partitions: int = 0
    owned: dict[int, TopicPartitions] = field(default_factory=dict)
    unowned: dict[str, Sequence[int]] = field(default_factory=dict)
    owned_counts: dict[int, int] = field(default_factory=dict)

    def owns(self, member: int, owned: TopicPartitions) -> None:
        """Note that a member owned these partitions of the class."""
        self.owned[member] = owned
        self.owned_counts[member] = sum(map(len, owned.values()))

    def misses(self, rack: str | None) -> bool:
        """Whether a member in this rack would consume these partitions from another rack."""
        return rack is not None and self.racks is not None and rack not in self.racks


@dataclass(frozen=True, slots=True)
class Classes:
    """A group in numbers.

    `members` in the order that decides ties; a member's number is its index. `racks` are the members' racks,
    all None where racks do not count. `cohorts` holds the member numbers of every cohort, ascending; members
    that can get nothing are in none. `subscriptions` are the topics that each cohort subscribes to,
    `capacities` how much each of its members can carry beside others, and `already` how many partitions each
    of them has that are not assigned here.
    """

    members: Sequence[Member]
    racks: Sequence[str | None]
    cohorts: Sequence[Sequence[int]]
    subscriptions: Sequence[frozenset[str]]
    capacities: Sequence[int]
    already: Sequence[int]
    topic_classes: Sequence[TopicClass]
    class_of_topic: Mapping[str, int]
    partition_classes: Sequence[PartitionClass]


def classify(group: Group, claims: Claims, scale: Scale = PLAIN, *, by_racks: bool = False) -> Classes:
    """Number the members and find what is alike; racks make a difference with `by_racks`.

    Cost: linear in members, subscriptions and claims; with racks, linear in partitions.
    """
    members = sorted(group.members.values(), key=lambda member: (member.instance_id or member.id, member.id))
    member_racks = [member.rack or None if by_racks else None for member in members]
    cohorts, subscriptions, capacities, already = _cohorts(group, members, scale)
    topic_classes, class_of_topic = _topic_classes(group, subscriptions)
    used_racks = frozenset(rack for rack in member_racks if rack is not None)
    topics = [group.topics[name] for name in sorted(class_of_topic)]
    if used_racks and _can_miss(topics, used_racks):
        partition_classes = _split_by_racks(topics, class_of_topic, used_racks, members, claims)
    else:
        partition_classes = _whole_classes(topics, class_of_topic, len(topic_classes), members, claims)
    return Classes(
        members,
        member_racks,
        cohorts,
        subscriptions,
        capacities,
        already,
        topic_classes,
        class_of_topic,
        partition_classes,
    )


def _can_miss(topics: Iterable[Topic], used_racks: frozenset[str]) -> bool:
    """Whether some partition has replicas in some racks where there are members, and not in others."""
    kinds: set[frozenset[str]] = set().union(*(topic.replica_racks or () for topic in topics))
    return any(replica_racks and not used_racks <= replica_racks for replica_racks in kinds)


def _cohorts(
    group: Group, members: Iterable[Member], scale: Scale
) -> tuple[list[list[int]], list[frozenset[str]], list[int], list[int]]:
    """The members of each cohort, and what they have in common: the topics with partitions that they
    subscribe to, their capacity, and what each of them has already.
    """
    assignable = frozenset(name for name, topic in group.topics.items() if topic.partitions)
    effective: dict[frozenset[str], frozenset[str]] = {}  # what is subscribed to: what of it can be assigned
    plain = not scale.capacities and not scale.already
    numbers: dict[Hashable, int] = {}
    cohorts: list[list[int]] = []
    subscriptions: list[frozenset[str]] = []
    capacities: list[int] = []
    already: list[int] = []
    for number, member in enumerate(members):
        topics = effective.get(member.topics)
        if topics is None:
            topics = effective[member.topics] = member.topics & assignable
        if not topics:
            continue
        # Most groups have no scale, and for members who are all alike this loop is much of the work.
        kind = topics if plain else (topics, scale.capacity(member.id), scale.has_already(member.id))
        cohort = numbers.setdefault(kind, len(cohorts))
        if cohort == len(cohorts):
            cohorts.append([])
            subscriptions.append(topics)
            capacities.append(scale.capacity(member.id))
            already.append(scale.has_already(member.id))
        cohorts[cohort].append(number)
    return cohorts, subscriptions, capacities, already


def _topic_classes(
    group: Group, subscriptions: Sequence[frozenset[str]]
) -> tuple[list[TopicClass], dict[str, int]]:
    """The topic classes, and the class of every topic with a subscriber."""
    subscribers: dict[str, list[int]] = defaultdict(list)
    for cohort, topics in enumerate(subscriptions):
        for topic in topics:
            subscribers[topic].append(cohort)
    numbers: dict[tuple[int, ...], int] = {}
    classes: list[TopicClass] = []
    class_of_topic: dict[str, int] = {}
    for topic in sorted(subscribers):
        cohorts = tuple(subscribers[topic])
        number = numbers.setdefault(cohorts, len(classes))
        if number == len(classes):
            classes.append(TopicClass(0, cohorts))
        classes[number].partitions += group.topics[topic].partitions
        class_of_topic[topic] = number
    return classes, class_of_topic


def _whole_classes(
    topics: Iterable[Topic],
    class_of_topic: Mapping[str, int],
    count: int,
    members: Iterable[Member],
    claims: Claims,
) -> list[PartitionClass]:
    """One partition class for each topic class: racks do not count."""
    classes = [PartitionClass(number, None) for number in range(count)]
    for topic in topics:
        into = classes[class_of_topic[topic.name]]
        into.partitions += topic.partitions
        if topic.name in claims.unowned:
            into.unowned[topic.name] = claims.unowned[topic.name]
    for number, member in enumerate(members):
        prior = claims.prior.get(member.id)
        if prior is None:
            continue
        keys = set(map(class_of_topic.__getitem__, prior))
        if len(keys) == 1:
            classes[keys.pop()].owns(number, prior)
            continue
        parts: dict[int, dict[str, Sequence[int]]] = {}
        for name, partitions in prior.items():
            key = class_of_topic[name]
            if key in parts:
                parts[key][name] = partitions
            else:
                parts[key] = {name: partitions}
        for key, part in parts.items():
            classes[key].owns(number, part)
    return classes


def _split_by_racks(
    topics: Iterable[Topic],
    class_of_topic: Mapping[str, int],
    used_racks: frozenset[str],
    members: Iterable[Member],
    claims: Claims,
) -> list[PartitionClass]:
    """Partition classes by topic class and by those racks of the replicas in which there are members."""
    numbers: dict[tuple[int, frozenset[str] | None], int] = {}
    classes: list[PartitionClass] = []
    matching: dict[frozenset[str], frozenset[str] | None] = {}  # the racks of the replicas: those that matter
    class_of: dict[str, list[int]] = {}  # topic: the partition class of each of its partitions
    for topic in topics:
        numbers_of_topic: list[int] = []
        for replica_racks in topic.replica_racks or (frozenset[str](),) * topic.partitions:
            if replica_racks not in matching:
                here = replica_racks & used_racks
                unmissable = not replica_racks or here == used_racks
                matching[replica_racks] = None if unmissable else here
            kind = (class_of_topic[topic.name], matching[replica_racks])
            number = numbers.setdefault(kind, len(classes))
            if number == len(classes):
                classes.append(PartitionClass(*kind))
            classes[number].partitions += 1
            numbers_of_topic.append(number)
        class_of[topic.name] = numbers_of_topic
        for number, part in _split(claims.unowned.get(topic.name, ()), numbers_of_topic).items():
            classes[number].unowned[topic.name] = part
    for number, member in enumerate(members):
        parts: dict[int, dict[str, Sequence[int]]] = {}
        for name, partitions in claims.prior.get(member.id, {}).items():
            for key, part in _split(partitions, class_of[name]).items():
                parts.setdefault(key, {})[name] = part
        for key, part_by_topic in parts.items():
            classes[key].owns(number, part_by_topic)
    return classes


def _split(partitions: Iterable[int], class_of: Sequence[int]) -> dict[int, list[int]]:
    """The partitions of a topic by partition class, in the order they came in."""
    parts: dict[int, list[int]] = {}
    for partition in partitions:
        key = class_of[partition]
        if key in parts:
            parts[key].append(partition)
        else:
            parts[key] = [partition]
    return parts
