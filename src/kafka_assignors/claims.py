"""Who owned what: the members' claims, judged.

Every member tells the leader which partitions it owned and in which generation. That is a claim and nothing
more: two members may name the same partition (one of them slept through a rebalance), and a faulty member may
name anything. Stickiness rests on the judged claims, so the rules are strict and few:

- of two claims on a partition the one of the higher generation counts; two of the same generation count for
  neither;
- a claim that stands alone counts, however old it is;
- a claim of a generation the group has not reached is false, and all that the member says is dropped;
- a claim on an unknown topic, on a topic the member no longer subscribes to, on a partition that does not
  exist, or on the same partition a second time is dropped.

This decides who may *keep* a partition. Who must give one up before somebody else gets it is another
question, and `kafka_assignors.leader` answers it from the unjudged claims.

Cost: linear in the claims, in set operations per topic. Only topics with a faulty or double claim are looked
at partition by partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from kafka_assignors.group import Group, Member, TopicPartitions

__all__ = ["NAMED_PARTITIONS", "Claims", "DroppedClaim", "judge_claims"]

NAMED_PARTITIONS = 100
"""How many partitions of one dropped claim are named: a faulty member may claim millions."""

UNKNOWN_TOPIC = "the topic is unknown"
NOT_SUBSCRIBED = "the member does not subscribe to the topic"
FUTURE_GENERATION = "generation {claimed} is later than the group's, {reached}"
NO_SUCH_PARTITION = "the topic has {partitions} partitions"
REPEATED = "the member names them more than once"
NEWER_CLAIM = "a member claims them in a later generation"
SAME_GENERATION = "another member claims them in the same generation"


@dataclass(frozen=True, slots=True)
class DroppedClaim:
    """A claim that does not count, and why.

    `partitions` are the first `NAMED_PARTITIONS` of them, ascending; `count` says how many there are.
    """

    member_id: str
    topic: str
    partitions: tuple[int, ...]
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class Claims:
    """What is left of the claims of a group.

    `prior` gives the owned partitions by member id and topic: existing partitions, of topics that the member
    subscribes to, no partition twice, every sequence ascending and not empty; members that own nothing are
    left out.

    `unowned` gives, for every topic of the group, the partitions nobody owned, ascending; topics without such
    are left out. Together with `prior` that is every partition exactly once.
    """

    prior: Mapping[str, TopicPartitions]
    dropped: tuple[DroppedClaim, ...]
    unowned: TopicPartitions


def judge_claims(group: Group) -> Claims:
    """Decide which claims of the members count."""
    dropped: list[DroppedClaim] = []
    claimed: dict[str, list[tuple[Member, Sequence[int]]]] = {name: [] for name in group.topics}
    for member in group.members.values():
        if not member.owned:
            continue
        if group.generation is not None and member.generation > group.generation:
            reason = FUTURE_GENERATION.format(claimed=member.generation, reached=group.generation)
            dropped.extend(_drop(member, topic, owned, reason) for topic, owned in member.owned.items())
            continue
        subscribed = member.topics
        for topic, owned in member.owned.items():
            if topic not in subscribed:
                dropped.append(_drop(member, topic, owned, NOT_SUBSCRIBED))
            elif topic not in claimed:
                dropped.append(_drop(member, topic, owned, UNKNOWN_TOPIC))
            elif owned:
                claimed[topic].append((member, owned))

    prior: dict[str, dict[str, Sequence[int]]] = {}
    unowned: dict[str, Sequence[int]] = {}
    for name, topic_claims in claimed.items():
        partitions = group.topics[name].partitions
        owners, free = _judge_topic(name, partitions, topic_claims, dropped)
        for member_id, kept in owners:
            if member_id in prior:
                prior[member_id][name] = kept
            else:
                prior[member_id] = {name: kept}
        if free:
            unowned[name] = free
    dropped.sort(key=lambda claim: (claim.member_id, claim.topic, claim.reason))
    return Claims(prior, tuple(claim for claim in dropped if claim.count), unowned)


def _judge_topic(
    topic: str, partitions: int, claims: list[tuple[Member, Sequence[int]]], dropped: list[DroppedClaim]
) -> tuple[list[tuple[str, Sequence[int]]], Sequence[int]]:
    """The owners of one topic with what they keep, and the partitions nobody owns; adds to `dropped`."""
    if not claims:
        return [], range(partitions)
    if sum(_length(owned) for _, owned in claims) <= partitions:
        owned_by_all: set[int] = set().union(*(owned for _, owned in claims))
        if (
            len(owned_by_all) == sum(len(owned) for _, owned in claims)
            and min(owned_by_all) >= 0
            and max(owned_by_all) < partitions
        ):
            owners = [(member.id, _ascending(owned)) for member, owned in claims]
            return owners, _missing(owned_by_all, partitions)
    return _judge_topic_slowly(topic, partitions, claims, dropped)


def _judge_topic_slowly(
    topic: str, partitions: int, claims: list[tuple[Member, Sequence[int]]], dropped: list[DroppedClaim]
) -> tuple[list[tuple[str, Sequence[int]]], Sequence[int]]:
    """As `_judge_topic`, where somebody claims what does not exist or what others claim too."""
    existing = range(partitions)
    honest: list[tuple[Member, set[int]]] = []
    claimed: set[int] = set()
    contested: set[int] = set()
    for member, owned in claims:
        valid = _existing(owned, partitions)
        if len(valid) < _length(owned):
            named = sorted(islice((p for p in owned if p not in existing), NAMED_PARTITIONS))
            reason = NO_SUCH_PARTITION.format(partitions=partitions)
            dropped.append(DroppedClaim(member.id, topic, tuple(named), reason, _length(owned) - len(valid)))
        once = set(valid)
        if len(once) < len(valid):
            again = sorted(partition for partition, times in Counter(valid).items() if times > 1)
            dropped.append(_drop(member, topic, again, REPEATED))
        contested |= claimed & once
        claimed |= once
        honest.append((member, once))

    generations: dict[int, list[int]] = {partition: [] for partition in contested}
    for member, once in honest:
        for partition in once & contested:
            generations[partition].append(member.generation)

    owners: list[tuple[str, Sequence[int]]] = []
    owned_by_all: set[int] = set()
    for member, once in honest:
        older: set[int] = set()
        tied: set[int] = set()
        for partition in once & contested:
            rivals = generations[partition]
            if max(rivals) > member.generation:
                older.add(partition)
            elif rivals.count(member.generation) > 1:
                tied.add(partition)
        dropped.append(_drop(member, topic, sorted(older), NEWER_CLAIM))
        dropped.append(_drop(member, topic, sorted(tied), SAME_GENERATION))
        kept = once - older - tied
        if kept:
            owners.append((member.id, sorted(kept)))
            owned_by_all |= kept
    return owners, _missing(owned_by_all, partitions)


def _existing(owned: Sequence[int], partitions: int) -> Sequence[int]:
    """The claimed partitions that exist. A `range`, however long, costs no more than what is left of it."""
    if isinstance(owned, range):
        ascending = owned if owned.step > 0 else owned[::-1]
        skipped = max(0, -(ascending.start // ascending.step))
        start = ascending.start + skipped * ascending.step
        return range(start, min(ascending.stop, partitions), ascending.step)
    return [partition for partition in owned if 0 <= partition < partitions]


def _ascending(partitions: Sequence[int]) -> Sequence[int]:
    if len(partitions) == 1 or (isinstance(partitions, range) and partitions.step > 0):
        return partitions
    return sorted(partitions)


def _missing(owned: set[int], partitions: int) -> Sequence[int]:
    """The partitions that are not owned, ascending."""
    if len(owned) == partitions:
        return ()
    return sorted(set(range(partitions)) - owned) if owned else range(partitions)


def _length(owned: Sequence[int]) -> int:
    """The length of a sequence; `len` fails on a `range` longer than the machine's word."""
    if isinstance(owned, range):
        return max(0, -((owned.start - owned.stop) // owned.step))
    return len(owned)


def _drop(member: Member, topic: str, partitions: Sequence[int], reason: str) -> DroppedClaim:
    named: Iterable[int] = islice(partitions, NAMED_PARTITIONS)
    return DroppedClaim(member.id, topic, tuple(sorted(named)), reason, _length(partitions))
