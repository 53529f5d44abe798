"""The best that any assignment of a group can reach, found by a solver that shares nothing with ours.

Every partition is a row, every member has a row of slots as columns, and a partition in slot j (from 0) of a
member costs 2j + 1: filled from the left, a member's slots add up to the square of its load. Movement and
rack misses are added with smaller weights, and scipy's `linear_sum_assignment` (a shortest augmenting path
method on the dense matrix) finds the cheapest way to seat everybody. There are no classes, no levels and no
network in it. The claims are judged here once more, partition by partition, from the rules as they are
written down.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from kafka_assignors.group import Assignment, Group

Partition = tuple[str, int]


class Order(enum.Enum):
    """What counts after balance, the greater wish first."""

    MOVEMENT = ("moved",)
    MOVEMENT_RACKS = ("moved", "rack_misses")
    RACKS_MOVEMENT = ("rack_misses", "moved")


@dataclass(frozen=True, slots=True)
class Score:
    """What an assignment costs: smaller is better in each."""

    sum_of_squares: int
    moved: int
    rack_misses: int

    def in_order(self, order: Order) -> tuple[int, ...]:
        return (self.sum_of_squares, *(getattr(self, wish) for wish in order.value))


def prior_owners(group: Group) -> dict[Partition, str]:
    """Who owned which partition, by the rules for claims."""
    claimants: dict[Partition, list[tuple[int, str]]] = {}
    for member in group.members.values():
        for topic, partitions in member.owned.items():
            for partition in set(partitions):
                is_there = topic in group.topics and 0 <= partition < group.topics[topic].partitions
                reached = group.generation is None or member.generation <= group.generation
                if is_there and reached and topic in member.topics:
                    claimants.setdefault((topic, partition), []).append((member.generation, member.id))
    owners: dict[Partition, str] = {}
    for partition, claims in claimants.items():
        newest = max(generation for generation, _ in claims)
        winners = [member_id for generation, member_id in claims if generation == newest]
        if len(winners) == 1:
            owners[partition] = winners[0]
    return owners


def readers(group: Group) -> dict[Partition, list[str]]:
    """Who may get which partition; partitions that nobody may get are left out."""
    by_topic = {name: [m.id for m in group.members.values() if name in m.topics] for name in group.topics}
    return {
        (name, partition): by_topic[name]
        for name, topic in group.topics.items()
        for partition in range(topic.partitions)
        if by_topic[name]
    }


def misses(group: Group, partition: Partition, member_id: str) -> bool:
    """Whether the member would have to fetch the partition from another rack (KIP-881)."""
    racks_by_partition = group.topics[partition[0]].replica_racks
    rack = group.members[member_id].rack
    if rack is None or racks_by_partition is None:
        return False
    racks = racks_by_partition[partition[1]]
    return len(racks) > 0 and rack not in racks


def score(group: Group, owner_now: Mapping[Partition, str], prior: Mapping[Partition, str]) -> Score:
    """What it costs that these members have these partitions."""
    loads = dict.fromkeys(group.members, 0)
    for member_id in owner_now.values():
        loads[member_id] += 1
    return Score(
        sum_of_squares=sum(load * load for load in loads.values()),
        moved=sum(prior.get(partition, now) != now for partition, now in owner_now.items()),
        rack_misses=sum(misses(group, partition, now) for partition, now in owner_now.items()),
    )


def owners_of(group: Group, assignment: Assignment) -> dict[Partition, str]:
    """The owner of each partition; AssertionError, saying why, if the group cannot be assigned so."""
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
    assert owner_now.keys() == may_get.keys(), "a partition is assigned to nobody"
    return owner_now


class Oracle:
    """The exact optimum of one group, in any order of wishes."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.prior = prior_owners(group)
        self.readers = readers(group)
        self.partitions = list(self.readers)
        self.members = list(group.members)
        count, slots = len(self.partitions), self._slots()
        allowed = np.zeros((count, len(self.members)), dtype=bool)
        moves = np.zeros((count, len(self.members)))
        missed = np.zeros((count, len(self.members)))
        columns = {member_id: column for column, member_id in enumerate(self.members)}
        for row, partition in enumerate(self.partitions):
            owner = self.prior.get(partition)
            for member_id in self.readers[partition]:
                column = columns[member_id]
                allowed[row, column] = True
                moves[row, column] = owner is not None and owner != member_id
                missed[row, column] = misses(group, partition, member_id)
        self._slots_of_member = slots
        self._costs = {"moved": moves, "rack_misses": missed}
        self._forbidden = np.repeat(np.where(allowed, 0.0, np.inf), slots, axis=1)
        self._squares = np.tile(2.0 * np.arange(slots) + 1, len(self.members))

    def _slots(self) -> int:
        """The greatest load of some assignment: that of a best one is no greater."""
        loads = dict.fromkeys(self.members, 0)
        for may_get in sorted(self.readers.values(), key=len):
            loads[min(may_get, key=loads.__getitem__)] += 1
        return max(loads.values(), default=0)

    def best(self, order: Order) -> Score:
        """The score of a best assignment."""
        if not self.partitions:
            return Score(0, 0, 0)
        weight = 1.0
        seat = np.zeros((len(self.partitions), len(self.members)))
        for wish in reversed(order.value):
            seat += weight * self._costs[wish]
            weight *= len(self.partitions) + 1
        # The sum of all costs stays far below 2 ** 53, so floats are exact.
        costs = np.repeat(seat, self._slots_of_member, axis=1) + weight * self._squares + self._forbidden
        _, seats = linear_sum_assignment(costs)
        owner_now = {
            partition: self.members[column // self._slots_of_member]
            for partition, column in zip(self.partitions, seats, strict=True)
        }
        return score(self.group, owner_now, self.prior)
