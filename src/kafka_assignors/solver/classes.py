"""Step 1: members and topics that are alike.

Members that subscribe to the same topics, and count the same in balance, are interchangeable except for what
they own: together they are a **cohort**. Topics that are subscribed to by the same cohorts are together a
**topic class**. A group in which all members subscribe to all topics is one cohort and one topic class,
however large it is. Where racks count, a topic class falls apart by the racks of the partitions' replicas
into **partition classes**; where they do not, it is one partition class.

Names become integers here, once: members are numbered in the order that decides ties (instance id, else
member id), cohorts by their first member, classes by their first topic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from kafka_assignors.claims import Claims
from kafka_assignors.criteria import PLAIN, Scale
from kafka_assignors.group import Group, Member, Topic, TopicPartitions

_NOTHING: TopicPartitions = MappingProxyType({})


@dataclass(slots=True)
class TopicClass:
    """Topics with the same subscribers: how many partitions they have, and which cohorts subscribe."""

    partitions: int
    cohorts: tuple[int, ...]


@dataclass(slots=True)
class PartitionClass:
    """Partitions that are alike for every member, except for their owners.

    `racks` are the racks in which the partitions have a replica, as far as members are there; None if no
    member can miss them. `owned_counts` says how many of the partitions each member owned, by its number;
    `unowned` gives those that no member owned, by topic.
    """

    topic_class: int
    racks: frozenset[str] | None
    partitions: int = 0
    unowned: dict[str, Sequence[int]] = field(default_factory=dict)
    owned_counts: dict[int, int] = field(default_factory=dict)

    def misses(self, rack: str | None) -> bool:
        """Whether a member in this rack would consume these partitions from another rack."""
        return rack is not None and self.racks is not None and rack not in self.racks


@dataclass(slots=True)  # a frozen one takes five times as long to make
class Classes:
    """A group in numbers.

    `members` in the order that decides ties; a member's number is its index. `racks` are the members' racks,
    all None where racks do not count. `cohorts` holds the member numbers of every cohort, ascending; members
    that can get nothing are in none. `subscriptions` are the topics that each cohort subscribes to,
    `capacities` the capacity of each of its members, and `already` how many partitions each of them has that
    are not assigned here. `prior` gives what each member owned, by its number. `class_of_topic` gives the
    topic class of each topic; `split` gives the partition class of each partition of a topic, None if every
    topic class is one partition class.
    """

    members: Sequence[Member]
    prior: Sequence[TopicPartitions]
    racks: Sequence[str | None]
    cohorts: Sequence[Sequence[int]]
    subscriptions: Sequence[frozenset[str]]
    capacities: Sequence[int]
    already: Sequence[int]
    topic_classes: Sequence[TopicClass]
    class_of_topic: Mapping[str, int]
    split: Mapping[str, Sequence[int]] | None
    partition_classes: Sequence[PartitionClass]

    def owned_by(self, member: int) -> dict[int, TopicPartitions]:
        """What a member owned, by partition class and topic."""
        owned = self.prior[member]
        parts: dict[int, dict[str, Sequence[int]]] = {}
        if self.split is not None:
            for name, partitions in owned.items():
                for key, part in _split(partitions, self.split[name]).items():
                    parts.setdefault(key, {})[name] = part
        elif len(keys := set(map(self.class_of_topic.__getitem__, owned))) == 1:
            return {keys.pop(): owned}
        else:
            for name, partitions in owned.items():
                parts.setdefault(self.class_of_topic[name], {})[name] = partitions
        return {**parts}


def classify(group: Group, claims: Claims, scale: Scale = PLAIN, *, by_racks: bool = False) -> Classes:
    """Number the members and find what is alike; with `by_racks`, racks make a difference.

    Cost: linear in members, subscriptions and claims; with racks, linear in partitions.
    """
    members = sorted(group.members.values(), key=lambda member: (member.instance_id or member.id, member.id))
    member_racks = [member.rack or None if by_racks else None for member in members]
    cohorts, subscriptions, capacities, already = _cohorts(group, members, scale)
    topic_classes, class_of_topic = _topic_classes(group, subscriptions)
    used_racks = frozenset(rack for rack in member_racks if rack is not None)
    topics = [group.topics[name] for name in sorted(class_of_topic)]
    prior: list[TopicPartitions] = [claims.owners.get(member.id, _NOTHING) for member in members]
    split: dict[str, Sequence[int]] | None = None
    if used_racks and _can_miss(topics, used_racks):
        partition_classes, split = _split_by_racks(topics, class_of_topic, used_racks, claims.unowned)
        _count_split(partition_classes, prior, split)
    else:
        partition_classes = _whole_classes(topics, class_of_topic, len(topic_classes), claims.unowned)
        _count_whole(partition_classes, prior, class_of_topic)
    return Classes(
        members,
        prior,
        member_racks,
        cohorts,
        subscriptions,
        capacities,
        already,
        topic_classes,
        class_of_topic,
        split,
        partition_classes,
    )


def _can_miss(topics: Iterable[Topic], used_racks: frozenset[str]) -> bool:
    """Whether some partition has replicas in some racks where there are members, and not in others."""
    return any(
        replica_racks and not used_racks <= replica_racks
        for topic in topics
        for replica_racks in set(topic.replica_racks or ())
    )


def _cohorts(
    group: Group, members: Iterable[Member], scale: Scale
) -> tuple[list[list[int]], list[frozenset[str]], list[int], list[int]]:
    """The members of each cohort, and what they have in common: the topics with partitions that they
    subscribe to, their capacity, and what each of them has already.
    """
    assignable = frozenset(name for name, topic in group.topics.items() if topic.partitions)
    effective: dict[frozenset[str], frozenset[str]] = {}  # subscription: its topics with partitions
    plain = not scale.capacities and not scale.already
    numbers: dict[Hashable, int] = {}
    cohorts: list[list[int]] = []
    subscriptions: list[frozenset[str]] = []
    capacities: list[int] = []
    already: list[int] = []
    for number, member in enumerate(members):
        topics = effective.get(member.topics)
        if topics is None:
            topics = member.topics if member.topics <= assignable else member.topics & assignable
            effective[member.topics] = topics
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
    topics: Iterable[Topic], class_of_topic: Mapping[str, int], count: int, unowned: TopicPartitions
) -> list[PartitionClass]:
    """One partition class for each topic class: racks do not count."""
    classes = [PartitionClass(number, None) for number in range(count)]
    for topic in topics:
        into = classes[class_of_topic[topic.name]]
        into.partitions += topic.partitions
        if topic.name in unowned:
            into.unowned[topic.name] = unowned[topic.name]
    return classes


def _count_whole(
    classes: Sequence[PartitionClass], prior: Iterable[TopicPartitions], class_of_topic: Mapping[str, int]
) -> None:
    if len(classes) == 1:
        classes[0].owned_counts = {
            number: sum(map(len, owned.values())) for number, owned in enumerate(prior) if owned
        }
        return
    counts_of = {name: classes[key].owned_counts for name, key in class_of_topic.items()}
    for number, owned in enumerate(prior):
        for name, partitions in owned.items():
            counts = counts_of[name]
            if number in counts:
                counts[number] += len(partitions)
            else:
                counts[number] = len(partitions)


def _split_by_racks(
    topics: Iterable[Topic],
    class_of_topic: Mapping[str, int],
    used_racks: frozenset[str],
    unowned: TopicPartitions,
) -> tuple[list[PartitionClass], dict[str, Sequence[int]]]:
    """Partition classes by topic class and by those racks of the replicas in which there are members.

    Also returns, by topic, the class of each of its partitions.
    """
    classes: list[PartitionClass] = []
    numbers: dict[int, _Numbers] = {}  # by topic class
    split: dict[str, Sequence[int]] = {}
    for topic in topics:
        topic_class = class_of_topic[topic.name]
        if topic_class not in numbers:
            numbers[topic_class] = _Numbers(topic_class, used_racks, classes)
        racks_of_each = topic.replica_racks or (frozenset[str](),) * topic.partitions
        class_of = split[topic.name] = [*map(numbers[topic_class].__getitem__, racks_of_each)]
        for number, count in Counter(class_of).items():
            classes[number].partitions += count
        for number, part in _split(unowned.get(topic.name, ()), class_of).items():
            classes[number].unowned[topic.name] = part
    return classes, split


class _Numbers(dict[frozenset[str], int]):
    """The number of the partition class, by the racks of the replicas; a missing class is added."""

    def __init__(self, topic_class: int, used_racks: frozenset[str], classes: list[PartitionClass]) -> None:
        super().__init__()
        self._topic_class, self._used_racks, self._classes = topic_class, used_racks, classes
        self._by_matching: dict[frozenset[str] | None, int] = {}

    def __missing__(self, replica_racks: frozenset[str]) -> int:
        here = replica_racks & self._used_racks
        matching = None if not replica_racks or here == self._used_racks else here
        number = self[replica_racks] = self._by_matching.setdefault(matching, len(self._classes))
        if number == len(self._classes):
            self._classes.append(PartitionClass(self._topic_class, matching))
        return number


def _count_split(
    classes: Sequence[PartitionClass],
    prior: Iterable[TopicPartitions],
    class_of: Mapping[str, Sequence[int]],
) -> None:
    """Count what each member owned of each class, where the partitions of a topic are in several classes."""
    for number, owned in enumerate(prior):
        keys = [class_of[name][partition] for name, partitions in owned.items() for partition in partitions]
        for key in set(keys):
            classes[key].owned_counts[number] = keys.count(key)


def _split(partitions: Sequence[int], class_of: Sequence[int]) -> dict[int, Sequence[int]]:
    """The partitions of a topic by partition class, in the order they came in."""
    keys = [*map(class_of.__getitem__, partitions)]
    kinds = dict.fromkeys(keys)
    if len(kinds) == 1:
        return dict.fromkeys(kinds, partitions)
    parts: dict[int, list[int]] = {key: [] for key in kinds}
    for key, partition in zip(keys, partitions, strict=True):
        parts[key].append(partition)
    return {**parts}
