"""What a group needs while it runs: the costs of its partitions, and a number of members that does not flap.

**Costs**, from two looks at the offsets. A partition's rate is the growth of its end offset, divided by the
seconds between the looks. If a time to drain is given, the rate at which the group removes the lag in that
time is added: the lag at the second look, divided by the time. Costs are thousandths of a record a second,
rounded up, so that a slow partition does not count as none.

A rate is unknown if an end offset is missing in one of the looks, or went back because the topic was
recreated between them. (Offsets of transactions and compacted topics have holes, so there may be fewer
records than offsets.)

**Recommendation.** Two sizes go in: with the whole capacity of a consumer (`full`), and with the headroom
left free (`target`). The recommendation

- goes up to `target` when the recommended members cannot carry the load even at full capacity, at once or
  after a hold;
- goes down when `target` has been lower for a time without interruption, to the highest `target` of that
  time;
- else stays.

So rates that go up and down within the headroom change the number once at most: the `target` of the lowest
rate suffices at full capacity for the highest rate. (That holds if the sizes are exact; a heuristic size may
be one above.)

Time counts only between sizes. If the clock goes back, or the next size comes later than `longest_gap_s`, the
time between does not count, and a hold starts anew. Without a size for `stale_after_s` there is no
recommendation. So a clock that goes back, or jumps further than that, can delay a change but not cause one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from kafka_assignors.arguments import require_integer, require_number
from kafka_assignors.group import MOST_WEIGHT, TopicPartitions
from kafka_assignors.live_group import Offsets

PER_RECORD = 1000
"""The cost of one record a second."""


@dataclass(frozen=True, slots=True)
class Look:
    """The offsets of a group at one moment; `at_s` is the time on a clock that does not jump."""

    at_s: float
    ends: Offsets
    committed: Offsets


@dataclass(frozen=True, slots=True)
class Rates:
    """The costs of partitions, in thousandths of a record a second.

    Attributes:
        seconds: the time between the two looks.
        costs: by topic, the cost of each partition from 0 on; None if it is unknown.
        consumed: by topic and partition, the growth of the committed offset in the same unit, where it is
            known.
        lag: the records between committed offsets and ends, at the second look.
        without_commit: how many partitions have no committed offset, so that their lag is unknown.
    """

    seconds: float
    costs: Mapping[str, list[int | None]]
    consumed: Mapping[str, Mapping[int, int]]
    lag: int
    without_commit: int

    def most_consumed(self, owned: Mapping[str, TopicPartitions]) -> int:
        """The most that one of these members (id: its partitions) has consumed; 0 if none has any."""
        return max(
            (
                sum(
                    self.consumed.get(topic, {}).get(partition, 0)
                    for topic, partitions in topics.items()
                    for partition in partitions
                )
                for topics in owned.values()
            ),
            default=0,
        )


def rates_from(first: Look, second: Look, topics: Mapping[str, int], drain_s: float | None = None) -> Rates:
    """The rates of these topics (name: number of partitions) between two looks.

    `ValueError` if the second look is not after the first, or `drain_s` is not above 0.
    """
    seconds = second.at_s - first.at_s
    if not (math.isfinite(seconds) and seconds > 0):
        raise ValueError(f"the second look has to be after the first, not {seconds} seconds")
    if drain_s is not None and not (math.isfinite(drain_s) and drain_s > 0):
        raise ValueError(f"the time to drain the lag has to be above 0 seconds, not {drain_s}")
    lags = {
        name: {
            number: max(0, end - committed)
            for number, end in second.ends.get(name, {}).items()
            if (committed := second.committed.get(name, {}).get(number)) is not None
        }
        for name in topics
    }
    costs: dict[str, list[int | None]] = {}
    consumed: dict[str, dict[int, int]] = {}
    for name, partitions in topics.items():
        growth = _growth(first.ends.get(name, {}), second.ends.get(name, {}))
        costs[name] = [
            None
            if number not in growth
            else _cost(growth[number], seconds, lags[name].get(number, 0), drain_s)
            for number in range(partitions)
        ]
        done = _growth(first.committed.get(name, {}), second.committed.get(name, {}))
        consumed[name] = {number: int(PER_RECORD * records / seconds) for number, records in done.items()}
    without = sum(
        number not in lags[name] for name, partitions in topics.items() for number in range(partitions)
    )
    return Rates(seconds, costs, consumed, sum(sum(each.values()) for each in lags.values()), without)


def _growth(before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int]:
    return {
        number: offset - before[number]
        for number, offset in after.items()
        if number in before and offset >= before[number]
    }


def _cost(records: int, seconds: float, lag: int, drain_s: float | None) -> int:
    rate = Fraction(records) / Fraction(seconds)
    if drain_s is not None:
        rate += Fraction(lag) / Fraction(drain_s)
    return min(MOST_WEIGHT, math.ceil(PER_RECORD * rate))


@dataclass(frozen=True, slots=True)
class Needed:
    """How many members are needed: at full capacity, and with the headroom free."""

    full: int
    target: int


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    """When a recommendation changes. `TypeError` or `ValueError` names a wrong value.

    Attributes:
        hold_up_s: how long the load must be too much before the number goes up; 0 for at once.
        hold_down_s: how long fewer members must have sufficed before it goes down.
        longest_gap_s: a longer time between two sizes does not count.
        stale_after_s: after this long without a size there is no recommendation.
        least, most: the number never leaves this range; None for no upper end.
    """

    hold_up_s: float = 0.0
    hold_down_s: float = 600.0
    longest_gap_s: float = 150.0
    stale_after_s: float = 300.0
    least: int = 1
    most: int | None = None

    def __post_init__(self) -> None:
        for name in ("hold_up_s", "hold_down_s", "longest_gap_s", "stale_after_s"):
            require_number(name, getattr(self, name))
        require_integer("least", self.least, least=0)
        if self.most is not None:
            require_integer("most", self.most, least=0)
        if self.most is not None and self.most < self.least:
            raise ValueError(f"the most members ({self.most}) are fewer than the least ({self.least})")

    def within(self, members: int) -> int:
        return max(self.least, members if self.most is None else min(self.most, members))


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The state between two sizes. The first one is `Recommendation()`.

    Attributes:
        members: how many members are recommended; None before the first size.
        at_s: when the last size came.
        above_s, below_s: for how long the load has been too much, or fewer members have sufficed; None if
            that is not so now.
        highest_target: the highest `target` while fewer members have sufficed.
    """

    members: int | None = None
    at_s: float | None = None
    above_s: float | None = None
    below_s: float | None = None
    highest_target: int = 0

    def age_s(self, now_s: float) -> float | None:
        """How long ago the last size came; None before the first. A clock that went back makes it 0."""
        return None if self.at_s is None else max(0.0, now_s - self.at_s)

    def current(self, now_s: float, policy: ScalingPolicy) -> int | None:
        """The recommended members; None before the first size, and when the last one is too old."""
        age_s = self.age_s(now_s)
        return self.members if age_s is not None and age_s <= policy.stale_after_s else None


def recommend(state: Recommendation, now_s: float, needed: Needed, policy: ScalingPolicy) -> Recommendation:
    """The state after another size."""
    full, target = policy.within(needed.full), policy.within(max(needed.full, needed.target))
    if state.members is None or state.at_s is None:
        return Recommendation(target, now_s)
    passed_s = now_s - state.at_s
    counts = 0 <= passed_s <= policy.longest_gap_s
    if full > state.members:
        above_s = state.above_s + passed_s if counts and state.above_s is not None else 0.0
        if above_s >= policy.hold_up_s:
            return Recommendation(target, now_s)
        return replace(state, at_s=now_s, above_s=above_s, below_s=None, highest_target=0)
    if target < state.members:
        goes_on = counts and state.below_s is not None
        below_s = (state.below_s or 0.0) + passed_s if goes_on else 0.0
        highest = max(state.highest_target, target) if goes_on else target
        if below_s >= policy.hold_down_s:
            return Recommendation(highest, now_s)
        return Recommendation(state.members, now_s, None, below_s, highest)
    return Recommendation(state.members, now_s)
