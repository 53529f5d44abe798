"""Step 2: how many partitions each member gets in a balanced assignment.

The loads with the least sum of squares need not be all alike: a member that reads one small topic cannot help
the others. They fall into **levels**. Within a level every member gets k or k + 1 partitions; a topic class
that any member of a level subscribes to is served by that level or by a lower one, and members of higher
levels that subscribe to it as well get nothing of it. Which levels there are is the same in every optimal
assignment, and so are the number k of each level and how many of its members get one more.

They are found by divide and conquer. Let a part of the group have n members and P partitions, and k, r =
divmod(P, n). Partitions are passed on from members above k + 1 to members below, along chains of members that
share a class, until no chain is left. If a member is still above k + 1, then what it can reach through such
chains is all at k + 1 or above, subscribes to classes that only they subscribe to, and must stay apart from
the rest: the part is split in two, and each half is treated in the same way. The same with k and members
still below it. If neither happens, everybody has k or k + 1, and the part is a level.

Where this starts from does not matter for what is found. It starts from what the members owned, which is
often nearly even, and pours the rest over them (see `distribution`). It works on cohorts, whose members are
always kept even.

Source: N. Harvey, R. Ladner, L. Lovász, T. Tamir, "Semi-matchings for bipartite graphs and load balancing",
Journal of Algorithms 59 (2006), which shows that an assignment has the least sum of squares exactly if no
such chain leads from a member to one with at least two partitions less. Splitting at the average is the
decomposition algorithm for separable convex objectives of S. Fujishige, "Lexicographically optimal base of a
polymatroid with respect to a weight vector", Mathematics of Operations Research 5 (1980).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_assignors.solver.classes import Classes
from kafka_assignors.solver.distribution import Distribution

__all__ = ["Level", "find_levels"]


@dataclass(frozen=True, slots=True)
class Level:
    """Members that get `load` partitions each, `extra` of them one more, and the topic classes they serve.

    `cohorts` and `topic_classes` are numbers, ascending; every class is served by the level alone. `shares`
    is one way to do it, by cohort and topic class, in which each cohort gets between `load` and `load + 1` a
    member.
    """

    load: int
    extra: int
    cohorts: Sequence[int]
    topic_classes: Sequence[int]
    shares: Mapping[int, Mapping[int, int]]


def find_levels(classes: Classes) -> list[Level]:
    """The levels of the group, in no particular order.

    Cost: one or two maximum flows on cohorts and topic classes for every level.
    """
    sizes = [len(cohort) for cohort in classes.cohorts]
    distribution = _start(classes, sizes)
    levels: list[Level] = []
    parts = [(list(range(len(sizes))), list(range(len(classes.topic_classes))))] if sizes else []
    while parts:
        cohorts, topic_classes = parts.pop()
        total = sum(classes.topic_classes[number].partitions for number in topic_classes)
        load, extra = divmod(total, sum(sizes[cohort] for cohort in cohorts))
        low = {cohort: load * sizes[cohort] for cohort in cohorts}
        high = {cohort: least + sizes[cohort] for cohort, least in low.items()} if extra else low
        above = distribution.even_out(cohorts, low, high)
        if above is None:
            shares = {cohort: distribution.held[cohort] for cohort in cohorts}
            levels.append(Level(load, extra, cohorts, topic_classes, shares))
        else:
            high_cohorts, high_classes = above
            parts.extend(
                (
                    [cohort for cohort in cohorts if (cohort in high_cohorts) == high],
                    [number for number in topic_classes if (number in high_classes) == high],
                )
                for high in (True, False)
            )
    return levels


def _start(classes: Classes, sizes: Sequence[int]) -> Distribution:
    """What the members owned, the rest poured over them."""
    takers = {number: topic_class.cohorts for number, topic_class in enumerate(classes.topic_classes)}
    distribution = Distribution(sizes, [0] * len(sizes), takers)
    left = {number: topic_class.partitions for number, topic_class in enumerate(classes.topic_classes)}
    cohort_of = {m: cohort for cohort, members in enumerate(classes.cohorts) for m in members}
    for part in classes.partition_classes:
        number = part.topic_class
        if len(takers[number]) > 1:
            for m, count in part.owned_counts.items():
                distribution.give(number, cohort_of[m], count)
                left[number] -= count
    distribution.pour(left)
    return distribution
