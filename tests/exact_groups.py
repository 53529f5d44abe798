"""Random groups with difficult claims: small ones for tests, and families of larger ones for the long search.

The family and a name determine each group of the search. The families:

- `small`: those of `random_group`, which are all of the others at once, and small
- `fresh`: no partition has an owner; uniform and mixed subscriptions
- `changed`: members joined, left or changed their subscription since an earlier assignment
- `grown`: as `changed`; also, partitions were added, topics created and deleted
- `racks`: as `changed`, with racks of members and replicas, and with replicas that have moved
- `claims`: as `changed`, with stale, duplicate, false and impossible claims
- `static`: members with instance ids; some restarted under a new member id and own nothing
- `everything`: all of these at once

A size is the greater of two numbers drawn evenly on a logarithmic scale: most groups are small, and enough
are large. The earlier assignment is by range, by roundrobin, by the sticky strategy or random.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kafka_assignors.group import Group, Member, Topic
from kafka_assignors.strategies import Range, RoundRobin, Sticky

FAMILIES = ("small", "fresh", "changed", "grown", "racks", "claims", "static", "everything")

RACKS = "abcd"
GENERATION = 12
"""The generation that the group forms; honest members were in the generation before it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum of each size; `partitions` are those of all topics."""

    members: int = 15
    topics: int = 10
    partitions: int = 240


SMALL = Limits()
OF_THE_SEARCH = Limits(members=40, topics=30, partitions=400)


def random_group(rng: random.Random, limits: Limits = SMALL) -> Group:
    """A group with anything that a family has; some members also subscribe to a topic without metadata."""
    group = _group(rng, "everything", limits)
    members = (
        replace(member, topics=member.topics | {"without-metadata"}) if rng.random() < 0.05 else member
        for member in group.members.values()
    )
    return Group.of(group.topics.values(), members, group.generation)


def draw(family: str, name: str) -> Group:
    """The group of this family and name; it is the same on every machine.

    Raises:
        ValueError: there is no such family.
    """
    if family not in FAMILIES:
        raise ValueError(f"no such family of groups: {family!r}")
    rng = random.Random(f"{family}/{name}")
    return random_group(rng) if family == "small" else _group(rng, family, OF_THE_SEARCH)


def _group(rng: random.Random, family: str, limits: Limits) -> Group:
    def has(*families: str) -> bool:
        return family in families or (family == "everything" and rng.random() < 0.6)

    racks = RACKS[: rng.randint(2, 4)] if has("racks") else ""
    topics = _topics(rng, racks, limits)
    members = _members(rng, [topic.name for topic in topics], racks, limits)
    if has("static"):
        share = rng.choice((0.5, 1.0))
        members = [
            replace(member, instance_id=f"pod-{number}") if rng.random() < share else member
            for number, member in enumerate(members)
        ]
    if family == "fresh":
        return Group.of(topics, members, GENERATION)
    # The topics and members before the change: each change is undone.
    topics_before = [_shrunk(rng, topic) for topic in topics] if has("grown") else topics
    topics_before = [topic for topic in topics_before if topic is not None]
    members = _changed(rng, topics_before, members, [topic.name for topic in topics])
    if racks:
        topics = [_moved_replicas(rng, topic, racks) for topic in topics]
    if has("static"):
        members = [_restarted(rng, member) if member.instance_id else member for member in members]
    if has("claims"):
        members = _disturbed(rng, topics, members)
    return Group.of(topics, members, GENERATION if rng.random() < 0.9 else None)


def _size(rng: random.Random, largest: int) -> int:
    """A size from 1 to `largest`: the greater of two numbers drawn evenly on a logarithmic scale."""
    exponent = max(rng.random(), rng.random()) * math.log(largest + 1)
    return min(largest, int(math.exp(exponent)))


def _topics(rng: random.Random, racks: str, limits: Limits) -> list[Topic]:
    total = _size(rng, limits.partitions)
    count = _size(rng, min(total, limits.topics))
    kind = rng.choice(("equal", "random", "one large"))
    if kind == "equal":
        sizes = [max(1, total // count)] * count
    elif kind == "random":
        cuts = sorted(rng.randint(0, total) for _ in range(count - 1))
        sizes = [end - start for start, end in zip([0, *cuts], [*cuts, total], strict=True)]
    else:
        sizes = [max(1, total - 2 * (count - 1)), *[rng.randint(1, 2)] * (count - 1)]
    return [
        Topic(f"topic-{number}", size, _replica_racks(rng, size, racks)) for number, size in enumerate(sizes)
    ]


def _replica_racks(rng: random.Random, partitions: int, racks: str) -> tuple[frozenset[str], ...] | None:
    if not racks or rng.random() < 0.1:
        return None
    replicas = rng.randint(1, len(racks))
    first = rng.randrange(len(racks))
    if rng.random() < 0.5:  # as a cluster places them; else as years of reassignments leave them
        return tuple(
            frozenset(racks[(first + p + replica) % len(racks)] for replica in range(replicas))
            for p in range(partitions)
        )
    return tuple(frozenset(rng.sample(racks, rng.randint(0, replicas))) for _ in range(partitions))


def _subscriptions(rng: random.Random, names: Sequence[str], members: int) -> list[frozenset[str]]:
    """The topics that each member subscribes to."""
    everything = frozenset(names)
    kind = rng.choice(("uniform", "uniform", "one odd", "camps", "buckets", "half", "nested", "ring", "few"))
    if kind == "uniform":
        return [everything] * members
    if kind == "one odd":
        return [frozenset({rng.choice(names)}), *[everything] * (members - 1)]
    if kind == "camps":
        camps = [frozenset(rng.sample(names, rng.randint(1, len(names)))) for _ in range(rng.randint(2, 5))]
        return [rng.choice(camps) for _ in range(members)]
    if kind == "buckets":
        buckets = rng.randint(1, len(names))
        return [frozenset(names[m % buckets :: buckets]) for m in range(members)]
    if kind == "half":
        return [frozenset(name for name in names if rng.random() < 0.5) for _ in range(members)]
    if kind == "nested":
        return [frozenset(names[: 1 + m * len(names) // members]) for m in range(members)]
    if kind == "ring":  # long chains: each member shares a topic only with its neighbours
        return [frozenset({names[m % len(names)], names[(m + 1) % len(names)]}) for m in range(members)]
    return [frozenset(rng.sample(names, rng.randint(1, min(3, len(names))))) for _ in range(members)]


def _members(rng: random.Random, names: Sequence[str], racks: str, limits: Limits) -> list[Member]:
    count = _size(rng, limits.members)
    where = racks + "z" if rng.random() < 0.2 else racks  # no broker is in rack z
    return [
        Member(
            f"consumer-{rng.getrandbits(32):08x}-{number}",
            subscription,
            rack=rng.choice(where) if racks and rng.random() < 0.9 else None,
        )
        for number, subscription in enumerate(_subscriptions(rng, names, count))
    ]


def _shrunk(rng: random.Random, topic: Topic) -> Topic | None:
    """The topic before it changed; None if it is new."""
    if rng.random() < 0.15:
        return None
    partitions = rng.randint(0, topic.partitions) if rng.random() < 0.6 else topic.partitions
    racks = topic.replica_racks
    return Topic(topic.name, partitions, None if racks is None else racks[:partitions])


def _changed(
    rng: random.Random, topics_before: list[Topic], members: list[Member], names: Sequence[str]
) -> list[Member]:
    """The members with what they owned before: some are new, some left, some changed their subscription."""
    joined = rng.choice((0, 0, 1, 1, rng.randint(0, len(members))))
    left = rng.choice((0, 0, 1, 1, rng.randint(0, len(members))))
    stayed = members[joined:]
    before = [*stayed, *(replace(member, id=f"{member.id}-gone") for member in members[:left])]
    if rng.random() < 0.3:  # their subscription was different then
        before = [
            replace(member, topics=frozenset(rng.sample(names, rng.randint(1, len(names)))))
            if rng.random() < 0.3
            else member
            for member in before
        ]
    owned = _assigned(rng, Group.of(topics_before, before))
    return [
        *members[:joined],
        *(replace(member, owned=owned[member.id], generation=GENERATION - 1) for member in stayed),
    ]


def _assigned(rng: random.Random, group: Group) -> Mapping[str, Mapping[str, Sequence[int]]]:
    """A valid assignment of the group."""
    by = rng.choice((Range(), RoundRobin(), Sticky(), None))
    if by is not None:
        return by.assign(group).members
    owned: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in group.members}
    for topic in group.topics.values():
        readers = [member.id for member in group.members.values() if topic.name in member.topics]
        for partition in range(topic.partitions if readers else 0):
            owned[rng.choice(readers)].setdefault(topic.name, []).append(partition)
    return owned


def _moved_replicas(rng: random.Random, topic: Topic, racks: str) -> Topic:
    """The topic after some of its replicas were moved to brokers in other racks."""
    if topic.replica_racks is None or rng.random() < 0.7:
        return topic
    moved = [
        frozenset(rng.sample(racks, rng.randint(1, len(racks)))) if rng.random() < 0.3 else there
        for there in topic.replica_racks
    ]
    return replace(topic, replica_racks=tuple(moved))


def _restarted(rng: random.Random, member: Member) -> Member:
    """A static member, restarted in half of the cases: it has a new member id and owns nothing."""
    if rng.random() < 0.5:
        return member
    return replace(member, id=f"{member.id}-again", owned={}, generation=-1)


def _disturbed(rng: random.Random, topics: list[Topic], members: list[Member]) -> list[Member]:
    """The members, some of which have stale generations or false claims."""
    owned = [{topic: list(ps) for topic, ps in member.owned.items()} for member in members]
    generations = [member.generation for member in members]
    for number in range(len(members)):
        if rng.random() < 0.6:
            continue
        generations[number] = rng.choice(
            (-1, 0, GENERATION - 3, GENERATION - 2, GENERATION - 1, GENERATION - 1, GENERATION, 2**31 - 1)
        )
        for topic in rng.sample(topics, rng.randint(0, min(4, len(topics)))):
            also = rng.choices(range(-1, topic.partitions + 2), k=rng.randint(1, 12))
            owned[number].setdefault(topic.name, []).extend(also)
        if rng.random() < 0.3:  # a zombie: it claims all partitions that another member owns
            for topic_name, partitions in owned[rng.randrange(len(members))].items():
                owned[number].setdefault(topic_name, []).extend(partitions)
        if rng.random() < 0.1:
            owned[number]["deleted-topic"] = [0, 1]
    return [
        replace(member, owned=claims, generation=generation)
        for member, claims, generation in zip(members, owned, generations, strict=True)
    ]
