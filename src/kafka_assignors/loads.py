"""The weights of a group, and lower bounds of its greatest load. Consumers do not import it.

The load of a member is the weight of its partitions together. The lower bound of the greatest load is the
greatest of three: the heaviest partition;

- **fractional**: if partitions could be cut into pieces, the least T for which no member has more than T. By
  the theorem of maximum flow and minimum cut it is the greatest W(S) / N(S), where S are classes of topics,
  W(S) what all of their partitions weigh and N(S) the members that may have any of them, rounded up. From the
  average on, the cohorts that the flow leaves above T, and those they can pass weight on to, are the next S;
- **crowding**: one of m members must have at least k + 1 of the k·m + 1 heaviest partitions, which weigh at
  least as much as the k + 1 lightest of these (M. Dell'Amico, S. Martello, "Optimal scheduling of tasks on
  identical parallel processors", ORSA Journal on Computing 7, 1995, bound L2 and its extension).

A partition with an unknown weight gets the (lower) median of its topic's known weights; if there are none,
that of the group's; if there are none, 1, so that a group without weights is balanced by the number of
partitions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from statistics import median_low

from kafka_assignors.group import Group
from kafka_assignors.solver.distribution import Distribution


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of every partition by topic, and the number of unknown weights."""

    by_topic: Mapping[str, Sequence[int]]
    unknown: int


def weights_of(group: Group) -> Weights:
    """The weights of all topics that a member subscribes to; a median stands in for an unknown one."""
    subscribed = frozenset[str]().union(*(member.topics for member in group.members.values()))
    topics = [group.topics[name] for name in sorted(subscribed & group.topics.keys())]
    known = {topic.name: [weight for weight in topic.weights or () if weight is not None] for topic in topics}
    everywhere = list(chain.from_iterable(known.values()))
    usual = median_low(everywhere) if everywhere else 1
    by_topic: dict[str, Sequence[int]] = {}
    for topic in topics:
        if len(known[topic.name]) == topic.partitions:
            by_topic[topic.name] = known[topic.name]
            continue
        stand_in = median_low(known[topic.name]) if known[topic.name] else usual
        given = topic.weights or (None,) * topic.partitions
        by_topic[topic.name] = [stand_in if weight is None else weight for weight in given]
    return Weights(by_topic, sum(topic.partitions for topic in topics) - len(everywhere))


@dataclass(frozen=True, slots=True)
class Relaxation:
    """The least greatest load if partitions could be cut, and one way to reach it.

    `load` is T, rounded up. `shares` has, by cohort and class, how much of the class's weight goes to the
    cohort, so that no cohort has more than T a member.
    """

    load: int
    shares: Sequence[dict[int, int]]


def relax(sizes: Sequence[int], takers: Sequence[Sequence[int]], amounts: Mapping[int, int]) -> Relaxation:
    """The fractional bound: cohorts have `sizes` members, classes the cohorts in `takers` and the weights."""
    distribution = Distribution(sizes, [0] * len(sizes), dict(enumerate(takers)))
    distribution.pour(amounts)
    cohorts = range(len(sizes))
    nothing = dict.fromkeys(cohorts, 0)
    load = -(-sum(amounts.values()) // sum(sizes)) if sizes else 0
    while True:
        limit = {cohort: load * size for cohort, size in enumerate(sizes)}
        above = distribution.even_out(cohorts, nothing, limit)
        if above is None:
            return Relaxation(load, distribution.held)
        crowded = above[0]
        weight = sum(distribution.loads[cohort] for cohort in crowded)
        load = -(-weight // sum(sizes[cohort] for cohort in crowded))


def crowding_bound(weights: Sequence[int], members: int) -> int:
    """The greatest of the heaviest job and the crowding bounds of every k."""
    heaviest_first = sorted(weights, reverse=True)
    best = heaviest_first[0] if heaviest_first else 0
    if not members:
        return best
    sums = list(accumulate(heaviest_first, initial=0))
    for last in range(members, len(heaviest_first), members):
        together = last // members + 1
        best = max(best, sums[last + 1] - sums[last + 1 - together])
    return best
