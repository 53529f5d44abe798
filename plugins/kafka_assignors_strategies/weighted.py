"""`weighted`: the lowest greatest load of any member, where partitions have different weights.

A weight is what a partition costs to consume: lag, bytes or records a second, from the leader's source
(`Topic.weights`). `sticky` minimises moves; `weighted` does not.
`kafka_assignors_strategies.makespan` describes the algorithm and its bounds.

The name belongs to this package and stands for both protocols, like `rack-aware-sticky`. Only the leader has
weights: members send no data about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafka_assignors.arguments import require_number
from kafka_assignors.group import Assignment, Group
from kafka_assignors.loads import weights_of
from kafka_assignors.strategy import Strategy
from kafka_assignors_strategies.makespan import balance_loads

THRESHOLD = 0.04
"""The threshold by default: the greatest load is then at most 1.05 times what the search reaches."""


@dataclass(frozen=True, slots=True)
class Weighted(Strategy):
    """Balanced by weight, and moving partitions only where it is worth it, under either protocol.

    `threshold` is the share of the greatest load by which it must fall for partitions to move: from 0 to
    0.99.

    The greatest load is at most f / (1 - threshold) times the least possible one, and at most f times if no
    partition had an owner. With m members that subscribe to the same topics f is 4/3 - 1/(3m) (heaviest
    first: R. L. Graham, 1969); with any subscriptions it is 2 (rounding of a maximum flow: J. K. Lenstra,
    D. B. Shmoys, É. Tardos, 1990). It is never more than 1 + the heaviest weight divided by the lower bound,
    where that is above 1 + 1/256. `kafka_assignors_strategies.makespan.balance` has the proofs.
    """

    threshold: float = THRESHOLD

    name = "weighted"

    def __post_init__(self) -> None:
        """Raises TypeError or ValueError for arguments that make no sense."""
        require_number("threshold", self.threshold, most=0.99)

    def findings(self, group: Group) -> Sequence[str]:
        """How many weights are unknown, if any."""
        weights = weights_of(group)
        partitions = sum(map(len, weights.by_topic.values()))
        if not weights.unknown:
            return []
        if weights.unknown == partitions:
            return [f"no weight of the {partitions} partitions is known: each counts as 1"]
        return [
            f"{weights.unknown} of {partitions} weights are unknown: each counts as the median of its topic, "
            "or else of all"
        ]

    def assign(self, group: Group) -> Assignment:
        return balance_loads(group, self.threshold)
