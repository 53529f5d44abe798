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

`check` verifies a certificate by these two rules alone. `prices_of` looks for prices of any assignment; if
that is not the best, `check` refuses them. Neither depends on the solver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from kafka_assignors.criteria import PLAIN, Criteria, Scale, require_criteria
from kafka_assignors.group import Assignment, Group
from kafka_assignors.leader import check_assignment
from tests.exact_score import Partition, misses, owners_of, prior_owners, readers

__all__ = ["Certificate", "CertificateError", "check", "prices_of"]

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


def prices_of(
    group: Group, assignment: Assignment, criteria: Criteria, *, scale: Scale = PLAIN
) -> Certificate:
    """The prices that prove the assignment, if it is the best.

    To pass a partition on is an edge between two members; its length is the cost of the partition at the
    taker less its cost at the giver. A member's price is the length of its shortest path to a member that
    takes one more partition, plus the growth of the taker's squared load. If the assignment is not the best,
    a price is below what the member saves by giving a partition up, or a circle of negative length lets the
    prices fall without end. Shortest paths are found in rounds (R. Bellman, "On a routing problem", 1958).
    """
    judged = _Judged(group, assignment, criteria, scale)
    # The first number of a price counts fractions of a squared load, so that all numbers are whole.
    parts = lcm(*map(scale.capacity, group.members))

    def whole(price: Price) -> Price:
        return int(price[0] * parts), *map(int, price[1:])

    edges: dict[tuple[str, str], Price] = {}
    for partition in judged.kinds():
        giver = judged.owners[partition]
        here = whole(judged.cost(partition, giver))
        for taker in judged.readers[partition]:
            there = whole(judged.cost(partition, taker))
            length = tuple(more - less for more, less in zip(there, here, strict=True))
            edges[giver, taker] = min(length, edges.get((giver, taker), length))
    prices = {member_id: whole(judged.bound(member_id, 1)) for member_id in group.members}
    before: dict[str, Price] = {}
    # The shortest path passes each member once at most, unless there is a circle of negative length.
    for _ in range(len(prices) + 1):
        if prices == before:
            break
        before = dict(prices)
        for (giver, taker), length in edges.items():
            prices[giver] = min(prices[giver], _sum(before[taker], length))
    counted = {member_id: (Fraction(price[0], parts), *price[1:]) for member_id, price in prices.items()}
    return Certificate(judged.criteria, counted, scale)


def _sum(one: Price, other: Price) -> Price:
    return tuple(map(sum, zip(one, other, strict=True)))


def _shown(price: Price) -> str:
    return ", ".join(map(str, price))
