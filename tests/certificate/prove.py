r"""Prices for an assignment, or the path to a better one.

To pass a partition on from one member to another is an edge between them; its length is the cost of the
partition at the taker less its cost at the giver. A member's price is the length of its shortest path to a
member that takes one more partition, plus the growth of the taker's squared load. If the price is below what
the member saves by giving a partition up, the path is an improvement; so is a circle of negative length.
Otherwise the prices make a certificate (`certificate` says why they suffice).

There are as many edges as partitions times subscribers, but few differ. Partitions of topics with the same
subscribers, in the same racks, cost the same except at their owner: they meet in a *hub*. One edge
leads from the hub to each rack of each cohort of subscribers; a separate edge leads back to a live owner.

    giver --(less what it costs here)--> hub --(move, miss)--> cohort in a rack --> taker
      \--------------------(miss, less what it costs here)--------------------> owner

Shortest paths are found in rounds (R. Bellman, "On a routing problem", 1958): a round looks at each edge
once, and there are as many rounds as the longest path has members.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from kafka_assignors.criteria import PLAIN, AnyCriterion, Criteria, Criterion, Scale, require_criteria
from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import check_assignment
from tests.certificate.check import Certificate, Price, is_miss


@dataclass(frozen=True, slots=True)
class HandOver:
    """A member passes one partition on to another."""

    topic: str
    partition: int
    giver: str
    taker: str

    def __str__(self) -> str:
        return f"{self.giver!r} gives {self.topic}-{self.partition} to {self.taker!r}"


@dataclass(frozen=True, slots=True)
class Improvement:
    """Why an assignment is not the best: these steps, taken together, make it better.

    `change` says by how much each of the criteria changes; the first that is not 0 is negative.
    """

    criteria: Criteria
    steps: tuple[HandOver, ...]
    change: Price


def among(scale: Scale, group: Group) -> Scale:
    """The scale of the group's members alone, without entries that equal the default."""
    return Scale(
        {id: capacity for id, capacity in scale.capacities.items() if id in group.members and capacity != 1},
        {id: load for id, load in scale.already.items() if id in group.members and load},
    )


def prove(
    group: Group, assignment: Assignment, criteria: Sequence[AnyCriterion], *, scale: Scale = PLAIN
) -> Certificate | Improvement:
    """A certificate that no assignment of the group is better by these criteria, or steps to one that is.

    `scale` is the measure of balance. Raises `InvalidAssignmentError` if the assignment is not valid for the
    group, and `ValueError` unless the criteria begin with balance and name each other one once at most.
    """
    criteria = require_criteria(criteria)
    check_assignment(group, assignment)
    return _Search(_Edges(group, assignment, criteria, among(scale, group))).run()


