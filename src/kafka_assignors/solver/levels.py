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

Passing on is a maximum flow (Dinic's algorithm). It works on cohorts, whose members are always kept even, and
starts from a greedy distribution that levels out class after class and usually leaves little to pass on.

Source: N. Harvey, R. Ladner, L. Lovász, T. Tamir, "Semi-matchings for bipartite graphs and load balancing",
Journal of Algorithms 59 (2006), which shows that an assignment has the least sum of squares exactly if no
such chain leads from a member to one with at least two partitions less. Splitting at the average is the
decomposition algorithm for separable convex objectives of S. Fujishige, "Lexicographically optimal base of a
polymatroid with respect to a weight vector", Mathematics of Operations Research 5 (1980).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kafka_assignors.solver.classes import Classes, TopicClass

__all__ = ["Level", "find_levels"]


@dataclass(frozen=True, slots=True)
class Level:
    """Members that get `load` partitions each, `extra` of them one more, and the topic classes they serve.

    `cohorts` and `topic_classes` are numbers, ascending; every class is served by the level alone. `shares`
    is one way to do it, by topic class and cohort, in which each cohort gets between `load` and `load + 1` a
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
    distribution = _Distribution(sizes, classes.topic_classes)
    distribution.deal_greedily()
    levels: list[Level] = []
    parts = [(list(range(len(sizes))), list(range(len(classes.topic_classes))))] if sizes else []
    while parts:
        cohorts, topic_classes = parts.pop()
        total = sum(classes.topic_classes[number].partitions for number in topic_classes)
        load, extra = divmod(total, sum(sizes[cohort] for cohort in cohorts))
        above = distribution.even_out(cohorts, load, extra)
        if above is None:
            shares = {number: distribution.shares[number] for number in topic_classes}
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


class _Distribution:
    """How many partitions of each topic class every cohort has: the state that the levels are found in.

    Invariants: the shares of a class add up to its partitions and belong to its subscribers; `loads` are
    their sums.
    """

    def __init__(self, sizes: Sequence[int], topic_classes: Sequence[TopicClass]) -> None:
        self.sizes = sizes
        self.topic_classes = topic_classes
        self.loads = [0] * len(sizes)
        self.shares: list[dict[int, int]] = [{} for _ in topic_classes]
        self.classes_of: list[list[int]] = [[] for _ in sizes]
        for number, topic_class in enumerate(topic_classes):
            for cohort in topic_class.cohorts:
                self.classes_of[cohort].append(number)

    def deal_greedily(self) -> None:
        """Pour each class over its subscribers where they stand lowest, beginning with the least choice."""
        order = sorted(range(len(self.shares)), key=lambda number: len(self.topic_classes[number].cohorts))
        for number in order:
            self._pour(number)

    def _pour(self, number: int) -> None:
        sizes, loads, shares = self.sizes, self.loads, self.shares[number]
        lowest_first = sorted(self.topic_classes[number].cohorts, key=lambda c: loads[c] / sizes[c])
        left = total = self.topic_classes[number].partitions
        members = 0
        filled: list[int] = []
        for cohort in lowest_first:
            if members and total * sizes[cohort] <= loads[cohort] * members:
                break  # it stands as high as the others will in the end
            total += loads[cohort]
            members += sizes[cohort]
            filled.append(cohort)
        level = total // members
        for ceiling in (level, level + 1):
            for cohort in filled:
                poured = min(left, ceiling * sizes[cohort] - loads[cohort])
                if poured > 0:
                    shares[cohort] = shares.get(cohort, 0) + poured
                    loads[cohort] += poured
                    left -= poured

    def even_out(
        self, cohorts: Sequence[int], load: int, extra: int
    ) -> tuple[dict[int, int], dict[int, int]] | None:
        """Try to give each of these cohorts `load` partitions a member, and one more to `extra` members.

        None if that worked; else the cohorts and classes that stay above, as keys.
        """
        if extra:
            above = self._pass_on(cohorts, load + 1)
            if above is not None:
                return above
        above = self._pass_on(cohorts, load)
        if above is not None and any(self.loads[c] < load * self.sizes[c] for c in cohorts):
            return above
        return None

    def _pass_on(self, cohorts: Sequence[int], ceiling: int) -> tuple[dict[int, int], dict[int, int]] | None:
        """Move as many partitions as possible from cohorts above `ceiling` a member to cohorts below it.

        None if nobody stays above; else the cohorts and classes that those above reach, as keys.
        """
        limit = {cohort: ceiling * self.sizes[cohort] for cohort in cohorts}
        while True:
            above = [cohort for cohort in cohorts if self.loads[cohort] > limit[cohort]]
            if not above:
                return None
            depths, class_depths, reached = self._layers(above, limit)
            if not reached:
                return depths, class_depths
            self._block(above, limit, depths, class_depths)

    def _layers(
        self, above: Iterable[int], limit: Mapping[int, int]
    ) -> tuple[dict[int, int], dict[int, int], bool]:
        """Breadth-first layers from the cohorts above; whether a cohort with room was reached."""
        loads, shares, classes_of = self.loads, self.shares, self.classes_of
        depths = dict.fromkeys(above, 0)
        class_depths: dict[int, int] = {}
        layer = list(depths)
        depth = 0
        reached = False
        while layer and not reached:
            depth += 1
            following: list[int] = []
            for cohort in layer:
                for number in classes_of[cohort]:
                    if number not in class_depths and shares[number].get(cohort):
                        class_depths[number] = depth - 1
                        for other in self.topic_classes[number].cohorts:
                            if other not in depths and other in limit:
                                depths[other] = depth
                                following.append(other)
                                reached = reached or loads[other] < limit[other]
            layer = following
        return depths, class_depths, reached

    def _block(
        self,
        above: Iterable[int],
        limit: Mapping[int, int],
        depths: dict[int, int],
        class_depths: Mapping[int, int],
    ) -> None:
        """Pass partitions on from layer to layer until every such chain is blocked."""
        loads = self.loads
        next_class = dict.fromkeys(depths, 0)  # where to go on searching, for each cohort and each class
        next_cohort = dict.fromkeys(class_depths, 0)
        for start in above:
            chain: list[tuple[int, int]] = []  # (cohort, the class through which the chain leaves it)
            cohort = start
            while loads[start] > limit[start]:
                if chain and loads[cohort] < limit[cohort]:
                    amount = min(loads[start] - limit[start], limit[cohort] - loads[cohort])
                    amount = min([amount, *(self.shares[number][giver] for giver, number in chain)])
                    for giver, number in reversed(chain):
                        self._move(number, giver, cohort, amount)
                        cohort = giver
                    chain = []
                    continue
                step = self._step(cohort, depths, class_depths, next_class, next_cohort)
                if step is not None:
                    chain.append((cohort, step[0]))
                    cohort = step[1]
                elif chain:
                    del depths[cohort]  # a dead end
                    cohort, _ = chain.pop()
                else:
                    break

    def _step(
        self,
        cohort: int,
        depths: Mapping[int, int],
        class_depths: Mapping[int, int],
        next_class: dict[int, int],
        next_cohort: dict[int, int],
    ) -> tuple[int, int] | None:
        """A class of which the cohort has partitions, and a cohort of the next layer that can take them."""
        depth = depths[cohort]
        classes = self.classes_of[cohort]
        while next_class[cohort] < len(classes):
            number = classes[next_class[cohort]]
            if class_depths.get(number) == depth and self.shares[number].get(cohort):
                takers = self.topic_classes[number].cohorts
                while next_cohort[number] < len(takers):
                    taker = takers[next_cohort[number]]
                    if depths.get(taker) == depth + 1:
                        return number, taker
                    next_cohort[number] += 1
            next_class[cohort] += 1
        return None

    def _move(self, number: int, giver: int, taker: int, amount: int) -> None:
        shares = self.shares[number]
        shares[giver] -= amount
        shares[taker] = shares.get(taker, 0) + amount
        self.loads[giver] -= amount
        self.loads[taker] += amount
