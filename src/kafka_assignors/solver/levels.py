"""Step 2: how many partitions each member gets in a balanced assignment.

The loads with the least sum of squares fall into **levels**. Within a level every member gets k or k + 1
partitions; a topic class that any member of a level subscribes to is served by that level or by a lower one.
Levels, their k, and how many members get one more are the same in every optimal assignment.

They are found by divide and conquer. Let a part of the group have n members and P partitions, and k, r =
divmod(P, n). Partitions are passed on from members above k + 1 to members below, along chains of members that
share a class, until no chain is left. If a member is still above k + 1, then what it can reach by such chains
must stay apart from the rest: the part is split in two. The same with members still below k. If neither
happens, the part is a level. The search works on cohorts, whose members are kept even; the result does not
depend on its start.

Where members differ in capacity, or have partitions already, the x-th partition of a member costs (2(x +
already) - 1) / capacity, which rises with x. The highest cost among the P cheapest steps replaces k: each
member gets the steps that cost less, and some whose next step costs exactly as much get that too
(`apportion`). In the upper part no next step costs less, in the lower part no last step costs more, and one
of the two has no step of equal cost: a partition given from below to above is a loss.

Sources: N. Harvey et al., "Semi-matchings for bipartite graphs and load balancing", Journal of Algorithms 59
(2006); S. Fujishige, "Lexicographically optimal base of a polymatroid", Mathematics of Operations Research 5
(1980); A. Sainte-Laguë, "La représentation proportionnelle", Annales scientifiques de l'ENS 27 (1910).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heapify, heappop, heappush

from kafka_assignors.solver.classes import Classes
from kafka_assignors.solver.distribution import Distribution


@dataclass(slots=True)
class Level:
    """The loads of members, `extra` of which get one more, and the topic classes that they serve.

    `loads` is what each member of a cohort gets, by cohort. The members that may get one more are those of
    the `optional` cohorts, of which there are more than `extra`. `cohorts` and `topic_classes` are numbers,
    ascending; every class is served by the level alone. `shares` is one way to do it, by cohort and topic
    class, in which no member of a cohort gets less than its load or, in an optional one, more than one more.
    """

    loads: Mapping[int, int]
    optional: Collection[int]
    extra: int
    cohorts: Sequence[int]
    topic_classes: Sequence[int]
    shares: Mapping[int, Mapping[int, int]]


def find_levels(classes: Classes) -> list[Level]:
    """The levels of the group, in no particular order.

    Cost: one or two maximum flows on cohorts and topic classes for every level.
    """
    sizes = [len(cohort) for cohort in classes.cohorts]
    if len(sizes) == 1:  # Most groups are one cohort, which subscribes to one topic class.
        total = classes.topic_classes[0].partitions
        return [Level(*apportion(classes, [0], total), [0], [0], {0: {0: total}})]
    distribution = _start(classes, sizes)
    levels: list[Level] = []
    parts = [(list(range(len(sizes))), list(range(len(classes.topic_classes))))] if sizes else []
    while parts:
        cohorts, topic_classes = parts.pop()
        total = sum(classes.topic_classes[number].partitions for number in topic_classes)
        loads, optional, extra = apportion(classes, cohorts, total)
        low = {cohort: (load + classes.already[cohort]) * sizes[cohort] for cohort, load in loads.items()}
        high = low
        if extra:
            high = {cohort: least + sizes[cohort] * (cohort in optional) for cohort, least in low.items()}
        above = distribution.even_out(cohorts, low, high)
        if above is None:
            shares = {cohort: distribution.held[cohort] for cohort in cohorts}
            levels.append(Level(loads, optional, extra, cohorts, topic_classes, shares))
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


def apportion(
    classes: Classes, cohorts: Sequence[int], total: int
) -> tuple[dict[int, int], frozenset[int], int]:
    """The cheapest steps for `total` partitions, if every member could have any of them.

    Returns what each member of a cohort gets, by cohort; the cohorts whose members' next step is the cheapest
    of the remaining ones; and how many of these members get it, which is not all of them. Cost: linear in
    cohorts if they are alike; else n log n in their members.
    """
    sizes = {cohort: len(classes.cohorts[cohort]) for cohort in cohorts}
    capacities, already = classes.capacities, classes.already
    if len({(capacities[cohort], already[cohort]) for cohort in cohorts}) == 1:
        load, extra = divmod(total, sum(sizes.values()))
        return dict.fromkeys(cohorts, load), frozenset(cohorts), extra
    loads = _surely(classes, sizes, total)
    left = total - sum(load * sizes[cohort] for cohort, load in loads.items())
    steps = [(_cost(classes, cohort, load + 1), cohort) for cohort, load in loads.items()]
    heapify(steps)
    while True:
        cost, _ = steps[0]
        cheapest: list[int] = []
        while steps and steps[0][0] == cost:
            cheapest.append(heappop(steps)[1])
        members = sum(map(sizes.__getitem__, cheapest))
        if left < members:
            return loads, frozenset(cheapest), left
        left -= members
        for cohort in cheapest:
            loads[cohort] += 1
            heappush(steps, (_cost(classes, cohort, loads[cohort] + 1), cohort))


def _surely(classes: Classes, sizes: Mapping[int, int], total: int) -> dict[int, int]:
    """By cohort, steps of each member that are surely among the cheapest; less than one a member is missing.

    With fractional loads, there is a cost at which the steps of all members add up to the total, like the
    level of water in connected vessels: their widths are the capacities, and their bottoms the cost of a step
    before the first. Rounded down, the steps are those that cost no more than that.
    """
    capacities, already = classes.capacities, classes.already
    bottoms = {cohort: _cost(classes, cohort, 0) for cohort in sizes}
    water, width = 2 * total, 0  # the cost is water / width
    for cohort in sorted(sizes, key=bottoms.__getitem__):
        if bottoms[cohort] * width > water:
            break
        water += sizes[cohort] * (2 * already[cohort] - 1)
        width += sizes[cohort] * capacities[cohort]
    return {
        cohort: max(0, (water * capacities[cohort] - width * (2 * already[cohort] - 1)) // (2 * width))
        for cohort in sizes
    }


def _cost(classes: Classes, cohort: int, nth: int) -> Fraction:
    """What a member's n-th partition adds to the sum."""
    return Fraction(2 * (nth + classes.already[cohort]) - 1, classes.capacities[cohort])


def _start(classes: Classes, sizes: Sequence[int]) -> Distribution:
    """The distribution of what the members owned, with the rest poured over them."""
    takers = {number: topic_class.cohorts for number, topic_class in enumerate(classes.topic_classes)}
    brought = [load * size for load, size in zip(classes.already, sizes, strict=True)]
    alike = all(capacity == 1 for capacity in classes.capacities)
    distribution = Distribution(sizes, brought, takers, None if alike else classes.capacities)
    left = {number: topic_class.partitions for number, topic_class in enumerate(classes.topic_classes)}
    cohort_of = {m: cohort for cohort, members in enumerate(classes.cohorts) for m in members}
    for part in classes.partition_classes:
        number = part.topic_class
        if len(takers[number]) > 1:
            owned = part.owned_counts
            cohorts = map(cohort_of.__getitem__, owned)
            distribution.give(number, zip(cohorts, owned.values(), strict=True))
            left[number] -= sum(owned.values())
    distribution.pour(left)
    return distribution
