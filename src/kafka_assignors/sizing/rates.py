"""What partitions cost, from two looks at the offsets of a running group.

A partition's rate is the growth of its end offset by the seconds between the looks. To it comes, if a time to
drain is given, what the group has to consume besides so that the lag is gone in that time: the lag at the
second look by the time. Costs are thousandths of a record a second, rounded up, so that a slow partition does
not count as none.

A rate is unknown where an end offset is missing in one of the looks, or went back: then the topic was made
anew between them. (Offsets of transactions and compacted topics have holes, so that there may be fewer
records than offsets.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from kafka_assignors.group import MOST_WEIGHT, TopicPartitions
from kafka_assignors.live_group import Offsets

PER_RECORD = 1000
"""How many units of cost a record a second is."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at a group has seen: when, on a clock that does not jump, and the offsets."""

    at_s: float
    ends: Offsets
    committed: Offsets


@dataclass(frozen=True, slots=True)
class Rates:
    """What partitions cost, in thousandths of a record a second.

    Attributes:
        seconds: the time between the two looks.
        costs: by topic, the cost of each partition from 0 on; None where it is unknown.
        consumed: by topic and partition, what the group has committed in the same unit, where it is
            known.
        lag: the records between committed offsets and ends, at the second look.
        without_commit: partitions of which the group has committed nothing, so that their lag is unknown.
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