class _Units:
    """Prices as single integers: digits of a base that no sum of lengths along a path reaches.

    The first digit counts fractions 1 / `parts` of a squared load; `parts` is a multiple of all capacities.
    """

    def __init__(self, criteria: tuple[AnyCriterion, ...], members: int, parts: int) -> None:
        base = 4 * (members + 4) * max(1, *(one.count(1, 1) for one in criteria))
        weights: dict[AnyCriterion, int] = {
            one: base ** (len(criteria) - 1 - place) for place, one in enumerate(criteria)
        }
        self._base, self._digits, self._parts = base, len(criteria), parts
        self._square = weights[Criterion.BALANCE] * parts
        self.move = sum(weight * one.count(1, 0) for one, weight in weights.items())
        self.miss = sum(weight * one.count(0, 1) for one, weight in weights.items())

    def load(self, growth: int, capacity: int) -> int:
        """The length for a squared load that grows by `growth`, at a member of this capacity."""
        return self._square // capacity * growth

    def price(self, units: int) -> Price:
        digits = []
        for _ in range(self._digits - 1):
            digit = (units + self._base // 2) % self._base - self._base // 2
            digits.append(digit)
            units = (units - digit) // self._base
        balance = Fraction(units, self._parts)
        return (units // self._parts if balance.denominator == 1 else balance, *reversed(digits))


_Seat = tuple[int, str | None]
"""The members of a cohort in one rack."""


_Partition = tuple[str, int]


class _Edges:
    """Members are numbers, in the order of their ids; lengths are in `units`.

    `to_hubs` and `to_owners` are by giver: the (hub, length) and the (owner, length) of each edge from it,
    with one of the partitions that can take the edge. `hubs` lists the (seat, length) of each edge from a
    hub. `one_more` and `one_less` are by member: what its next partition adds to balance, and what its last
    one added; None for a member without partitions.
    """

    def __init__(
        self, group: Group, assignment: Assignment, criteria: tuple[AnyCriterion, ...], scale: Scale
    ) -> None:
        assignable = frozenset(name for name, topic in group.topics.items() if topic.partitions)
        self.criteria, self.scale = criteria, scale
        self.members = sorted(id for id, member in group.members.items() if member.topics & assignable)
        self.units = _Units(criteria, len(self.members), lcm(*scale.capacities.values()))
        self.one_more: list[int] = []
        self.one_less: list[int | None] = []
        self.seats: dict[_Seat, list[int]] = {}
        self.hubs: list[list[tuple[_Seat, int]]] = []
        self.to_hubs: list[dict[tuple[int, int], _Partition]] = []
        self.to_owners: list[dict[tuple[int, int], _Partition]] = []
        self._readers: dict[str, tuple[int, ...]] = {}
        """By topic, the cohorts that subscribe to it."""
        self._add_members(group, assignment, assignable)
        self._add_partitions(group, assignment)

    def _add_members(self, group: Group, assignment: Assignment, assignable: frozenset[str]) -> None:
        cohorts: dict[frozenset[str], int] = {}
        for number, member_id in enumerate(self.members):
            member = group.members[member_id]
            cohort = cohorts.setdefault(member.topics & assignable, len(cohorts))
            self.seats.setdefault((cohort, member.rack or None), []).append(number)
            load, capacity = assignment.load(member_id), self.scale.capacity(member_id)
            twice = 2 * (load + self.scale.has_already(member_id))
            self.one_more.append(self.units.load(twice + 1, capacity))
            self.one_less.append(self.units.load(twice - 1, capacity) if load else None)
        for topics, cohort in cohorts.items():
            for name in topics:
                self._readers[name] = (*self._readers.get(name, ()), cohort)

    def _add_partitions(self, group: Group, assignment: Assignment) -> None:
        numbers = {member_id: number for number, member_id in enumerate(self.members)}
        racks = [group.members[member_id].rack or None for member_id in self.members]
        owners: dict[str, dict[int, int]] = {}
        for member_id, by_topic in group.claims.owners.items():
            for name, partitions in by_topic.items():
                owners.setdefault(name, {}).update(dict.fromkeys(partitions, numbers[member_id]))
        hubs: dict[tuple[tuple[int, ...], frozenset[str], bool], int] = {}
        units, nowhere = self.units, frozenset[str]()
        for giver, member_id in enumerate(self.members):
            to_hubs: dict[tuple[int, int], _Partition] = {}
            to_owners: dict[tuple[int, int], _Partition] = {}
            for name, partitions in assignment.members[member_id].items():
                replica_racks = group.topics[name].replica_racks
                owners_here = owners.get(name, {})
                for partition in partitions:
                    owner = owners_here.get(partition)
                    where = nowhere if replica_racks is None else replica_racks[partition]
                    kind = (self._readers[name], where, owner is not None)
                    hub = hubs.get(kind)
                    if hub is None:
                        hub = hubs[kind] = self._add_hub(*kind)
                    here = units.move * (owner not in (None, giver)) + units.miss * is_miss(
                        racks[giver], where
                    )
                    to_hubs.setdefault((hub, -here), (name, partition))
                    if owner is not None and owner != giver:
                        there = units.miss * is_miss(racks[owner], where)
                        to_owners.setdefault((owner, there - here), (name, partition))
            self.to_hubs.append(to_hubs)
            self.to_owners.append(to_owners)

    def _add_hub(self, cohorts: tuple[int, ...], racks: frozenset[str], owned: bool) -> int:
        """A hub of partitions that these cohorts read, with replicas in these racks and an owner or none."""
        takers, units = set(cohorts), self.units
        self.hubs.append(
            [
                (seat, units.move * owned + units.miss * is_miss(seat[1], racks))
                for seat in self.seats
                if seat[0] in takers
            ]
        )
        return len(self.hubs) - 1


class _Search:
    """Lowers the prices round by round; each starts at the growth of the member's own load."""

    def __init__(self, edges: _Edges) -> None:
        self._edges = edges
        self._prices = list(edges.one_more)
        self._steps: list[tuple[int, _Partition] | None] = [None] * len(edges.members)

    def run(self) -> Certificate | Improvement:
        edges = self._edges
        while self._round():
            for member, saved in enumerate(edges.one_less):
                if saved is not None and self._prices[member] < saved:
                    members, circle_at = self._way(member)
                    return self._improvement(members[circle_at or 0 :])
            if circle := self._circle():
                return self._improvement(circle)
        prices = map(edges.units.price, self._prices)
        return Certificate(edges.criteria, dict(zip(edges.members, prices, strict=True)), edges.scale)

    def _round(self) -> bool:
        """Look at each edge once, with the prices of the last round; whether any price has fallen."""
        edges, before = self._edges, self._prices
        best_of_seat = {
            seat: min((before[member], member) for member in members) for seat, members in edges.seats.items()
        }
        best_of_hub = [
            min((best_of_seat[seat][0] + length, best_of_seat[seat][1]) for seat, length in hub)
            for hub in edges.hubs
        ]
        after = list(before)
        for giver in range(len(before)):
            for (hub, length), partition in edges.to_hubs[giver].items():
                price, taker = best_of_hub[hub]
                if price + length < after[giver]:
                    after[giver] = price + length
                    self._steps[giver] = taker, partition
            for (owner, length), partition in edges.to_owners[giver].items():
                if before[owner] + length < after[giver]:
                    after[giver] = before[owner] + length
                    self._steps[giver] = owner, partition
        self._prices = after
        return after != before

    def _way(self, start: int, harmless: Set[int] = frozenset()) -> tuple[list[int], int | None]:
        """The members along the path from `start`, and the index of the first one on a circle, or None.

        The path ends before a member that is `harmless`.
        """
        way: dict[int, None] = {}
        member: int | None = start
        while member is not None and member not in way and member not in harmless:
            way[member] = None
            step = self._steps[member]
            member = None if step is None else step[0]
        members = list(way)
        return members, members.index(member) if member in way else None

    def _circle(self) -> list[int]:
        """The members of a circle of steps, which is of negative length; empty if there is none."""
        harmless: set[int] = set()
        for start in range(len(self._steps)):
            members, circle_at = self._way(start, harmless)
            if circle_at is not None:
                return members[circle_at:]
            harmless.update(members)
        return []

    def _improvement(self, way: list[int]) -> Improvement:
        edges = self._edges
        steps = []
        for giver in way:
            step = self._steps[giver]
            if step is not None:
                taker, (topic, partition) = step
                steps.append(HandOver(topic, partition, edges.members[giver], edges.members[taker]))
        return Improvement(edges.criteria, tuple(steps), self._change(way))

    def _change(self, way: list[int]) -> Price:
        """How the criteria change along the path, or round the circle."""
        edges = self._edges
        change = 0
        for giver in way:
            step = self._steps[giver]
            if step is None:  # the last member, which takes one more
                saved = edges.one_less[way[0]]
                assert saved is not None  # the first member gives one away
                change += edges.one_more[giver] - saved
            else:
                change += self._length(giver, *step)
        return edges.units.price(change)

    def _length(self, giver: int, taker: int, partition: _Partition) -> int:
        edges = self._edges
        lengths = [
            length
            for (owner, length), one in edges.to_owners[giver].items()
            if owner == taker and one == partition
        ]
        for (hub, length), one in edges.to_hubs[giver].items():
            if one == partition:
                lengths += [length + more for seat, more in edges.hubs[hub] if taker in edges.seats[seat]]
        return min(lengths)
