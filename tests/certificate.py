"""Proof that no assignment of a group is better, and the way to check it.

An assignment is judged by a list of criteria, the first of which matters most: the sum of the squared loads,
then partitions that move and partitions consumed across racks. A **certificate** gives every member a
*price*, and two rules about prices, each of them local, leave no better assignment possible.

1. A member with L partitions has a price from 2L - 1 to 2L + 1. One partition less lowers the sum of the
   squared loads by 2L - 1, one more raises it by 2L + 1. On a `Scale` the price lies between
   (2M - 1) / capacity and (2M + 1) / capacity; M is L plus the partitions that the member has already.
2. Every partition is with the subscriber of its topic where the sum of the price and the cost of the
   partition is the lowest. The cost is a move if the partition's owner is another member of the group, and
   a miss if the partition has no replica in the member's rack.

Compare any other assignment. By rule 2, no partition costs less there, prices included. By rule 1, the
squared loads cannot fall by more than those prices allow. So the other assignment is not better. (This is the
duality of linear programming for an assignment with convex costs: R. K. Ahuja, T. L. Magnanti, J. B. Orlin,
"Network Flows" (1993), chapters 9 and 14.) A price is a list of numbers, one for each criterion, and lists
are added and compared.

`check` verifies a certificate by these two rules alone. `prove` looks for the prices of any assignment; where
no prices exist, it finds a chain of members that pass partitions on and so improve the assignment. Neither
depends on the solver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import lcm

from kafka_assignors.criteria import PLAIN, Criteria, Scale, require_criteria
from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import check_assignment
from tests.exact_score import Partition, misses, owners_of, prior_owners, readers

__all__ = ["Certificate", "CertificateError", "HandOver", "Improvement", "check", "prove"]

Price = tuple[int | Fraction, ...]
"""A number for each criterion, compared like words in a dictionary."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Evidence that an assignment is the best by these criteria: the price of every member."""

    criteria: Criteria
    prices: Mapping[str, Price]
    scale: Scale = PLAIN


class CertificateError(ValueError):
    """The certificate does not prove the assignment to be the best; the message says which rule it breaks."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A member passes one partition on to another."""

    topic: str
    partition: int
    giver: str
    taker: str


@dataclass(frozen=True, slots=True)
class Improvement:
    """Why an assignment is not the best: these steps, taken together, make it better.

    `change` says by how much each of the criteria changes; the first that is not 0 is negative.
    """

    criteria: Criteria
    steps: tuple[HandOver, ...]
    change: Price


class _Judged:
    """An assignment that is valid, and what its partitions and loads cost."""

    def __init__(self, group: Group, assignment: Assignment, criteria: Criteria, scale: Scale) -> None:
        check_assignment(group, assignment)
        self.group, self.criteria, self.scale = group, require_criteria(criteria), scale
        self.owners, self.prior = owners_of(group, assignment), prior_owners(group)
        self.readers = readers(group)
        self.loads = {member_id: assignment.load(member_id) for member_id in group.members}

    def cost(self, partition: Partition, member_id: str) -> Price:
        moves = self.prior.get(partition, member_id) != member_id
        missed = misses(self.group, partition, member_id)
        return tuple(one.count(int(moves), int(missed)) for one in self.criteria)

    def kinds(self) -> list[Partition]:
        """One partition of each kind: partitions of a kind cost every member the same."""
        found: dict[object, Partition] = {}
        for (topic, number), holder in self.owners.items():
            racks = self.group.topics[topic].replica_racks
            prior = self.prior.get((topic, number))
            found.setdefault((topic, holder, prior, racks and racks[number]), (topic, number))
        return list(found.values())

    def bound(self, member_id: str, more: int) -> Price:
        """The price by rule 1: with `more` = 1 of one partition more, with -1 of the last one."""
        twice = 2 * (self.loads[member_id] + self.scale.has_already(member_id))
        growth = Fraction(twice + more, self.scale.capacity(member_id))
        return growth, *(0,) * (len(self.criteria) - 1)


