"""Random groups for the comparison of assignors, each made from a seed alone.

`random_group(seed)` draws, independently for each group:

- members: 1 to 12, in one group of twenty 30 to 120; topics: 1 to 8, in the larger groups up to 40
- partitions: 0 to 40 per topic; in two groups of three drawn from two or three counts, so that topics are
  co-partitioned
- subscriptions: all members to all topics (4 in 10), two overlapping camps (3 in 10), random (3 in 10); a
  topic without metadata, and a topic without subscribers, in one group of four each
- racks: none (1 in 4), or 1 to 4; each member has one of them (7 in 10), none, an empty one, or one without a
  broker
- replica racks, for each topic: unknown, every partition in every rack, brokers taken in turn with 1 to 3
  replicas (the usual), random, or random with some partitions unknown
- instance ids: for no member (half), for all, or for some
- names: in two groups of three as clients make them, else of letters whose order differs between UTF-16 and
  code points
- owned partitions: each member has none, or some from the previous stable generation, sometimes from an older
  one
"""

from __future__ import annotations

import random
from dataclasses import replace

from kafka_assignors.group import Group, Member, Topic

ODD_LETTERS = (
    "a",
    "Z",
    "é",
    "e\u0301",
    "\u2028",
    "中",
    "\ud7ff",
    "\ue000",
    "ｚ",
    "\ufeff",
    "\uffff",
    "\U00010000",
    "😀",
    "\U0010ffff",
)
"""From U+0061 to U+10FFFF: Java compares surrogates above U+FFFF, which sort before U+E000 to U+FFFF."""


def random_group(seed: int) -> Group:
    """The group of this seed, which is the same on every machine."""
    rng = random.Random(f"group {seed}")
    large = rng.random() < 0.05
    odd_names = rng.random() < 1 / 3
    taken: set[str] = set()

    def name(prefix: str) -> str:
        while True:
            if odd_names:
                made = prefix[:1] + "".join(rng.choices(ODD_LETTERS, k=rng.randint(1, 3)))
            else:
                made = f"{prefix}-{rng.randint(1, 20)}-{rng.getrandbits(32):08x}"
            if made not in taken:
                taken.add(made)
                return made

    racks = [f"rack-{letter}" for letter in "abcd"[: rng.randint(1, 4)]] if rng.random() < 0.75 else []
    topics = _random_topics(rng, [name("topic") for _ in range(rng.randint(1, 40 if large else 8))], racks)
    names = [topic.name for topic in topics]
    members = rng.randint(30, 120) if large else rng.randint(1, 12)
    subscriptions = _random_subscriptions(rng, names, members)
    if rng.random() < 0.25:
        unknown = name("unknown")
        subscriptions = [topics | {unknown} if rng.random() < 0.5 else topics for topics in subscriptions]
    if rng.random() < 0.25:
        topics.append(Topic(name("unread"), rng.randint(1, 9)))

    static = rng.choice((0.0, 0.0, 1.0, 0.5))
    free = [(topic.name, number) for topic in topics for number in range(topic.partitions)]
    rng.shuffle(free)
    generation = rng.randint(1, 50)
    drawn = []
    for subscription in subscriptions:
        owned: dict[str, list[int]] = {}
        if not (newcomer := rng.random() < 0.3):
            for _ in range(min(len(free), rng.randint(0, 6))):
                topic, partition = free.pop()
                if topic in subscription:
                    owned.setdefault(topic, []).append(partition)
        claimed = generation if rng.random() < 0.9 else generation - 1
        drawn.append(
            Member(
                id=name("consumer"),
                topics=subscription,
                instance_id=name("instance") if rng.random() < static else None,
                rack=_random_member_rack(rng, racks),
                owned={topic: sorted(partitions) for topic, partitions in owned.items()},
                generation=-1 if newcomer else claimed,
            )
        )
    return Group.of(topics, drawn, generation + 1)


def _random_topics(rng: random.Random, names: list[str], racks: list[str]) -> list[Topic]:
    counts = [rng.randint(0, 40) for _ in names]
    if rng.random() < 2 / 3:
        counts = rng.choices([rng.randint(1, 40) for _ in range(rng.randint(2, 3))], k=len(names))
    return [
        Topic(name, count, _random_replica_racks(rng, count, racks))
        for name, count in zip(names, counts, strict=True)
    ]


