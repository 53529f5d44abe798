"""What a partition costs: from end offsets, committed offsets and times to weights. No clock, no I/O.

The weight of a partition is the work that it brings, in microseconds a second, rounded:

    (base + rate + lag / drain_s) * seconds a record * 1,000,000

- **rate**: the records that producers append in a second, averaged with weights that halve every
  `half_life_s`. Between two looks the rate counts as constant, so that looks may be at any times: what is `t`
  seconds old counts 0.5 ** (t / half_life_s), and several looks or one over the same time give the same.
- **lag**: the records from the committed offset to the end, to be consumed within `drain_s` beside what comes
  in. A group that has committed nothing yet on a partition has no lag there.
- **seconds a record**: what the application reports by `took`, averaged over the last 100,000 records of each
  topic. A topic without a report counts as the average of those with one. If there is no report at all, a
  record counts as a millisecond, so a weight is in thousandths of a record a second.

Rules for what is not known:

- **Unknown**: a partition has no weight if the brokers give no end offset, or if it was seen once while
  others have a rate. If no partition has a rate yet, at the first look, all are weighed by their lag.
- **Stuck**: if a partition lags and its committed offset has not moved for `drain_s`, its lag does not count.
  It grows for ever, and says how long nothing has been consumed, not how much work there is.
- **Made again**: if an end offset goes back, all that was known of the partition is forgotten.
- **Too close**: of two looks less than a second apart the second changes no rate. If the clock goes back, the
  next interval begins with that look.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_assignors.arguments import require_integer, require_number
from kafka_assignors.group import MOST_WEIGHT
from kafka_assignors.weights import GivenWeights, Offsets, OffsetWeights

_MICROSECONDS = 1_000_000
_USUAL_RECORD_S = 0.001
_LEAST_S = 1.0
_MOST = 1e9
"""The greatest number that an argument may be, so that no sum overflows."""

_MOST_RECORDS = 100_000
_MOST_TOPICS = 10_000
"""The topics with a time a record: as many as come last are kept, for an application names them."""


@dataclass(slots=True)
class _Seen:
    """A partition as it was seen last. `rate` is the average rate, None before the second look.

    The next interval begins at `at_s`, when the end was `end_then`. `trust` is the sum of the weights in the
    average: below 1, as the past before the first look is missing.
    `still_since_s` is when the committed offset was seen to move last, or the partition not to lag.
    """

    at_s: float
    end_then: int
    end: int
    committed: int
    still_since_s: float
    rate: float | None = None
    trust: float = 0.0


@dataclass(slots=True)
class _Times:
    records: float = 0.0
    seconds: float = 0.0


class PartitionCosts:
    """The costs of a group's partitions, from one look at the offsets to the next; safe in several threads.

    State is bounded by the partitions of the group, and by 10,000 topics.
    """

    def __init__(self, *, half_life_s: float = 120.0, drain_s: float = 600.0, base: float = 1.0) -> None:
        """Raises TypeError or ValueError, which names the argument.

        `half_life_s` and `drain_s` are above 0, and all at most 1e9. `base` is what a partition costs
        besides, in records a second: it keeps a group with little to do from being moved about because of a
        few records.
        """
        require_number("half_life_s", half_life_s, most=_MOST, above_zero=True)
        require_number("drain_s", drain_s, most=_MOST, above_zero=True)
        require_number("base", base, most=_MOST)
        self._half_life_s, self._drain_s, self._base = half_life_s, drain_s, base
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._times: dict[str, _Times] = {}
        self._lock = threading.Lock()

    def took(self, topic: str, *, records: int, seconds: float) -> None:
        """The application has processed so many records of a topic in so many seconds of work.

        A leader knows what its own process reports, so times are by topic. Raises TypeError or ValueError.
        """
        if not isinstance(topic, str):
            raise TypeError(f"topic must be a str, not {topic!r}")
        require_integer("records", records, least=0)
        require_number("seconds", seconds, most=_MOST)
        if not records:
            return
        seconds, counted = seconds / max(1.0, records / _MOST_RECORDS), min(records, _MOST_RECORDS)
        with self._lock:
            times = self._times.pop(topic, None) or _Times()
            kept = min(1.0, (_MOST_RECORDS - counted) / times.records) if times.records else 1.0
            times.records = times.records * kept + counted
            times.seconds = times.seconds * kept + seconds
            self._times[topic] = times
            if len(self._times) > _MOST_TOPICS:
                del self._times[next(iter(self._times))]

    def weigh(
        self, now_s: float, topics: Mapping[str, int], committed: Offsets, end: Offsets
    ) -> dict[str, list[int | None]]:
        """The weights after a look at the offsets: of each topic one for each partition, None if unknown.

        `topics` are the numbers of partitions; all that is known of other ones is forgotten. `now_s` is a
        monotonic clock.
        """
        with self._lock:
            self._look(now_s, topics, committed, end)
            rated = any(seen.rate is not None for seen in self._seen.values())
            usual_s = self._usual_record_s()
            weights: dict[str, list[int | None]] = {}
            for name, partitions in topics.items():
                times = self._times.get(name)
                record_s = usual_s if times is None else times.seconds / times.records
                weights[name] = [
                    self._weight(now_s, self._seen[name, partition], record_s, rated)
                    if end.get((name, partition), -1) >= 0
                    else None
                    for partition in range(partitions)
                ]
            return weights

    def rates(self) -> dict[tuple[str, int], float]:
        """The average records a second of each partition that has been seen twice."""
        with self._lock:
            return {key: seen.rate for key, seen in self._seen.items() if seen.rate is not None}

    def _look(self, now_s: float, topics: Mapping[str, int], committed: Offsets, end: Offsets) -> None:
        for key in [key for key in self._seen if key[1] >= topics.get(key[0], 0)]:
            del self._seen[key]
        for name, partitions in topics.items():
            for key in ((name, partition) for partition in range(partitions)):
                if (last := end.get(key, -1)) >= 0:
                    self._see(key, now_s, last, committed.get(key, -1))

    def _see(self, key: tuple[str, int], now_s: float, end: int, committed: int) -> None:
        seen = self._seen.get(key)
        if seen is None or end < seen.end:
            self._seen[key] = _Seen(now_s, end, end, committed, now_s)
            return
        if not now_s >= seen.at_s:
            seen.at_s, seen.end_then, seen.still_since_s = now_s, end, now_s
        if committed != seen.committed or committed >= end:
            seen.committed, seen.still_since_s = committed, now_s
        seen.end = end
        passed_s = now_s - seen.at_s
        if passed_s < _LEAST_S:
            return
        new = -math.expm1(-math.log(2) * passed_s / self._half_life_s)
        old = seen.trust * (1 - new)
        trust = old + new
        rate = (end - seen.end_then) / passed_s
        seen.rate = ((seen.rate or 0.0) * old + rate * new) / trust
        seen.at_s, seen.end_then, seen.trust = now_s, end, trust

    def _weight(self, now_s: float, seen: _Seen, record_s: float, rated: bool) -> int | None:
        rate = seen.rate
        if rate is None:
            if rated:
                return None
            rate = 0.0
        records_a_second = self._base + rate
        if 0 <= seen.committed < seen.end and now_s - seen.still_since_s < self._drain_s:
            records_a_second += (seen.end - seen.committed) / self._drain_s
        work = min(records_a_second * record_s * _MICROSECONDS, float(MOST_WEIGHT))
        return min(round(work), MOST_WEIGHT)

    def _usual_record_s(self) -> float:
        records = sum(each.records for each in self._times.values())
        return sum(each.seconds for each in self._times.values()) / records if records else _USUAL_RECORD_S


class RateSource(OffsetWeights):
    """The work that each partition brings, in microseconds a second: its rate, and its lag within a time.

    A rate is the records that come in a second, averaged with a half-life of `half_life_s`; lag counts as
    what must be consumed to be rid of it in `drain_s`. `costs.took` tells what a record of a topic takes;
    without it a record counts as a millisecond. `base` is what a partition costs besides, in records a
    second. `settings` are as for `LagSource`. The module has the rules for what is unknown.
    """

    def __init__(
        self,
        group_id: str,
        *,
        half_life_s: float = 120.0,
        drain_s: float = 600.0,
        base: float = 1.0,
        **settings: Any,
    ) -> None:
        """Raises TypeError or ValueError for an argument that is no number in its range."""
        super().__init__(group_id, settings)
        self.costs = PartitionCosts(half_life_s=half_life_s, drain_s=drain_s, base=base)

    def weigh(
        self, now_s: float, topics: Mapping[str, int], committed: Offsets, end: Offsets
    ) -> GivenWeights:
        """The costs after this look and those before."""
        return self.costs.weigh(now_s, topics, committed, end)
