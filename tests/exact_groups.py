"""Random groups with difficult claims, small enough for an exact solver.

By default a group has up to 8 members, 10 topics and 12 partitions a topic. Subscriptions are uniform or
mixed. Prior owners come from an earlier assignment or at random. Claims may be stale or duplicate, and may
name impossible generations, partitions that do not exist and topics without subscribers. There are static
members and racks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from kafka_assignors.group import Group, Member, Topic

GENERATION = 7
"""The generation that the group forms; honest claims have an earlier generation."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The maximum of each size."""

    members: int = 8
    topics: int = 10
    partitions: int = 12


SMALL = Limits()


def random_group(rng: random.Random, limits: Limits = SMALL) -> Group:
    """A group drawn from `rng`, with sizes up to `limits`."""
    racks = "abc"[: rng.randint(1, 3)] if rng.random() < 0.5 else ""
    topics = [_topic(rng, f"topic-{number}", racks, limits) for number in range(_size(rng, limits.topics))]
    names = [topic.name for topic in topics]
    uniform = rng.random() < 0.3
    few = [rng.sample(names, rng.randint(1, len(names))) for _ in range(rng.randint(1, 3))]
    alike = rng.random() < 0.4  # members have one of a few subscriptions, instead of one each
    claims = _claims(rng, topics, members := _size(rng, limits.members))
    return Group.of(
        topics,
        [
            Member(
                id=f"member-{rng.randrange(1 << 30):08x}-{number}",
                topics=frozenset(
                    names
                    if uniform
                    else rng.choice(few)
                    if alike
                    else rng.sample(names, rng.randint(0 if rng.random() < 0.1 else 1, len(names)))
                )
                | ({"without-metadata"} if rng.random() < 0.05 else set()),
                instance_id=f"pod-{number}" if rng.random() < 0.3 else None,
                rack=rng.choice(racks) if racks and rng.random() < 0.8 else None,
                owned=claims[number][0],
                generation=claims[number][1],
            )
            for number in range(members)
        ],
        GENERATION if rng.random() < 0.8 else None,
    )


def _size(rng: random.Random, largest: int) -> int:
    """A size up to `largest`; large sizes are more frequent, because they find more errors."""
    return max(rng.randint(1, largest), rng.randint(1, largest))


def _topic(rng: random.Random, name: str, racks: str, limits: Limits) -> Topic:
    partitions = rng.randint(0 if rng.random() < 0.1 else 1, limits.partitions)
    if not racks or rng.random() < 0.1:
        return Topic(name, partitions)
    replicas = rng.randint(0, 2)  # 0: racks unknown; rack z has brokers but no members
    return Topic(
        name, partitions, tuple(frozenset(rng.choices(racks + "z", k=replicas)) for _ in range(partitions))
    )


def _claims(rng: random.Random, topics: list[Topic], members: int) -> list[tuple[dict[str, list[int]], int]]:
    """What each member claims to own, and in which generation."""
    owned: list[dict[str, list[int]]] = [{} for _ in range(members)]
    generations = [GENERATION - 1] * members
    if rng.random() < 0.15:
        return [({}, -1)] * members  # a fresh group
    departed = rng.choice((0, 0, 1, 2))
    loyal = rng.random() < 0.5  # whether the earlier assignment was balanced
    turn = rng.randrange(8)
    for topic in topics:
        for partition in range(topic.partitions):
            turn += 1
            owner = turn % (members + departed) if loyal else rng.randrange(members + departed)
            if owner < members and rng.random() < 0.95:
                owned[owner].setdefault(topic.name, []).append(partition)
    newcomers = rng.choice((0, 0, 0, 1, 2))
    for number in range(min(newcomers, members)):
        owned[number], generations[number] = {}, -1
    if rng.random() < 0.4:  # members that missed rebalances, or lie
        for number in range(members):
            if rng.random() < 0.4:
                generations[number] = rng.choice(
                    (-1, 0, GENERATION - 2, GENERATION - 1, GENERATION, 2**31 - 1)
                )
                for topic in rng.sample(topics, rng.randint(0, len(topics))):
                    also = rng.choices(range(-1, topic.partitions + 2), k=rng.randint(1, 5))
                    owned[number].setdefault(topic.name, []).extend(also)
                if rng.random() < 0.1:
                    owned[number]["deleted-topic"] = [0]
    return list(zip(owned, generations, strict=True))
