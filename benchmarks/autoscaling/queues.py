"""The lateness of records, if each partition is written at a known speed and has a known consumer.

The model is a fluid: records arrive evenly within an interval, and a consumer has a limited capacity per
second. It serves its partitions at the same time; each gets at most its demand, and the remaining capacity is
shared evenly (processor sharing, max-min fair). A real consumer polls all its partitions in turn, so that
none waits for another's backlog. Within a partition the oldest records come first. A paused partition is not
served; its backlog grows until the next owner serves it.

The lateness of a record is the time from its arrival until it is processed. The time for fetching and
processing one record is not counted: a partition that keeps up has a lateness of 0. The results are exact,
without time steps: between two events (the end of a pause, of a backlog or of an interval) all rates are
constant, so lateness is linear in the amount processed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Lateness", "Queues"]

_NOTHING = 1e-9
"""A smaller amount, or a shorter time in seconds, is a rounding error."""


@dataclass(slots=True)
class Lateness:
    """The lateness of everything that was processed.

    Attributes:
        prompt: the amount that was processed as it arrived.
        late: the rest in pieces of (least lateness, greatest lateness, amount); each is spread evenly.
    """

    prompt: float = 0.0
    late: list[tuple[float, float, float]] = field(default_factory=list)

    def add(self, first_s: float, last_s: float, amount: float) -> None:
        self.late.append((min(first_s, last_s), max(first_s, last_s), amount))

    @property
    def amount(self) -> float:
        return self.prompt + sum(amount for _, _, amount in self.late)

    def percentile_s(self, percent: float) -> float:
        """The lateness in seconds that `percent` of the processed amount do not exceed."""
        wanted = self.amount * percent / 100 - self.prompt
        if wanted <= 0:
            return 0.0
        low, high, pieces, below = 0.0, max(last for _, last, _ in self.late), self.late, 0.0
        for _ in range(60):
            if high - low < 1e-6:
                break
            middle = (low + high) / 2
            up_to = below + sum(_amount_up_to(piece, middle) for piece in pieces)
            if up_to < wanted:
                low = middle
                below += sum(amount for _, last, amount in pieces if last <= middle)
                pieces = [piece for piece in pieces if piece[1] > middle]
            else:
                high = middle
                pieces = [piece for piece in pieces if piece[0] < middle]
        return high


def _amount_up_to(piece: tuple[float, float, float], lateness_s: float) -> float:
    first, last, amount = piece
    if lateness_s >= last:
        return amount
    if lateness_s <= first:
        return 0.0
    return amount * (lateness_s - first) / (last - first)


class Queues:
    """The backlog of each partition. `capacity` is the throughput of a consumer per second."""

    def __init__(self, partitions: int, capacity: float) -> None:
        self._capacity = capacity
        self._arrived: list[deque[list[float]]] = [deque() for _ in range(partitions)]
        """The backlog of each partition, oldest first: [arrival of the first record, speed, amount]."""
        self._waiting = [0.0] * partitions
        self._now_s = 0.0
        self.lateness = Lateness()

    @property
    def waiting(self) -> float:
        return sum(self._waiting)

    def run(
        self, seconds: float, speeds: Sequence[float], owners: Sequence[int], paused_s: Mapping[int, float]
    ) -> None:
        """Run for this time. `paused_s`: by partition, for how long it is not served at the beginning."""
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            held.setdefault(owner, []).append(partition)
        for partitions in held.values():
            self._serve(partitions, seconds, speeds, paused_s)
        self._now_s += seconds

    def drain(self, owners: Sequence[int]) -> None:
        """Run without arrivals until the backlog is empty."""
        while self.waiting:
            seconds = self.waiting / self._capacity + 1.0
            self.run(seconds, [0.0] * len(owners), owners, {})

    def _serve(
        self,
        partitions: Sequence[int],
        seconds: float,
        speeds: Sequence[float],
        paused_s: Mapping[int, float],
    ) -> None:
        """Serve the partitions of one consumer, event by event."""
        resumes = {partition: paused_s[partition] for partition in partitions if paused_s.get(partition)}
        arriving = sum(speeds[partition] for partition in partitions)
        if not resumes and arriving <= self._capacity and not any(self._waiting[each] for each in partitions):
            self.lateness.prompt += arriving * seconds
            return
        passed = 0.0
        while seconds - passed > _NOTHING:
            active = [partition for partition in partitions if resumes.get(partition, 0.0) <= passed]
            rates = self._rates(active, speeds)
            step = min([seconds, *(at for at in resumes.values() if at > passed)]) - passed
            for partition, rate in rates.items():
                shrinking = rate - speeds[partition]
                if self._waiting[partition] and shrinking > _NOTHING:
                    step = min(step, self._waiting[partition] / shrinking)
            for partition in partitions:
                rate = rates.get(partition, 0.0)
                self._pass(partition, self._now_s + passed, step, speeds[partition], rate)
            passed += step

    def _rates(self, active: Collection[int], speeds: Sequence[float]) -> dict[int, float]:
        """The rate of each partition. Its demand is its speed, or unlimited if it has a backlog."""
        left, sharers = self._capacity, len(active)
        rates: dict[int, float] = {}
        for partition in sorted(active, key=lambda each: (self._wanted(each, speeds), each)):
            rates[partition] = min(self._wanted(partition, speeds), left / sharers)
            left -= rates[partition]
            sharers -= 1
        return rates

    def _wanted(self, partition: int, speeds: Sequence[float]) -> float:
        return float("inf") if self._waiting[partition] else speeds[partition]

    def _pass(self, partition: int, begin_s: float, seconds: float, speed: float, rate: float) -> None:
        """Let records of one partition arrive and be served for a time at constant speed and rate."""
        if not self._waiting[partition] and rate >= speed - _NOTHING:
            self.lateness.prompt += speed * seconds
            return
        if speed:
            self._arrived[partition].append([begin_s, speed, speed * seconds])
        for first_s, last_s, amount in self._processed(partition, begin_s, rate, rate * seconds):
            self.lateness.add(first_s, last_s, amount)
        self._waiting[partition] += (speed - rate) * seconds
        if self._waiting[partition] <= _NOTHING:
            self._waiting[partition] = 0.0
            self._arrived[partition].clear()

    def _processed(
        self, partition: int, begin_s: float, rate: float, amount: float
    ) -> Iterator[tuple[float, float, float]]:
        """The pieces of the amount that is processed from `begin_s` on, oldest first."""
        arrived = self._arrived[partition]
        while amount > _NOTHING and arrived:
            oldest = arrived[0]
            arrived_s, speed, there = oldest
            taken = min(amount, there)
            yield begin_s - arrived_s, begin_s + taken / rate - arrived_s - taken / speed, taken
            begin_s += taken / rate
            amount -= taken
            if there - taken <= _NOTHING:
                arrived.popleft()
            else:
                oldest[0] += taken / speed
                oldest[2] -= taken
