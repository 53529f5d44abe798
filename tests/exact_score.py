"""The validity and the cost of an assignment, counted partition by partition from the documented rules.

It shares no code with the solver or with `kafka_assignors.claims`: it judges the claims itself. Standard
library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from kafka_assignors.criteria import PLAIN, Criteria, Scale
from kafka_assignors.group import Assignment, Group

Partition = tuple[str, int]
Plain = dict[str, dict[str, list[int]]]


@dataclass(frozen=True, slots=True)
class Score:
    """The cost of an assignment: for every field, smaller is better.

    The square of a load is divided by the member's capacity; the load includes the partitions that the member
    has already.
    """

    sum_of_squares: int | Fraction
    moved: int
    rack_misses: int

    def by(self, criteria: Criteria) -> tuple[int | Fraction, ...]:
        """The value of each criterion; the first of them is balance."""
        return self.sum_of_squares, *(one.count(self.moved, self.rack_misses) for one in criteria[1:])


def prior_owners(group: Group) -> dict[Partition, str]:
    """The owner of each partition, by the rules for claims."""
    claimants: dict[Partition, list[tuple[int, str]]] = {}
    for member in group.members.values():
        for topic, partitions in member.owned.items():
            for partition in set(partitions):
                is_there = topic in group.topics and 0 <= partition < group.topics[topic].partitions
                reached = group.generation is None or member.generation <= group.generation
                if is_there and reached and topic in member.topics:
                    claimants.setdefault((topic, partition), []).append((member.generation, member.id))
    owners: dict[Partition, str] = {}
    for claimed, claims in claimants.items():
        newest = max(generation for generation, _ in claims)
        winners = [member_id for generation, member_id in claims if generation == newest]
        if len(winners) == 1:
            owners[claimed] = winners[0]
    return owners


def readers(group: Group) -> dict[Partition, list[str]]:
    """The members that may get each partition; a partition without such a member is left out."""
    by_topic = {name: [m.id for m in group.members.values() if name in m.topics] for name in group.topics}
    return {
        (name, partition): by_topic[name]
        for name, topic in group.topics.items()
        for partition in range(topic.partitions)
        if by_topic[name]
    }


def misses(group: Group, partition: Partition, member_id: str) -> bool:
    """Whether the member fetches the partition from another rack (KIP-881)."""
    racks_by_partition = group.topics[partition[0]].replica_racks
    rack = group.members[member_id].rack
    if rack is None or racks_by_partition is None:
        return False
    racks = racks_by_partition[partition[1]]
    return len(racks) > 0 and rack not in racks


def score(
    group: Group, owner_now: Mapping[Partition, str], prior: Mapping[Partition, str], scale: Scale = PLAIN
) -> Score:
    """The cost of this assignment."""
    loads = {member_id: scale.has_already(member_id) for member_id in group.members}
    for member_id in owner_now.values():
        loads[member_id] += 1
    squares = (Fraction(load * load, scale.capacity(member_id)) for member_id, load in loads.items())
    total = sum(squares)
    return Score(
        sum_of_squares=int(total) if total == int(total) else total,
        moved=sum(prior.get(partition, now) != now for partition, now in owner_now.items()),
        rack_misses=sum(misses(group, partition, now) for partition, now in owner_now.items()),
    )


def plain(assignment: Assignment) -> Plain:
    """The assignment with each sequence of partitions as a list; a strategy may return a range or a tuple."""
    return {m: {t: list(ps) for t, ps in by_topic.items()} for m, by_topic in assignment.members.items()}


def owners_of(group: Group, assignment: Assignment) -> dict[Partition, str]:
    """The owner of each partition. Raises AssertionError with the reason if the assignment is invalid."""
    assert assignment.members.keys() == group.members.keys(), "a member is missing, or invented"
    owner_now: dict[Partition, str] = {}
    may_get = readers(group)
    for member_id, by_topic in assignment.members.items():
        for topic, partitions in by_topic.items():
            assert partitions, f"{member_id} has an empty entry for {topic}"
            assert list(partitions) == sorted(partitions), f"{member_id} has {topic} out of order"
            for partition in partitions:
                assert member_id in may_get.get((topic, partition), ()), (
                    f"{member_id} may not get {topic}-{partition}"
                )
                assert (topic, partition) not in owner_now, f"{topic}-{partition} is assigned twice"
                owner_now[topic, partition] = member_id
    assert owner_now.keys() == may_get.keys(), "a partition is assigned to no member"
    return owner_now


def load_histogram(group: Group, owner_now: Mapping[Partition, str]) -> dict[int, int]:
    """How many members have each load, from the lowest load."""
    loads = dict.fromkeys(group.members, 0)
    for member_id in owner_now.values():
        loads[member_id] += 1
    return dict(sorted(Counter(loads.values()).items()))
