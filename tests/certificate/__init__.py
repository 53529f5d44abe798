"""Proof that no assignment of a group is better, and the way to check it.

An assignment is judged by a list of criteria, the first of which matters most: the sum of the squared loads,
then partitions that move and partitions consumed across racks, in the order the strategy declares. Finding
the best is the solver's work. Being convinced of it takes much less: a **certificate** gives every member a
*price*, and two rules about prices, each of them local, leave no better assignment possible.

1. A member with L partitions has a price from 2L - 1 to 2L + 1. One partition less lowers the sum of the
   squared loads by 2L - 1, one more raises it by 2L + 1. On a `Scale`, which is part of the certificate, the
   price lies between (2M - 1) / capacity and (2M + 1) / capacity; M is L plus the partitions that the member
   has already.
2. Every partition is with the subscriber of its topic where the sum of the price and the cost of the
   partition is the lowest. The cost is a move if the partition's owner is another member of the group, and
   a miss if the partition has no replica in the member's rack. A `Trade` makes one criterion of the two, with
   a value for a move and a value for a miss.

Compare any other assignment. By rule 2, no partition costs less there, prices included. By rule 1, the
squared loads cannot fall by more than those prices allow. So the other assignment is not better. (This is the
duality of linear programming for an assignment with convex costs: R. K. Ahuja, T. L. Magnanti, J. B. Orlin,
"Network Flows" (1993), chapters 9 and 14.) The criteria are compared in their order, so a price is a list of
numbers, one for each criterion, and lists are added and compared. The numbers are integers; where members
have capacities, the first one is an exact fraction.

`check` verifies a certificate by these two rules alone. `prove` looks for the prices of any assignment, from
any strategy; where no prices exist, it finds a chain of members that pass partitions on and so improve the
assignment. Neither depends on the solver.
"""

from __future__ import annotations

from tests.certificate.check import Certificate, CertificateError, check
from tests.certificate.prove import HandOver, Improvement, prove

__all__ = ["Certificate", "CertificateError", "HandOver", "Improvement", "check", "prove"]
