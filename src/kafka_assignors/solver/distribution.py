"""Counts that are poured over cohorts, and passed on until every load lies between two limits.

Both `levels` and `flow` ask: partitions of several classes must go to cohorts that may have them; can every
cohort get a number between two limits? Each class is **poured** over its takers where they stand lowest. Then
partitions are **passed on** from cohorts above a limit to cohorts below, along chains of cohorts that share a
class, until no chain is left: a maximum flow (Dinic's algorithm), which usually has little left to do.

`deal` divides things instead of counts: a heap among receivers who want a given number each. In every round
each receiver that still wants something gets one, in order, like cards. So receivers with equal demands get
the same mixture, to within one, of all kinds that lie on the heap. Rounds between which no receiver drops out
are dealt at once: of things lying in a row, receiver i of n gets every n-th, and a slice does that without
touching a single one of them. Where all things are of one kind there is nothing to mix, and each receiver
gets its part in one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar


class Distribution:
    """How many partitions of each class every cohort has been given.

    `takers` are the cohorts that may have each class, `sizes` the members of each cohort and `loads` what it
    has: what it brought with it, which stays, and what it was given here. `held` is what it was given, by
    cohort and class, without zeros. `capacities` are those of one member of each cohort, all 1 by default:
    the height of a cohort is its load for each unit of capacity.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        loads: Sequence[int],
        takers: Mapping[int, Sequence[int]],
        capacities: Sequence[int] | None = None,
    ) -> None:
        self.sizes = sizes
        self.capacities = capacities
        self.loads = [*loads]
        self.takers = takers
        self.held: list[dict[int, int]] = [{} for _ in sizes]

    def give(self, number: int, amounts: Iterable[tuple[int, int]]) -> None:
        """Give an amount of a class to each cohort; a cohort may come more than once."""
        loads, all_held = self.loads, self.held
        for cohort, amount in amounts:
            held = all_held[cohort]
            held[number] = held.get(number, 0) + amount
            loads[cohort] += amount

    def pour(self, amounts: Mapping[int, int]) -> None:
        """Pour these amounts of each class over its takers, the class with the fewest takers first.

        The lowest takers get it, so that their heights then differ by at most two a member.
        """
        weights = self.sizes
        if self.capacities is not None:
            weights = [size * capacity for size, capacity in zip(self.sizes, self.capacities, strict=True)]
        heights = [load / weight for load, weight in zip(self.loads, weights, strict=True)]
        for number in sorted(amounts, key=lambda number: len(self.takers[number])):
            if amounts[number]:
                self._pour(number, amounts[number], weights, heights)

    def _pour(self, number: int, amount: int, weights: Sequence[int], heights: list[float]) -> None:
        sizes, loads, capacities, held = self.sizes, self.loads, self.capacities, self.held
        lowest_first = sorted(self.takers[number], key=heights.__getitem__)
        total = amount
        capacity = filled = 0
        for cohort in lowest_first:
            weight = weights[cohort]
            if total * weight < (loads[cohort] + sizes[cohort]) * capacity:
                break  # The others hardly come up to its height.
            total += loads[cohort]
            capacity += weight
            filled += 1
        del lowest_first[filled:]
        level = total // capacity
        for more in (0, 1):
            ceiling = level + more
            for cohort in lowest_first:
                if capacities is not None:
                    ceiling = total * capacities[cohort] // capacity + more
                poured = min(amount, ceiling * sizes[cohort] - loads[cohort])
                if poured > 0:
                    # The same as `give`, without a call for each.
                    given = held[cohort]
                    given[number] = given.get(number, 0) + poured
                    loads[cohort] += poured
                    heights[cohort] = loads[cohort] / weights[cohort]
                    amount -= poured
                    if not amount:
                        return

    def even_out(
        self, cohorts: Sequence[int], low: Mapping[int, int], high: Mapping[int, int]
    ) -> tuple[dict[int, int], dict[int, int]] | None:
        """Try to bring the load of each of these cohorts to between `low` and `high`.

        Their loads must add up to at least the sum of `low`. None if it worked; else the cohorts and the
        classes that stay above, as keys: none of the other cohorts can take any of their partitions.
        """
        loads = self.loads
        above = self._pass_on(cohorts, high)
        if above is None and any(loads[cohort] < low[cohort] for cohort in cohorts):
            above = self._pass_on(cohorts, low)
            if not any(loads[cohort] < low[cohort] for cohort in cohorts):
                return None
        return above

    def _pass_on(
        self, cohorts: Sequence[int], limit: Mapping[int, int]
    ) -> tuple[dict[int, int], dict[int, int]] | None:
        """Move as many partitions as possible from cohorts above their limit to cohorts below it.

        None if no cohort stays above; else the cohorts and classes that those above reach, as keys.
        """
        loads = self.loads
        first = True
        while True:
            above = [cohort for cohort in cohorts if loads[cohort] > limit[cohort]]
            if not above:
                return None
            below = [cohort for cohort in cohorts if loads[cohort] < limit[cohort]]
            if not first and len(below) < len(above):
                depths, class_depths = self._layers_to(below, limit)
                reached = any(cohort in depths for cohort in above)
            else:
                depths, class_depths, reached = self._layers(above, limit)
            if reached:
                self._block(above, limit, depths, class_depths)
                first = False
            elif first or len(below) >= len(above):
                return depths, class_depths
            else:
                return self._layers(above, limit)[:2]

    def _layers(
        self, above: Iterable[int], limit: Mapping[int, int]
    ) -> tuple[dict[int, int], dict[int, int], bool]:
        """Breadth-first layers from the cohorts above; whether a cohort with room was reached."""
        loads, held, takers = self.loads, self.held, self.takers
        depths = dict.fromkeys(above, 0)
        class_depths: dict[int, int] = {}
        layer = list(depths)
        depth = 0
        reached = False
        while layer and not reached:
            depth += 1
            following: list[int] = []
            for cohort in layer:
                for number in held[cohort]:
                    if number not in class_depths:
                        class_depths[number] = depth - 1
                        for other in takers[number]:
                            if other not in depths and other in limit:
                                depths[other] = depth
                                following.append(other)
                                reached = reached or loads[other] < limit[other]
            layer = following
        return depths, class_depths, reached

    def _layers_to(
        self, below: Iterable[int], limit: Mapping[int, int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Breadth-first layers from the cohorts below, against the chains: -1, -2, … steps before them.

        So cohorts at all distances can pass on at the same time, without a search for each distance.
        """
        held = self.held
        holders: dict[int, list[int]] = {}
        for cohort in limit:
            for number in held[cohort]:
                holders.setdefault(number, []).append(cohort)
        choices: dict[int, list[int]] = {}
        for number in holders:
            for cohort in self.takers[number]:
                choices.setdefault(cohort, []).append(number)
        depths = dict.fromkeys(below, 0)
        class_depths: dict[int, int] = {}
        layer = list(depths)
        depth = 0
        while layer:
            depth -= 1
            following: list[int] = []
            for cohort in layer:
                for number in choices.get(cohort, ()):
                    if number not in class_depths:
                        class_depths[number] = depth
                        for other in holders[number]:
                            if other not in depths:
                                depths[other] = depth
                                following.append(other)
            layer = following
        return depths, class_depths

    def _block(
        self,
        above: Iterable[int],
        limit: Mapping[int, int],
        depths: dict[int, int],
        class_depths: Mapping[int, int],
    ) -> None:
        """Pass partitions on from layer to layer until every such chain is blocked.

        A chain that has passed something on is followed again from where it is broken: the part before that
        has not changed.
        """
        loads, all_held = self.loads, self.held
        classes: dict[int, list[int]] = {}  # by cohort: the classes still to try, from the end
        next_cohort = dict.fromkeys(class_depths, 0)  # where to go on searching, for each class
        for start in above:
            if start not in depths:
                continue
            chain: list[tuple[int, int]] = []  # (cohort, the class through which the chain leaves it)
            cohort = start
            while loads[start] > limit[start]:
                if chain and loads[cohort] < limit[cohort]:
                    amount = min(loads[start] - limit[start], limit[cohort] - loads[cohort])
                    amount = min([amount, *(all_held[giver][number] for giver, number in chain)])
                    loads[start] -= amount
                    loads[cohort] += amount
                    broken_at = len(chain)
                    taker = cohort
                    for place in reversed(range(len(chain))):
                        giver, number = chain[place]
                        held, taken = all_held[giver], all_held[taker]
                        taken[number] = taken.get(number, 0) + amount
                        held[number] -= amount
                        if not held[number]:
                            del held[number]
                            broken_at, cohort = place, giver
                        taker = giver
                    del chain[broken_at:]
                    continue
                if cohort not in classes:
                    depth = depths[cohort]
                    classes[cohort] = [n for n in all_held[cohort] if class_depths.get(n) == depth]
                step = self._step(cohort, classes[cohort], depths, next_cohort)
                if step is not None:
                    chain.append((cohort, step[0]))
                    cohort = step[1]
                elif chain:
                    del depths[cohort]  # a dead end
                    cohort, _ = chain.pop()
                else:
                    break

    def _step(
        self, cohort: int, classes: list[int], depths: Mapping[int, int], next_cohort: dict[int, int]
    ) -> tuple[int, int] | None:
        """A class of which the cohort has partitions, and a cohort of the next layer that can take them."""
        held = self.held[cohort]
        following = depths[cohort] + 1
        while classes:
            number = classes[-1]
            if number in held:
                takers = self.takers[number]
                for index in range(next_cohort[number], len(takers)):
                    if depths.get(takers[index]) == following:
                        next_cohort[number] = index
                        return number, takers[index]
                next_cohort[number] = len(takers)
            classes.pop()
        return None


Kind = TypeVar("Kind")


def deal(
    heap: Iterable[tuple[Kind, Sequence[int]]], demands: Sequence[tuple[int, int]]
) -> Iterator[tuple[Kind, Iterable[tuple[int, Sequence[int]]]]]:
    """Deal the heap, kind by kind, to receivers with demands (receiver, number of things).

    Yields a kind with what each receiver gets of it, in the order of the heap; a kind may come more than
    once. The heap must hold as many things as are wanted. Cost: linear in the slices.
    """
    pieces = list(heap)
    wanting = [(receiver, wanted) for receiver, wanted in demands if wanted]
    if len(pieces) == 1:
        kind, things = pieces[0]
        yield kind, _in_one_piece(things, wanting)
    else:
        yield from _in_rounds(pieces, wanting)


def _in_one_piece(
    things: Sequence[int], wanting: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, Sequence[int]]]:
    begin = 0
    for receiver, wanted in wanting:
        end = begin + wanted
        yield receiver, things[begin:end]
        begin = end


def _in_rounds(
    heap: Iterable[tuple[Kind, Sequence[int]]], wanting: list[tuple[int, int]]
) -> Iterator[tuple[Kind, Iterable[tuple[int, Sequence[int]]]]]:
    pieces = iter(heap)
    rest: tuple[Kind, Sequence[int]] | None = None
    dealt_rounds = 0
    while wanting:
        ring = [receiver for receiver, _ in wanting]
        rounds = min(wanted for _, wanted in wanting) - dealt_rounds
        left = rounds * len(ring)
        turn = 0  # whose turn it is
        while left:
            kind, things = rest or next(pieces)
            rest = None
            if len(things) > left:
                rest = kind, things[left:]
                things = things[:left]
            left -= len(things)
            yield kind, zip(ring[turn:] + ring[:turn], _strides(things, len(ring)), strict=False)
            turn = (turn + len(things)) % len(ring)
        dealt_rounds += rounds
        wanting = [(receiver, wanted) for receiver, wanted in wanting if wanted > dealt_rounds]


def _strides(things: Sequence[int], stride: int) -> Iterable[Sequence[int]]:
    """Every `stride`-th of the things, from the first, from the second …; no empty ones."""
    if len(things) <= stride:
        return zip(things, strict=True)  # tuples of one
    return (things[offset::stride] for offset in range(stride))
