"""How many partitions of each topic each release gets: shares, rounded in two directions at once.

The shares of a topic's releases come to fractions of partitions. Each of them is rounded up or down so that
every topic is given out completely, and so that the sum of a release over all topics is its fraction of
everything, rounded up or down as well. That this is always possible follows from the integrality of flows:
M. Bacharach, "Matrix rounding problems", Management Science 12 (1966). Rounding each topic alone would not
do: a tenth of each of a hundred topics with four partitions is nothing.

It is done by exchanges. First every topic rounds for itself, so that as few partitions as possible change
hands: up where a release owns more than its fraction rounded down. Then releases that got too much in all
pass on to those that got too little, one topic at a time, along chains of releases and always by the cheapest
chain: successive shortest paths, as in the solver, on a network whose nodes are releases alone. So of all
roundings with these totals it is one that moves the fewest partitions between releases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["WHOLE", "TopicShares", "round_shares", "scaled"]

WHOLE = 10_000
"""What the shares of a topic add up to."""


@dataclass(frozen=True, slots=True)
class TopicShares:
    """A topic that several releases share, by their numbers.

    `shares`, none of which is negative, add up to `WHOLE`. `owned` is how many of its partitions the members
    of each release own.
    """

    partitions: int
    shares: Mapping[int, int]
    owned: Mapping[int, int]


def scaled(shares: Mapping[int, int]) -> dict[int, int]:
    """The same proportions with the sum `WHOLE`; one of the shares at least is not 0.

    What is left by rounding down goes to the greatest remainders, of equal ones to the lower number.
    """
    total = sum(shares.values())
    down = {number: share * WHOLE // total for number, share in shares.items()}
    by_remainder = sorted(shares, key=lambda number: (-(shares[number] * WHOLE % total), number))
    for number in by_remainder[: WHOLE - sum(down.values())]:
        down[number] += 1
    return down


def round_shares(topics: Sequence[TopicShares]) -> list[dict[int, int]]:
    """How many partitions of each topic go to each release.

    Each number is its fraction rounded up or down, and so is the sum of each release. Of the latter, those
    are rounded up that would get nothing else, then those with the greatest remainders; where subscriptions
    do not allow that, others. Cost: linear in the fractions, and for each topic that is exchanged at most the
    third power of the number of releases.
    """
    rounding = _Rounding(topics)
    rounding.pass_on(rounding.is_above_ceiling, rounding.has_room_up)
    rounding.pass_on(rounding.has_room_down, rounding.is_below_floor)
    rounding.pass_on(rounding.is_above_target, rounding.is_below_target)
    return rounding.given


class _Rounding:
    """How everything is rounded so far.

    `given` are the numbers, topic by topic, and `totals` their sums. `chains[a][b][cost]` are the topics in
    which release `a` is rounded up and `b` is not, so that `a` can pass one on, as keys.
    """

    def __init__(self, topics: Sequence[TopicShares]) -> None:
        releases = sorted({number for topic in topics for number in topic.shares})
        self._topics = topics
        exact = dict.fromkeys(releases, 0)
        for topic in topics:
            for number, share in topic.shares.items():
                exact[number] += topic.partitions * share
        self._floors = {number: parts // WHOLE for number, parts in exact.items()}
        self._ceilings = {number: -(-parts // WHOLE) for number, parts in exact.items()}
        self._targets = self._rounded_totals(exact)
        self.given: list[dict[int, int]] = []
        self._up: list[set[int]] = []
        self._undecided: list[list[int]] = []
        self.totals = dict.fromkeys(releases, 0)
        self._chains: dict[int, dict[int, dict[int, dict[int, None]]]] = {
            a: {b: {-1: {}, 0: {}, 1: {}} for b in releases if b != a} for a in releases
        }
        for topic in topics:
            self._round_alone(topic)

    def _rounded_totals(self, exact: Mapping[int, int]) -> dict[int, int]:
        """The sums as they should be: rounded so that they add up to all partitions."""
        targets = dict(self._floors)
        left = (sum(exact.values()) - sum(WHOLE * floor for floor in targets.values())) // WHOLE
        broken = [number for number, parts in exact.items() if parts % WHOLE]
        broken.sort(key=lambda number: (targets[number] > 0, -(exact[number] % WHOLE), number))
        for number in broken[:left]:
            targets[number] += 1
        return targets

    def _round_alone(self, topic: TopicShares) -> None:
        down = {number: topic.partitions * share // WHOLE for number, share in topic.shares.items()}
        undecided = [number for number, share in topic.shares.items() if topic.partitions * share % WHOLE]
        undecided.sort(
            key=lambda number: (
                topic.owned.get(number, 0) <= down[number],
                -(topic.partitions * topic.shares[number] % WHOLE),
                number,
            )
        )
        up = set(undecided[: topic.partitions - sum(down.values())])
        row = len(self.given)
        self.given.append({number: least + (number in up) for number, least in down.items()})
        self._up.append(up)
        self._undecided.append(undecided)
        for number, count in self.given[row].items():
            self.totals[number] += count
        for number in up:
            self._enter(row, number)

    def is_above_ceiling(self, number: int) -> bool:
        return self.totals[number] > self._ceilings[number]

    def has_room_up(self, number: int) -> bool:
        return self.totals[number] < self._ceilings[number]

    def has_room_down(self, number: int) -> bool:
        return self.totals[number] > self._floors[number]

    def is_below_floor(self, number: int) -> bool:
        return self.totals[number] < self._floors[number]

    def is_above_target(self, number: int) -> bool:
        return self.totals[number] > self._targets[number]

    def is_below_target(self, number: int) -> bool:
        return self.totals[number] < self._targets[number]

    def pass_on(self, gives: Callable[[int], bool], takes: Callable[[int], bool]) -> None:
        """Pass partitions on from releases that should give to those that should take, while any can."""
        while (chain := self._cheapest_chain(gives, takes)) is not None:
            for giver, taker in chain:
                topics = next(topics for topics in self._by_cost(giver, taker) if topics)
                self._exchange(next(iter(topics)), giver, taker)

    def _cheapest_chain(
        self, gives: Callable[[int], bool], takes: Callable[[int], bool]
    ) -> list[tuple[int, int]] | None:
        """Steps (giver, taker) from one that gives to one that takes: the cheapest, then the shortest."""
        best: dict[int, tuple[int, int]] = {number: (0, 0) for number in self.totals if gives(number)}
        came_from: dict[int, int] = {}
        changed = bool(best)
        while changed:  # Bellman and Ford; costs may be negative, but not along a cycle
            changed = False
            for giver in sorted(best):
                for taker in self._chains[giver]:
                    cost = next((c for c in (-1, 0, 1) if self._chains[giver][taker][c]), None)
                    if cost is None:
                        continue
                    reached = best[giver][0] + cost, best[giver][1] + 1
                    if taker not in best or reached < best[taker]:
                        best[taker] = reached
                        came_from[taker] = giver
                        changed = True
        ends = [(best[number], number) for number in best if takes(number)]
        if not ends:
            return None
        chain: list[tuple[int, int]] = []
        taker = min(ends)[1]
        while taker in came_from:
            chain.append((came_from[taker], taker))
            taker = came_from[taker]
        return chain[::-1]

    def _by_cost(self, giver: int, taker: int) -> list[dict[int, None]]:
        return [self._chains[giver][taker][cost] for cost in (-1, 0, 1)]

    def _exchange(self, row: int, giver: int, taker: int) -> None:
        for number in self._up[row]:
            self._leave(row, number)
        self._up[row] = (self._up[row] - {giver}) | {taker}
        for number, change in ((giver, -1), (taker, 1)):
            self.given[row][number] += change
            self.totals[number] += change
        for number in sorted(self._up[row]):
            self._enter(row, number)

    def _enter(self, row: int, giver: int) -> None:
        for taker in self._undecided[row]:
            if taker not in self._up[row]:
                self._chains[giver][taker][self._cost(row, giver, taker)][row] = None

    def _leave(self, row: int, giver: int) -> None:
        for taker in self._undecided[row]:
            if taker not in self._up[row]:
                del self._chains[giver][taker][self._cost(row, giver, taker)][row]

    def _cost(self, row: int, giver: int, taker: int) -> int:
        """How many partitions more change hands if the one is rounded down and the other up."""
        topic = self._topics[row]
        loses, gains = (
            topic.owned.get(number, 0) > topic.partitions * topic.shares[number] // WHOLE
            for number in (giver, taker)
        )
        return loses - gains
