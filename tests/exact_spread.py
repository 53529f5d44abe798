"""How evenly the solver spreads each topic over its members, compared with the optimum.

The optimum is the most even spread that makes no earlier criterion worse. The solver does not optimise spread
exactly (see `docs/internals/solver.md`), so this module measures its distance from the optimum. The optimum
is a mixed-integer program (scipy's HiGHS) without classes, levels or flows. As a command:

    python -m tests.exact_spread --groups 500 --seed 1
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix

from kafka_assignors.criteria import FEWEST_MOVES, MOVES_THEN_RACKS, RACKS_THEN_MOVES
from kafka_assignors.group import Assignment, Group
from kafka_assignors.solver import solve
from tests.exact_groups import Limits, random_group
from tests.exact_oracle import Oracle
from tests.exact_score import Order, Partition, misses

__all__ = ["TINY", "Distances", "excess", "least_excess", "measure"]

TINY = Limits(members=6, topics=4, partitions=8)

PREFERENCES = {
    FEWEST_MOVES: Order.MOVEMENT,
    MOVES_THEN_RACKS: Order.MOVEMENT_RACKS,
    RACKS_THEN_MOVES: Order.RACKS_MOVEMENT,
}


def sum_of_squares(assignment: Assignment) -> int:
    """The sum, over all topics and members, of the squared number of partitions."""
    return sum(len(share) ** 2 for shares in assignment.members.values() for share in shares.values())


def evenly(group: Group) -> int:
    """The sum of squares if every topic were divided among all its subscribers, to within one partition."""
    subscribers = Counter(name for member in group.members.values() for name in member.topics)
    total = 0
    for name, topic in group.topics.items():
        if subscribers[name]:
            least, more = divmod(topic.partitions, subscribers[name])
            total += (subscribers[name] - more) * least**2 + more * (least + 1) ** 2
    return total


def excess(group: Group, assignment: Assignment) -> int:
    """The sum of squares above that of evenly divided topics.

    A swap of two partitions that makes one topic more even by one, and no topic less even, subtracts 2.
    """
    return sum_of_squares(assignment) - evenly(group)


def least_excess(group: Group, order: Order) -> int:
    """The least excess of all assignments that are optimal in balance and in the wishes of `order`."""
    oracle = Oracle(group)
    best = oracle.best(order)
    wishes = dict(zip(("sum_of_squares", *order.value), best.in_order(order), strict=True))
    return _Program(group, oracle.readers, oracle.prior, wishes).solve() - evenly(group)


class _Program:
    """Minimise the squares of (topic, member) while no earlier sum gets worse.

    For each member, partitions of a topic with the same owner and the same racks share one variable: how many
    of them it gets. A square is a sum of the first odd numbers; each of them has a variable from 0 to 1.
    """

    def __init__(
        self,
        group: Group,
        readers: Mapping[Partition, Iterable[str]],
        prior: Mapping[Partition, str],
        wishes: Mapping[str, int],
    ) -> None:
        self._uppers: list[float] = []
        self._prices: list[float] = []
        self._rows: list[tuple[dict[int, float], float, float]] = []
        alike = Counter(
            (p[0], prior.get(p), tuple(misses(group, p, m) for m in readers[p]), tuple(readers[p]))
            for p in readers
        )
        in_cell: dict[tuple[str, str], list[int]] = {}
        of_member: dict[str, list[int]] = {}
        moves: dict[int, float] = {}
        crossings: dict[int, float] = {}
        for (topic, owner, missed, members), count in alike.items():
            shares = []
            for member_id, miss in zip(members, missed, strict=True):
                share = self._variable(count)
                shares.append(share)
                in_cell.setdefault((topic, member_id), []).append(share)
                of_member.setdefault(member_id, []).append(share)
                moves[share] = float(owner is not None and owner != member_id)
                crossings[share] = float(miss)
            self._rows.append((dict.fromkeys(shares, 1.0), count, count))
        for shares in in_cell.values():
            self._squares(shares, price=1.0)
        squares: dict[int, float] = {}
        for shares in of_member.values():
            squares |= self._squares(shares, price=0.0)
        for name, row in (("sum_of_squares", squares), ("moved", moves), ("rack_misses", crossings)):
            if name in wishes and row:
                self._rows.append((row, 0, wishes[name]))

    def _variable(self, upper: float, price: float = 0.0) -> int:
        self._uppers.append(upper)
        self._prices.append(price)
        return len(self._uppers) - 1

    def _squares(self, shares: list[int], price: float) -> dict[int, float]:
        """Add steps that sum up to these shares. Return what each step adds to the square of the sum."""
        most = int(sum(self._uppers[share] for share in shares))
        steps = {self._variable(1, price * (2 * k + 1)): 2.0 * k + 1 for k in range(most)}
        self._rows.append((dict.fromkeys(shares, 1.0) | dict.fromkeys(steps, -1.0), 0, 0))
        return steps

    def solve(self) -> int:
        if not self._rows:
            return 0
        matrix = lil_matrix((len(self._rows), len(self._uppers)))
        for number, (row, _, _) in enumerate(self._rows):
            for column, value in row.items():
                matrix[number, column] = value
        result = milp(
            np.array(self._prices),
            integrality=np.ones(len(self._uppers)),
            bounds=Bounds(0, np.array(self._uppers)),
            constraints=LinearConstraint(
                matrix.tocsr(), [low for _, low, _ in self._rows], [high for _, _, high in self._rows]
            ),
        )
        assert result.success, result.message
        return round(result.fun)


@dataclass(slots=True)
class Distances:
    """The distance of the solver's spread from the optimum, in swaps of two partitions, over groups."""

    groups: int = 0
    swaps: Counter[int] = field(default_factory=Counter)
    partitions: int = 0
    worst: tuple[int, str] = (0, "")

    def add(self, name: str, group: Group) -> None:
        """Measure one group in every order of wishes."""
        self.groups += 1
        claims = group.claims
        racks = any(member.rack for member in group.members.values())
        for preference, order in PREFERENCES.items():
            if preference is not FEWEST_MOVES and not racks:
                continue
            assignment = solve(group, claims, criteria=preference)
            self.partitions += sum(map(assignment.load, group.members))
            more = excess(group, assignment) - least_excess(group, order)
            assert more >= 0
            assert more % 2 == 0
            self.swaps[more // 2] += 1
            self.worst = max(self.worst, (more // 2, f"{name}, {order.name}"))

    def table(self) -> str:
        """The distances as text."""
        solved = self.swaps.total()
        off = sum(swaps * count for swaps, count in self.swaps.items())
        lines = [
            f"{self.groups} groups, {solved} assignments of {self.partitions} partitions: "
            f"{self.swaps[0]} ({self.swaps[0] / solved:.1%}) as even as can be, "
            f"{off} swaps short in all (worst: {self.worst[0]}, {self.worst[1]})",
            "  ".join(f"{swaps}: {count}" for swaps, count in sorted(self.swaps.items())),
        ]
        return "\n".join(lines)


def measure(groups: int, seed: int, limits: Limits = TINY) -> Distances:
    """Measure random groups; a result names the seed of its group."""
    distances = Distances()
    for number in range(groups):
        name = f"{seed}/{number}"
        distances.add(name, random_group(random.Random(name), limits))
    return distances


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the spread of topics with the most even one.")
    parser.add_argument("--groups", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--members", type=int, default=TINY.members, help="at most so many")
    parser.add_argument("--topics", type=int, default=TINY.topics, help="at most so many")
    parser.add_argument("--partitions", type=int, default=TINY.partitions, help="at most so many a topic")
    options = parser.parse_args()
    limits = Limits(options.members, options.topics, options.partitions)
    print(measure(options.groups, options.seed, limits).table())


if __name__ == "__main__":
    main()
