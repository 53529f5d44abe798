"""Sources of weights: what a leader asks for weights (`kafka_assignors.weights` reads the reply).

`WeightsFile` reads its file when it is called. There is no other I/O here, no clock, and nothing that knows a
client: `for_aiokafka` and `for_kafka_python` look up the offsets for `LagSource` and `RateSource`.

`PartitionCosts`, and with it `RateSource`, weighs a partition by its work, in microseconds a second:

    (base + rate + lag / drain_s) * seconds a record * 1,000,000

`docs/weighted.md` has the parts. A rate of `t` seconds ago counts 0.5 ** (t / half_life_s), so one look gives
the same as several over the same time. A look less than a second after another changes no rate, and if the
clock goes back, the next interval begins with that look. The lag of a stuck partition does not count: it
grows for ever, and says how long nothing has been consumed, not how much work there is.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from kafka_assignors.arguments import require_integer, require_number
from kafka_assignors.group import MOST_WEIGHT
from kafka_assignors.weights import GivenWeights

FORMAT = 1
"""The version of the form of a file of weights. Another one is refused."""

PartitionOffsets: TypeAlias = Mapping[tuple[str, int], int]
"""An offset by topic and partition. One below 0 counts as unknown."""


def lag_weights(
    topics: Mapping[str, int],
    committed: PartitionOffsets,
    end: PartitionOffsets,
    base: int,
) -> dict[str, list[int | None]]:
    """The lag of each partition: the records after the committed offset, plus `base`.

    It is unknown if nothing is committed, or if the end is not known. (Offsets of compacted topics and of
    transactions have holes, so there may be fewer records than the lag says.)
    """
    return {
        name: [
            base + max(0, end[name, partition] - committed[name, partition])
            if (name, partition) in end and committed.get((name, partition), -1) >= 0
            else None
            for partition in range(partitions)
        ]
        for name, partitions in topics.items()
    }


class OffsetWeights:
    """Weights from the offsets of a group, which the classes of an adapter look up when they are called."""

    def __init__(self, group_id: str, settings: Mapping[str, Any]) -> None:
        self.group_id = group_id
        self.settings = settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.group_id!r})"  # The settings may hold a password.

    def weigh(
        self, now_s: float, topics: Mapping[str, int], committed: PartitionOffsets, end: PartitionOffsets
    ) -> GivenWeights:
        """The weights after a look at the offsets; `now_s` is a monotonic clock."""
        raise NotImplementedError


class LagSource(OffsetWeights):
    """The lag of a group as weights: of each partition the records between the committed offset and the end.

    `base` is a weight that every partition has in addition, in records: so a handful of records moves nothing
    in a group that keeps up. `settings` are those by which the consumer finds its brokers, under the names of
    the client: bootstrap_servers, security_protocol, sasl_mechanism and so on.
    """

    def __init__(self, group_id: str, *, base: int = 1000, **settings: Any) -> None:
        """Raises TypeError or ValueError for a base that is no number of records."""
        require_integer("base", base, least=0, most=MOST_WEIGHT // 2)  # Lag needs room above it.
        super().__init__(group_id, settings)
        self._base = base

    def weigh(
        self, now_s: float, topics: Mapping[str, int], committed: PartitionOffsets, end: PartitionOffsets
    ) -> GivenWeights:
        """The lag, which does not depend on `now_s`."""
        return lag_weights(topics, committed, end, self._base)


_MICROSECONDS = 1_000_000
_USUAL_RECORD_S = 0.001
_LEAST_S = 1.0
_MOST = 1e9
"""The greatest number that an argument may be, so that no sum overflows."""

_MOST_RECORDS = 100_000
_MOST_TOPICS = 10_000
"""The most topics with a time a record. The latest are kept, since the application chooses the names."""


@dataclass(slots=True)
class _Seen:
    """A partition as it was seen last. `rate` is the average rate, None before the second look.

    The next interval begins at `at_s`, when the end was `end_then`. `trust` is the sum of the weights in the
    average: below 1, as the past before the first look is missing. `still_since_s` is when the committed
    offset last moved, or the partition last had no lag.
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

        `half_life_s` and `drain_s` are above 0, and all at most 1e9. `base` is a cost that every partition
        has in addition, in records a second: a few records move nothing in a group with little to do.
        """
        require_number("half_life_s", half_life_s, most=_MOST, above_zero=True)
        require_number("drain_s", drain_s, most=_MOST, above_zero=True)
        require_number("base", base, most=_MOST)
        self._half_life_s, self._drain_s, self._base = half_life_s, drain_s, base
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._times: dict[str, _Times] = {}
        self._lock = threading.Lock()

    def took(self, topic: str, *, records: int, seconds: float) -> None:
        """The application has processed `records` of a topic in `seconds` of work.

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
        self, now_s: float, topics: Mapping[str, int], committed: PartitionOffsets, end: PartitionOffsets
    ) -> dict[str, list[int | None]]:
        """The weights after a look at the offsets: of each topic one for each partition, None if unknown.

        `topics` are the numbers of partitions; other topics are forgotten. `now_s` is the time of a monotonic
        clock.
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

    def _look(
        self, now_s: float, topics: Mapping[str, int], committed: PartitionOffsets, end: PartitionOffsets
    ) -> None:
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

    A rate is the records that come in a second, averaged with a half-life of `half_life_s`; lag counts as the
    records a second that remove it in `drain_s`. `costs.took` reports the time that a record of a topic
    takes; without it a record counts as a millisecond. `base` is a cost that every partition has in addition,
    in records a second. `settings` are as for `LagSource`.
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
        self, now_s: float, topics: Mapping[str, int], committed: PartitionOffsets, end: PartitionOffsets
    ) -> GivenWeights:
        """The costs after this look and those before."""
        return self.costs.weigh(now_s, topics, committed, end)


class WeightsFile:
    """Weights from a file of JSON, which is read again in each rebalance:

        {"format": 1, "topics": {"orders": [1200, null, 0]}}

    A weight for each partition from 0 on; null where it is unknown.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._path)!r})"

    def __call__(self, topics: Mapping[str, int]) -> GivenWeights:
        """Raises OSError or ValueError if the file cannot be read."""
        return parse_weights(self._path.read_bytes(), str(self._path))


def parse_weights(text: str | bytes, where: str) -> dict[str, list[int | None]]:
    """The weights that a file gives: `{"format": 1, "topics": {"orders": [1200, null, 0]}}`.

    `format` may be absent. Raises ValueError, which names `where`, for anything else; single weights are
    judged by `weigh`.
    """
    try:
        form = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: this is no JSON: {error}") from None
    if not isinstance(form, dict) or not isinstance(form.get("topics"), dict):
        raise ValueError(f'{where}: expected {{"topics": {{"<topic>": [<weight of partition 0>, …]}}}}')
    if form.get("format", FORMAT) != FORMAT:
        raise ValueError(f"{where}: this version reads format {FORMAT}, not {form['format']!r:.40}")
    for name, weights in form["topics"].items():
        if not isinstance(weights, list):
            raise ValueError(f"{where}: the weights of topic {name!r} are no array")
    topics: dict[str, list[int | None]] = form["topics"]
    return topics
