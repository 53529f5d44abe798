"""Step 4: from counts to partitions.

Within a partition class every choice costs the same, so what is left is to do it fast, reproducibly, and with
each topic spread over the members as evenly as a simple rule can. That last part is a heuristic, twice:

- a member that must **release** some partitions of a class releases them from the topics of which it holds
  the most there, and among these from the topic that has lost the fewest so far; within a topic the highest
  numbers go;
- what was released or had no owner is **dealt** in rounds, topic after topic, one partition to each member
  that still wants some: members with equal wishes get the same number of each topic, to within one for every
  topic.

What the members already keep of a topic is not looked at while dealing. Members that release nothing and
receive nothing keep the very sequences they came with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace

from kafka_assignors.group import Assignment, TopicPartitions
from kafka_assignors.solver.classes import Classes, PartitionClass
from kafka_assignors.solver.flow import Shares
from kafka_assignors.solver.rounds import deal

__all__ = ["place"]

Pieces = dict[str, list[Sequence[int]]]
"""Sequences of partitions by topic, still to be put together."""


def place(classes: Classes, shares: Shares) -> Assignment:
    """The assignment with these shares. Cost: linear in what the members own and receive, in slices."""
    whole: dict[int, list[TopicPartitions]] = {}  # member: what it keeps of one class
    dealt: dict[int, Pieces] = {}
    for partition_class, share in zip(classes.partition_classes, shares, strict=True):
        _place_class(partition_class, share, whole, dealt)
    assignment: dict[str, TopicPartitions] = {}
    for number, member in enumerate(classes.members):
        assignment[member.id] = _together(whole.get(number, ()), dealt.get(number))
    return Assignment(assignment)


def _place_class(
    partition_class: PartitionClass,
    share: Mapping[int, int],
    whole: dict[int, list[TopicPartitions]],
    dealt: dict[int, Pieces],
) -> None:
    released: Pieces = {}
    wishes: list[tuple[int, int]] = []
    lost: dict[str, int] = {}  # topic: how many partitions members have released
    for number in sorted(partition_class.owned):
        owned = partition_class.owned[number]
        surplus = sum(map(len, owned.values())) - share.get(number, 0)
        if surplus > 0:
            owned = _release(owned, surplus, lost, released)
        if owned:
            whole.setdefault(number, []).append(owned)
    for number, wanted in share.items():
        wanted -= sum(map(len, partition_class.owned.get(number, {}).values()))
        if wanted > 0:
            wishes.append((number, wanted))
    if not wishes:
        return
    wishes.sort()
    for number, topic, partitions in deal(_heap(partition_class.unowned, released), wishes):
        pieces = dealt.get(number)
        if pieces is None:
            pieces = dealt[number] = {}
        if topic in pieces:
            pieces[topic].append(partitions)
        else:
            pieces[topic] = [partitions]


def _release(owned: TopicPartitions, surplus: int, lost: dict[str, int], released: Pieces) -> TopicPartitions:
    """What remains of `owned`; adds what goes to `released`, and its numbers to `lost`."""
    tallest = [(-len(partitions), lost.get(topic, 0), topic) for topic, partitions in owned.items()]
    heapify(tallest)
    for _ in range(surplus):
        height, lost_before, topic = tallest[0]
        heapreplace(tallest, (height + 1, lost_before + 1, topic))
    remaining: dict[str, Sequence[int]] = {}
    for height, _, topic in tallest:
        partitions = owned[topic]
        if -height == len(partitions):
            remaining[topic] = partitions
            continue
        lost[topic] = lost.get(topic, 0) + len(partitions) + height
        released.setdefault(topic, []).append(partitions[-height:])
        if height:
            remaining[topic] = partitions[:-height]
    return remaining


def _heap(unowned: TopicPartitions, released: Pieces) -> Iterable[tuple[str, Sequence[int]]]:
    """What is to be dealt, by topic, ascending."""
    for topic in sorted(unowned.keys() | released.keys()):
        if topic in released:
            yield topic, sorted([*unowned.get(topic, ()), *(p for part in released[topic] for p in part)])
        else:
            yield topic, unowned[topic]


def _together(whole: Sequence[TopicPartitions], dealt: Pieces | None) -> TopicPartitions:
    """One member's partitions by topic, ascending."""
    if dealt is None and len(whole) == 1:
        return whole[0]
    pieces = dealt or {}
    for kept in whole:
        for topic, partitions in kept.items():
            if topic in pieces:
                pieces[topic].append(partitions)
            else:
                pieces[topic] = [partitions]
    return {
        topic: parts[0] if len(parts) == 1 else sorted(p for part in parts for p in part)
        for topic, parts in pieces.items()
    }
