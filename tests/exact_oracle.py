"""The optimum of a group, found by a solver that shares no code with ours.

Every partition is a row. Every member has several slots, each of which is a column. A partition in slot j
(from 0) of a member costs 2j + 1: if the slots are filled from the left, their costs add up to the square of
the load. On a scale a slot costs (2(j + already) + 1) / capacity, times the common multiple of all
capacities. Movement and rack misses are added with smaller weights. scipy's `linear_sum_assignment` (shortest
augmenting paths on the dense matrix) finds the cheapest slot for every partition. It has no classes, no
levels and no network.
"""

from __future__ import annotations

from math import lcm

import numpy as np
from scipy.optimize import linear_sum_assignment

from kafka_assignors.criteria import PLAIN, Criteria, Scale
from kafka_assignors.group import Assignment, Group
from tests.exact_score import Partition, Score, misses, owners_of, prior_owners, readers, score


class Oracle:
    """The exact optimum of one group on a scale, by any criteria."""

    def __init__(self, group: Group, scale: Scale = PLAIN) -> None:
        self.group, self.scale = group, scale
        self.prior = prior_owners(group)
        self.readers = readers(group)
        self.partitions = list(self.readers)
        self.members = list(group.members)
        count = len(self.partitions)
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
        self._multiple = lcm(*(scale.capacity(member_id) for member_id in self.members))
        # A member needs at most as many slots as there are partitions that it may get.
        slots = np.minimum(np.array(self._most_slots(), dtype=int), allowed.sum(axis=0))
        self._member_of_slot = np.repeat(np.arange(len(self.members)), slots)
        self._moves, self._missed = moves, missed
        self._forbidden = np.where(allowed, 0.0, np.inf)[:, self._member_of_slot]
        self._squares = np.array(
            [
                self._cost(member_id, slot)
                for member_id, number in zip(self.members, slots, strict=True)
                for slot in range(number)
            ],
            dtype=float,
        )

    def _cost(self, member_id: str, slot: int) -> int:
        """What a partition in this slot adds to the sum of squares, times the common multiple."""
        before = slot + self.scale.has_already(member_id)
        return (2 * before + 1) * (self._multiple // self.scale.capacity(member_id))

    def _most_slots(self) -> list[int]:
        """For each member, how many slots cost at most as much as the dearest slot of a greedy assignment.

        The dearest slot of an optimal assignment costs at most as much, too.
        """
        loads = dict.fromkeys(self.members, 0)
        dearest = 0
        for may_get in sorted(self.readers.values(), key=len):
            costs = {member_id: self._cost(member_id, loads[member_id]) for member_id in may_get}
            taker = min(costs, key=costs.__getitem__)
            loads[taker] += 1
            dearest = max(dearest, costs[taker])
        most = []
        for member_id in self.members:
            first, step = self._cost(member_id, 0), self._cost(member_id, 1) - self._cost(member_id, 0)
            most.append(max(0, (dearest - first) // step + 1))
        return most

    def best(self, criteria: Criteria) -> Score:
        """The score of an optimal assignment."""
        return score(self.group, self.best_owners(criteria), self.prior, self.scale)

    def best_owners(self, criteria: Criteria) -> dict[Partition, str]:
        """An optimal assignment: the owner of each partition."""
        if not self.partitions:
            return {}
        weight = 1.0
        seat = np.zeros((len(self.partitions), len(self.members)))
        for each in reversed(criteria[1:]):
            move, miss = each.count(1, 0), each.count(0, 1)
            seat += weight * (move * self._moves + miss * self._missed)
            weight *= len(self.partitions) * (move + miss) + 1
        # The sum of all costs stays far below 2 ** 53, so floats are exact.
        assert weight * self._squares.max() * len(self.partitions) < 2**53
        costs = seat[:, self._member_of_slot] + weight * self._squares + self._forbidden
        _, seats = linear_sum_assignment(costs)
        return {
            partition: self.members[self._member_of_slot[column]]
            for partition, column in zip(self.partitions, seats, strict=True)
        }


def assert_best(group: Group, assignment: Assignment, criteria: Criteria, scale: Scale = PLAIN) -> None:
    """Check that the assignment is valid, and that none is better."""
    oracle = Oracle(group, scale)
    reached = score(group, owners_of(group, assignment), oracle.prior, scale)
    assert reached.by(criteria) == oracle.best(criteria).by(criteria)
