"""Step 4: from counts to partitions.

Within a partition class every choice costs the same, so what is left is to do it fast, reproducibly, and with
each topic spread over the members as evenly as a simple rule can. That last part is a heuristic, twice:

- a member that must **release** some partitions of a class releases them from the topics of which it holds
  the most there, and among these from the topic that has lost the fewest so far; within a topic the highest
  numbers go;
- what was released or had no owner is **dealt** in rounds, topic after topic, one partition to each member
  that still wants some: members with equal wishes get the same number of each topic, to within one for every
  topic.

What the members already keep of a topic is not looked at while dealing; `spread` mends the worst of that
afterwards. Members that release nothing and receive nothing keep the very sequences they came with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heapreplace
from itertools import chain

from kafka_assignors.group import Assignment, TopicPartitions
from kafka_assignors.solver.classes import Classes, PartitionClass
from kafka_assignors.solver.flow import Shares
from kafka_assignors.solver.rounds import deal
from kafka_assignors.solver.spread import MOST_DEALT, PlacedClass, Released, even_out

__all__ = ["place"]

Partitions = dict[str, Sequence[int]]
"""Partitions by topic, ascending, of one's own making."""


def place(classes: Classes, shares: Shares) -> Assignment:
    """The assignment with these shares. Cost: linear in what the members own and receive, in slices."""
    changes = [
        sorted({member for member, _ in share.items() ^ part.owned_counts.items()})
        for part, share in zip(classes.partition_classes, shares, strict=True)
    ]
    changing = set().union(*changes)
    kept = {member: classes.owned_by(member) for member in changing}  # what each keeps of each class
    dealt: dict[int, Partitions] = {}
    placed: list[PlacedClass] = []
    for number, (part, share) in enumerate(zip(classes.partition_classes, shares, strict=True)):
        wanted = [(m, share.get(m, 0) - part.owned_counts.get(m, 0)) for m in changes[number]]
        placed.append(_place_class(number, part, wanted, kept, dealt))
    holdings = [*classes.prior]
    for member in changing:
        parts = kept[member]
        holdings[member] = _together([parts[number] for number in sorted(parts)], dealt.get(member, {}))
    even_out(classes, placed, holdings)
    return Assignment({member.id: held for member, held in zip(classes.members, holdings, strict=True)})


def _place_class(
    number: int,
    part: PartitionClass,
    wanted: Iterable[tuple[int, int]],
    kept: Mapping[int, dict[int, TopicPartitions]],
    dealt: dict[int, Partitions],
) -> PlacedClass:
    """Place the class of this number: `wanted` says how many more of it members get, or how many fewer."""
    released: Released = {}
    remaining: dict[int, TopicPartitions] = {}
    lost: dict[str, int] = {}  # topic: how many partitions members have released
    wishes: list[tuple[int, int]] = []
    for member, more in wanted:
        if more > 0:
            wishes.append((member, more))
        elif more < 0:
            left = remaining[member] = _release(member, kept[member][number], -more, lost, released)
            if left:
                kept[member][number] = left
            else:
                del kept[member][number]
    placed = PlacedClass(remaining, released, sum(more for _, more in wishes))
    for topic, parts in deal(_heap(part.unowned, released), wishes):
        if placed.size <= MOST_DEALT:
            parts = list(parts)
            placed.dealt.append((topic, parts))
        for member, partitions in parts:
            if member not in dealt:
                dealt[member] = {topic: partitions}
            elif topic not in (received := dealt[member]):
                received[topic] = partitions
            else:
                received[topic] = sorted([*received[topic], *partitions])
    return placed


def _release(
    member: int, owned: TopicPartitions, surplus: int, lost: dict[str, int], released: Released
) -> TopicPartitions:
    """What remains of `owned`; adds what the member gives up to `released`, and how much to `lost`."""
    tallest = [(-len(partitions), lost.get(topic, 0), topic) for topic, partitions in owned.items()]
    heapify(tallest)
    for _ in range(surplus):
        height, lost_before, topic = tallest[0]
        heapreplace(tallest, (height + 1, lost_before + 1, topic))
    remaining: Partitions = {}
    for height, lost_now, topic in tallest:
        partitions = owned[topic]
        if -height < len(partitions):
            lost[topic] = lost_now
            released.setdefault(topic, []).append((member, partitions[-height:]))
            partitions = partitions[:-height]
        if partitions:
            remaining[topic] = partitions
    return remaining


def _heap(unowned: TopicPartitions, released: Released) -> Iterable[tuple[str, Sequence[int]]]:
    """The partitions to deal, by topic, ascending."""
    for topic in sorted(unowned.keys() | released.keys()):
        if topic in released:
            gone = chain.from_iterable(partitions for _, partitions in released[topic])
            yield topic, sorted([*unowned.get(topic, ()), *gone])
        else:
            yield topic, unowned[topic]


def _together(kept: Sequence[TopicPartitions], dealt: Partitions) -> TopicPartitions:
    """One member's partitions by topic, ascending."""
    if not dealt and len(kept) == 1:
        return kept[0]
    together = dealt
    for part in kept:
        for topic, partitions in part.items():
            if topic in together:
                partitions = sorted([*together[topic], *partitions])
            together[topic] = partitions
    return together