def check(group: Group, assignment: Assignment, certificate: Certificate) -> None:
    """Verify that no assignment of the group is better than this one by the certificate's criteria."""
    prices = certificate.prices
    judged = _Judged(group, assignment, certificate.criteria, certificate.scale)
    if prices.keys() != group.members.keys():
        raise CertificateError(f"there are prices of {sorted(prices)}, not of the members of the group")
    for member_id, price in prices.items():
        least, most = judged.bound(member_id, -1), judged.bound(member_id, 1)
        if len(price) != len(most) or price > most or (judged.loads[member_id] and price < least):
            raise CertificateError(
                f"the price of {member_id!r} is {_shown(price)}, "
                f"and it must lie between {_shown(least)} and {_shown(most)}"
            )
    for partition in judged.kinds():
        holder = judged.owners[partition]
        paid = _sum(prices[holder], judged.cost(partition, holder))
        for taker in judged.readers[partition]:
            other = _sum(prices[taker], judged.cost(partition, taker))
            if other < paid:
                raise CertificateError(
                    f"{partition} costs {_shown(paid)} at {holder!r}, where it is, "
                    f"and {_shown(other)} at {taker!r}"
                )


def prove(
    group: Group, assignment: Assignment, criteria: Criteria, *, scale: Scale = PLAIN
) -> Certificate | Improvement:
    """A certificate that no assignment of the group is better by these criteria, or steps to one that is.

    To pass a partition on is an edge between two members; its length is the cost of the partition at the
    taker less its cost at the giver. A member's price is the length of its shortest path to a member that
    takes one more partition, plus the growth of the taker's squared load. If the price is below what the
    member saves by giving a partition up, the path is an improvement; so is a circle of negative length.
    Shortest paths are found in rounds (R. Bellman, "On a routing problem", 1958).
    """
    return _Search(_Judged(group, assignment, criteria, scale)).run()


class _Search:
    """Lowers the prices round by round; each starts at the growth of the member's own load.

    The first number of a price counts fractions of a squared load, so that all numbers are whole.
    """

    def __init__(self, judged: _Judged) -> None:
        self._judged = judged
        self._parts = lcm(*(judged.scale.capacity(member_id) for member_id in judged.group.members))
        self._one_more = {one: self._whole(judged.bound(one, 1)) for one in judged.loads}
        self._saved = {one: self._whole(judged.bound(one, -1)) for one, load in judged.loads.items() if load}
        self._prices = dict(self._one_more)
        self._next: dict[str, str] = {}
        """The taker on the shortest path of each giver."""
        self._edges: dict[str, dict[str, tuple[Price, Partition]]] = {one: {} for one in judged.loads}
        for partition in judged.kinds():
            giver = judged.owners[partition]
            here = self._whole(judged.cost(partition, giver))
            for taker in judged.readers[partition]:
                there = self._whole(judged.cost(partition, taker))
                length = tuple(more - less for more, less in zip(there, here, strict=True))
                known = self._edges[giver].get(taker)
                if taker != giver and (known is None or length < known[0]):
                    self._edges[giver][taker] = length, partition

    def _whole(self, price: Price) -> tuple[int, ...]:
        return int(price[0] * self._parts), *map(int, price[1:])

    def _price(self, whole: Price) -> Price:
        return Fraction(whole[0], self._parts), *whole[1:]

    def run(self) -> Certificate | Improvement:
        while self._round():
            for start in self._saved:
                if found := self._improvement(start):
                    return found
        judged = self._judged
        prices = {member_id: self._price(price) for member_id, price in self._prices.items()}
        return Certificate(judged.criteria, prices, judged.scale)

    def _round(self) -> bool:
        """Look at each edge once, with the prices of the last round; whether any price has fallen."""
        before, self._prices = self._prices, dict(self._prices)
        for giver, edges in self._edges.items():
            for taker, (length, _) in edges.items():
                price = _sum(before[taker], length)
                if price < self._prices[giver]:
                    self._prices[giver] = price
                    self._next[giver] = taker
        return before != self._prices

    def _improvement(self, start: str) -> Improvement | None:
        """The path from a member, or the circle that it leads to, if that makes the assignment better."""
        way = [start]
        while taker := self._next.get(way[-1]):
            if taker in way:
                circle = way[way.index(taker) :]
                return self._steps([*circle, taker], self._whole((0,) * len(self._judged.criteria)))
            way.append(taker)
        if self._prices[start] >= self._saved[start]:
            return None
        growth = zip(self._one_more[way[-1]], self._saved[start], strict=True)
        return self._steps(way, tuple(more - less for more, less in growth))

    def _steps(self, way: list[str], change: Price) -> Improvement:
        steps = []
        for giver, taker in pairwise(way):
            length, partition = self._edges[giver][taker]
            change = _sum(change, length)
            steps.append(HandOver(*partition, giver, taker))
        return Improvement(self._judged.criteria, tuple(steps), self._price(change))


def _sum(one: Price, other: Price) -> Price:
    return tuple(map(sum, zip(one, other, strict=True)))


def _shown(price: Price) -> str:
    return ", ".join(map(str, price))
