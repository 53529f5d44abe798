"""Who owned what: the members' claims, judged.

Every member tells the leader which partitions it owned and in which generation. That is only a claim: two
members may name the same partition (one slept through a rebalance), and a faulty member may name anything:

- of two claims on a partition the one of the higher generation counts; two of the same generation count for
  neither;
- a claim that stands alone counts, however old it is;
- a claim of a generation that the group has not reached is false, and all claims of its member are dropped;
- a claim on an unknown topic, on a topic the member no longer subscribes to, on a partition that does not
  exist, or on the same partition a second time is dropped.

This decides which member may *keep* a partition. Which member must give one up before another gets it is a
different question, and `kafka_assignors.leader` answers it from the unjudged claims.

Cost: linear in the claims, in set operations per topic. Only topics with a faulty or double claim are looked
at partition by partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from operator import lt
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # A group has its claims judged here.
    from kafka_assignors.group import Assignment, Group, Member, TopicPartitions

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
    """The valid claims of a group.

    `owners` gives the owned partitions by member id and topic: existing partitions, of topics that the member
    subscribes to, no partition twice, every sequence ascending and not empty; members that own nothing are
    left out.

    `unowned` gives the partitions without an owner by topic, ascending; topics without any are left out.
    Together with `owners` that is every partition exactly once.
    """

    owners: Mapping[str, TopicPartitions]
    dropped: tuple[DroppedClaim, ...]
    unowned: TopicPartitions


def judge_claims(group: Group) -> Claims:
    """Decide which claims of the members count. `Group.claims` calls this once for each group."""
    dropped: list[DroppedClaim] = []
    considered = _consider(group, dropped)
    claimed: dict[str, list[Sequence[int]]] = {name: [] for name in group.topics}
    for _, owned in considered:
        for topic, partitions in owned.items():
            claimed[topic].append(partitions)

    unowned: dict[str, Sequence[int]] = {}
    disputed: dict[str, dict[str, list[int]]] = {}  # topic with bad claims: what each member keeps of it
    for name, sequences in claimed.items():
        count = group.topics[name].partitions
        owned_by_all = _union_if_clean(sequences, count)
        if owned_by_all is None:
            claims = [(member, owned[name]) for member, owned in considered if name in owned]
            disputed[name] = _judge_topic(name, count, claims, dropped)
            owned_by_all = set().union(*disputed[name].values())
        if len(owned_by_all) < count:
            unowned[name] = sorted(set(range(count)) - owned_by_all) if owned_by_all else range(count)

    owners: dict[str, TopicPartitions] = {}
    for member, owned in considered:
        kept = _keep(member.id, owned, disputed)
        if kept:
            owners[member.id] = kept
    dropped.sort(key=lambda claim: (claim.member_id, claim.topic, claim.reason))
    return Claims(owners, tuple(dropped), unowned)


def movement(claims: Claims, assignment: Assignment) -> tuple[int, int]:
    """How many owned partitions the assignment takes from their owner, and how many it leaves with it."""
    owned = kept = 0
    for member_id, prior in claims.owners.items():
        now = assignment.members.get(member_id, {})
        for topic, partitions in prior.items():
            owned += len(partitions)
            has = now.get(topic)
            if has is partitions:
                kept += len(partitions)
            elif has:
                kept += len(set(partitions).intersection(has))
    return owned - kept, kept


def _consider(group: Group, dropped: list[DroppedClaim]) -> list[tuple[Member, TopicPartitions]]:
    """The claims on topics that the members may own, without empty ones; adds the others to `dropped`."""
    considered: list[tuple[Member, TopicPartitions]] = []
    assignable: dict[frozenset[str], Set[str]] = {}  # subscription: its topics that have metadata
    for member in group.members.values():
        owned = member.owned
        if not owned:
            continue
        if group.generation is not None and member.generation > group.generation:
            reason = FUTURE_GENERATION.format(claimed=member.generation, reached=group.generation)
            for topic, partitions in owned.items():
                _drop(dropped, member, topic, partitions, reason)
            continue
        if member.topics not in assignable:
            assignable[member.topics] = member.topics & group.topics.keys()
        topics = assignable[member.topics]
        if not (owned.keys() <= topics and all(owned.values())):
            for topic in owned.keys() - topics:
                reason = UNKNOWN_TOPIC if topic in member.topics else NOT_SUBSCRIBED
                _drop(dropped, member, topic, owned[topic], reason)
            owned = {topic: owned[topic] for topic in owned if topic in topics and owned[topic]}
        considered.append((member, owned))
    return considered


def _union_if_clean(sequences: Sequence[Sequence[int]], count: int) -> set[int] | None:
    """All partitions in the sequences; None if one of them does not exist or appears twice."""
    claimed = sum(map(len, sequences))
    if claimed > count:
        return None
    union: set[int] = set().union(*sequences)
    if len(union) < claimed or (union and (min(union) < 0 or max(union) >= count)):
        return None
    return union


def _keep(
    member_id: str, owned: TopicPartitions, disputed: Mapping[str, Mapping[str, Sequence[int]]]
) -> TopicPartitions:
    """The partitions that a member keeps, ascending: `owned` itself if there is nothing to change."""
    if disputed and not disputed.keys().isdisjoint(owned):
        owned = {
            topic: disputed[topic][member_id] if topic in disputed else partitions
            for topic, partitions in owned.items()
            if topic not in disputed or disputed[topic].get(member_id)
        }
    if max(map(len, owned.values()), default=0) <= 1 or all(map(_is_ascending, owned.values())):
        return owned
    return {topic: sorted(partitions) for topic, partitions in owned.items()}


def _judge_topic(
    topic: str, count: int, claims: Sequence[tuple[Member, Sequence[int]]], dropped: list[DroppedClaim]
) -> dict[str, list[int]]:
    """The partitions that each member keeps of a topic on which some claim is invalid; adds to `dropped`."""
    honest: list[tuple[Member, set[int]]] = []
    claimed: set[int] = set()
    contested: set[int] = set()
    for member, owned in claims:
        existing = [partition for partition in owned if 0 <= partition < count]
        if len(existing) < len(owned):
            others = islice(
                (partition for partition in owned if not 0 <= partition < count), NAMED_PARTITIONS
            )
            reason = NO_SUCH_PARTITION.format(partitions=count)
            missing = len(owned) - len(existing)
            dropped.append(DroppedClaim(member.id, topic, tuple(sorted(others)), reason, missing))
        once = set(existing)
        if len(once) < len(existing):
            again = sorted(partition for partition, times in Counter(existing).items() if times > 1)
            _drop(dropped, member, topic, again, REPEATED)
        contested |= claimed & once
        claimed |= once
        honest.append((member, once))

    generations: dict[int, list[int]] = {partition: [] for partition in contested}
    for member, once in honest:
        for partition in once & contested:
            generations[partition].append(member.generation)

    kept: dict[str, list[int]] = {}
    for member, once in honest:
        older: set[int] = set()
        tied: set[int] = set()
        for partition in once & contested:
            rivals = generations[partition]
            if max(rivals) > member.generation:
                older.add(partition)
            elif rivals.count(member.generation) > 1:
                tied.add(partition)
        _drop(dropped, member, topic, sorted(older), NEWER_CLAIM)
        _drop(dropped, member, topic, sorted(tied), SAME_GENERATION)
        kept[member.id] = sorted(once - older - tied)
    return kept


def _is_ascending(partitions: Sequence[int]) -> bool:
    """Whether a sequence without repetitions is in ascending order."""
    if isinstance(partitions, range):
        return partitions.step > 0
    return all(map(lt, partitions, islice(partitions, 1, None)))


def _drop(
    dropped: list[DroppedClaim], member: Member, topic: str, partitions: Sequence[int], reason: str
) -> None:
    if partitions:
        named = sorted(islice(partitions, NAMED_PARTITIONS))
        dropped.append(DroppedClaim(member.id, topic, tuple(named), reason, len(partitions)))