def _random_replica_racks(
    rng: random.Random, partitions: int, racks: list[str]
) -> tuple[frozenset[str], ...] | None:
    if not racks:
        return None
    replicas = rng.randint(1, min(3, len(racks)))
    kind = rng.choice(("unknown", "everywhere", "in turn", "in turn", "random", "random", "partly unknown"))
    if kind == "unknown":
        return None
    if kind == "everywhere":
        return (frozenset(racks),) * partitions
    if kind == "in turn":
        first = rng.randrange(len(racks))
        return tuple(
            frozenset(racks[(first + partition + replica) % len(racks)] for replica in range(replicas))
            for partition in range(partitions)
        )
    known = 0.7 if kind == "partly unknown" else 1.0
    return tuple(
        frozenset(rng.sample(racks, replicas) if rng.random() < known else ()) for _ in range(partitions)
    )


def _random_member_rack(rng: random.Random, racks: list[str]) -> str | None:
    if not racks:
        return None
    if rng.random() < 0.7:
        return rng.choice(racks)
    return rng.choice((None, None, "", "rack-elsewhere"))


def _random_subscriptions(rng: random.Random, names: list[str], members: int) -> list[frozenset[str]]:
    kind = rng.random()
    if kind < 0.4:
        return [frozenset(names)] * members
    if kind < 0.7:
        cut, back = rng.randint(0, len(names)), rng.randint(0, len(names))
        camps = (frozenset(names[:cut]), frozenset(names[min(cut, back) :]))
        return [rng.choice(camps) for _ in range(members)]
    return [frozenset(rng.sample(names, rng.randint(0, len(names)))) for _ in range(members)]


def without_racks(group: Group) -> Group:
    """The group on a cluster without racks."""
    topics = [replace(topic, replica_racks=None) for topic in group.topics.values()]
    return Group.of(
        topics, [replace(member, rack=None) for member in group.members.values()], group.generation
    )


def misread_by_java(group: Group) -> bool:
    """Whether Java's sticky assignors may give partitions to members without a subscription.

    They treat an empty first subscription as equal to any other.
    """
    subscriptions = {member.topics for member in group.members.values()}
    return len(subscriptions) == 2 and frozenset() in subscriptions


def features(group: Group) -> set[str]:
    """The features of the group, in words."""
    members = group.members.values()
    known = [topic for topic in group.topics.values() if topic.partitions]
    subscribed = frozenset().union(*(member.topics for member in members))
    subscribers = {
        topic.name: frozenset(member.id for member in members if topic.name in member.topics)
        for topic in known
    }
    shapes = [(subscribers[topic.name], topic.partitions) for topic in known if subscribers[topic.name]]
    statics = [member for member in members if member.instance_id is not None]
    racked = any(member.rack for member in members)
    uneven = any(topic.replica_racks and len(set(topic.replica_racks)) > 1 for topic in known)
    names = [*group.topics, *group.members]
    found = {
        "mixed subscriptions": len({member.topics for member in members}) > 1,
        "co-partitioned topics": len(set(shapes)) < len(shapes),
        "members in racks": racked,
        "members in racks, partitions in some of them": racked and uneven,
        "a member without a rack beside one with": racked and not all(member.rack for member in members),
        "static members": bool(statics),
        "static beside dynamic members": 0 < len(statics) < len(group.members),
        "names that UTF-16 orders differently": sorted(names)
        != sorted(names, key=lambda name: name.encode("utf-16-be")),
        "a subscribed topic without metadata": not subscribed <= group.topics.keys(),
        "a topic without partitions": any(not topic.partitions for topic in group.topics.values()),
        "a topic without subscribers": not group.topics.keys() <= subscribed,
        "a member that subscribes to nothing": any(not member.topics for member in members),
        "more members than partitions": len(group.members) > sum(topic.partitions for topic in known),
        "owned partitions": any(member.owned for member in members),
        "a claim of an older generation": len({member.generation for member in members if member.owned}) > 1,
        "30 members and more": len(group.members) >= 30,
    }
    return {feature for feature, is_there in found.items() if is_there}
