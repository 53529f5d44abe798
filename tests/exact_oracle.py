"""The optimum of a group, found by a solver that shares no code with ours.

Every partition is a row. Every member has several slots, each of which is a column. A partition in slot j
(from 0) of a member costs 2j + 1: if the slots are filled from the left, their costs add up to the square of
the load. On a scale a slot costs (2(j + already) + 1) / capacity, times the common multiple of all
capacities. Movement and rack misses are added with smaller weights. scipy's `linear_sum_assignment` (shortest
augmenting paths on the dense matrix) finds the cheapest slot for every partition. It has no classes, no
levels and no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import lcm

import numpy as np
from scipy.optimize import linear_sum_assignment

from kafka_assignors.criteria import PLAIN, Scale
from kafka_assignors.group import Group
from tests.exact_score import Order, Partition, Score, misses, prior_owners, readers, score

__all__ = ["Oracle"]


class Oracle:
    """The exact optimum of one group on a scale, in any order of wishes."""

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
        self._costs = {"moved": moves, "rack_misses": missed}
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

    def best(self, order: Order) -> Score:
        """The score of an optimal assignment."""
        return score(self.group, self.best_owners(order), self.prior, self.scale)

    def best_traded(self, moves: int, misses: int) -> Score:
        """The score of an optimal assignment if `moves` moves weigh as much as `misses` rack misses.

        Among equals it is one with the fewest moves.
        """
        owners = self._seated([{"moved": misses, "rack_misses": moves}, {"moved": 1}])
        return score(self.group, owners, self.prior, self.scale)

    def best_owners(self, order: Order) -> dict[Partition, str]:
        """An optimal assignment: the owner of each partition."""
        return self._seated([{wish: 1} for wish in order.value])

    def _seated(self, wishes: Sequence[Mapping[str, int]]) -> dict[Partition, str]:
        """The owner of each partition; the wishes come in order of priority, each a sum of weighted costs."""
        if not self.partitions:
            return {}
        weight = 1.0
        seat = np.zeros((len(self.partitions), len(self.members)))
        for wish in reversed(wishes):
            for cost, units in wish.items():
                seat += weight * units * self._costs[cost]
            weight *= len(self.partitions) * sum(wish.values()) + 1
        # The sum of all costs stays far below 2 ** 53, so floats are exact.
        assert weight * self._squares.max() * len(self.partitions) < 2**53
        costs = seat[:, self._member_of_slot] + weight * self._squares + self._forbidden
        _, seats = linear_sum_assignment(costs)
        return {
            partition: self.members[self._member_of_slot[column]]
            for partition, column in zip(self.partitions, seats, strict=True)
        }
