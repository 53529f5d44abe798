"""Proof that no assignment of a group is better, and the way to check it.

An assignment is judged by a list of criteria, the first of which matters most: the sum of the squared loads,
then partitions that move and partitions consumed across racks, in the order the strategy declares. Finding
the best is the solver's work. Being convinced of it takes much less: a **certificate** gives every member a
*price*, and two rules about prices, each of them local, leave no better assignment possible.

1. A member with L partitions has a price between 2L - 1 and 2L + 1, which is what taking one partition from
   it would save of the squared loads, and what giving it one more would add. On a `Scale`, which is part of
   the certificate, it lies between (2M - 1) / capacity and (2M + 1) / capacity, M being L and what the member
   has already.
2. For every partition, its member has the lowest sum of the price and the cost of the partition there, of
   all members that subscribe to the topic. The cost of a partition is a move if its owner is another member
   of the group, and a miss if it has no replica in the member's rack. Where the two are traded, they are
   one criterion (`Trade`): so much for a move, and so much for a miss.

Suppose another assignment. By the second rule no partition is cheaper where that one puts it, prices
included; by the first the prices rise at least as fast as the squared loads fall. So it cannot be better.
(This is the duality of linear programming for an assignment with convex costs: R. K. Ahuja, T. L. Magnanti,
J. B. Orlin, "Network Flows" (1993), chapters 9 and 14.) The criteria are compared in their order, so a price
is a list of numbers, one for each criterion, and the sums and comparisons above are those of lists. They are
whole numbers, but for the first one where members have capacities: that one is an exact fraction.

`check` verifies a certificate with nothing but these two rules. `prove` looks for the prices of any
assignment, from any strategy; where there are none it finds members that can pass partitions on, from one to
the next, so that the group is better off. Neither knows how the solver works.
"""

from __future__ import annotations

from kafka_assignors.certificate.check import Certificate, CertificateError, check
from kafka_assignors.certificate.prove import HandOver, Improvement, prove

__all__ = ["Certificate", "CertificateError", "HandOver", "Improvement", "check", "prove"]
