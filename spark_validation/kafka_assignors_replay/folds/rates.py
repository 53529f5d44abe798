"""How fast a group consumes each partition: the offset commits that an archive keeps, and rates from them.

An archive *thins* the commits: of each partition of a group it keeps the last commit in each interval. An
interval is a span of the records' own timestamps: with 60 seconds, a minute of UTC. The last commit of an
interval is the one at the greatest offset of the offsets topic, so the result does not depend on where one
reading ends and the next begins. A reading that ends in the middle of an interval keeps a commit of it; a
later reading keeps a later commit, and `RecentRates` takes that one. A commit whose bytes do not follow their
schema is counted, and hides no other.

The rate of a partition at a moment is that between the first and the last commit in the window before it: the
records between the two committed offsets, divided by the time between the two commits. The window ends at the
start of the interval in which the moment lies: the kept commit of that interval, and of no earlier one,
depends on what the archive has read so far. A rate is a whole number of **milli-records a second** (1500 are
one and a half records a second), rounded down, so that it is a weight (`Topic.weights`). It is unknown

- with fewer than two commits in the window, or less than half an interval between the first and the last;
- where an offset goes back from one commit to the next: the group was reset, or reads something again;
- for a partition whose commits were deleted, until there are two again.

The offsets of a compacted topic and of transactions have holes, so that a rate may be above that of the
records.

Pure Python without Spark. Commits come one at a time, in the order of the offsets topic.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from kafka_assignors.group import MOST_WEIGHT, Topic
from kafka_assignors.wire import ProtocolError
from kafka_assignors_replay.folds.consumer_offsets import OffsetCommitKey, decode_key, decode_offset_commit
from kafka_assignors_replay.folds.records import to_micros

WINDOW_S = 600
"""The window of a rate, in seconds: the ten minutes before a rebalance."""

_INTERVALS_IN_WINDOW = 3
"""The fewest intervals of the series in a window."""

_POINTS = 8
"""The spans of a window; the last commit of each span is remembered."""

_MOST_PARTITIONS = 100_000
"""The most partitions of a group whose commits are remembered, at about 1 KiB each."""

_MICROS = 1_000_000
_MILLI_A_SECOND = 1_000 * _MICROS
"""Milli-records a second in one record a microsecond."""

Point = tuple[int, int]
"""The time of a commit in microseconds since 1970, and the committed offset."""


def window_of(interval_s: int) -> int:
    """The window in seconds, for a series with this interval."""
    return max(WINDOW_S, _INTERVALS_IN_WINDOW * interval_s)


def rate_of(points: Sequence[Point], interval_s: int) -> int | None:
    """The rate over all these points in milli-records a second; None where it is unknown."""
    if len(points) < 2 or any(after[1] < before[1] for before, after in pairwise(points)):
        return None
    span = points[-1][0] - points[0][0]
    if 2 * span < interval_s * _MICROS:
        return None
    return min((points[-1][1] - points[0][1]) * _MILLI_A_SECOND // span, MOST_WEIGHT)


@dataclass(slots=True)
class RecentRates:
    """The commits of one group in the latest window: `add` each in order, then ask for the rates.

    `points` are by topic and partition, at most `2 * _POINTS + 2` of each; partitions beyond
    `_MOST_PARTITIONS` have no rate. `interval_s` is the longest interval of the series.
    """

    points: dict[str, dict[int, list[Point]]] = field(default_factory=dict)
    partitions: int = 0
    interval_s: int = 1

    def add(
        self, topic: str, partition: int | None, micros: int, committed: int | None, interval_s: int | None
    ) -> None:
        """Add a commit; `committed` is None where it was deleted. A commit without a valid partition is
        ignored."""
        if partition is None or partition < 0:
            return
        self.interval_s = max(self.interval_s, interval_s or 1)
        of_topic = self.points.setdefault(topic, {})
        if committed is None or committed < 0:
            self.partitions -= of_topic.pop(partition, None) is not None
            return
        points = of_topic.get(partition)
        if points is None:
            if self.partitions >= _MOST_PARTITIONS:
                return
            self.partitions += 1
            points = of_topic[partition] = []
        self._add(points, micros, committed)

    def _add(self, points: list[Point], micros: int, committed: int) -> None:
        interval, window = self.interval_s * _MICROS, window_of(self.interval_s) * _MICROS
        if points and micros < points[-1][0]:
            points.clear()  # a clock was set back, so the time between commits is unknown
        if points and points[-1][0] // interval == micros // interval:
            points[-1] = (micros, committed)
            return
        span = interval * max(1, window // interval // _POINTS)
        if len(points) > 1 and points[-2][0] // span == points[-1][0] // span:
            del points[-2]
        points.append((micros, committed))
        begin = micros - micros % interval - window
        while points[0][0] < begin:
            del points[0]

    def rate(self, topic: str, partition: int, when: datetime) -> int | None:
        """The rate of a partition in the window before `when`, in milli-records a second."""
        micros = to_micros(when)
        end = micros - micros % (self.interval_s * _MICROS)
        begin = end - window_of(self.interval_s) * _MICROS
        points = self.points.get(topic, {}).get(partition, ())
        return rate_of([point for point in points if begin <= point[0] < end], self.interval_s)

    def weigh(self, topics: Iterable[Topic], when: datetime) -> tuple[Topic, ...]:
        """The topics with the rates of their partitions as weights, where a rate is known."""
        return tuple(self._weighed(topic, when) if topic.name in self.points else topic for topic in topics)

    def _weighed(self, topic: Topic, when: datetime) -> Topic:
        rates = tuple(self.rate(topic.name, partition, when) for partition in range(topic.partitions))
        return topic if all(rate is None for rate in rates) else replace(topic, weights=rates)


class RateHistory:
    """The rates of one partition from each commit to the next, over any time: `add` the commits in order.

    A pair of commits counts for the time between them, unless the offset goes back, the commits of the
    partition were deleted in between, or less than half an interval lies between them. A pair needs 16 bytes.
    """

    def __init__(self) -> None:
        self._pairs: list[array[int]] = [array("q"), array("q")]  # rates, and microseconds
        self._longest_s = 1
        self._closed: Point | None = None
        self._open: Point | None = None

    def add(self, micros: int, committed: int | None, interval_s: int) -> None:
        """Add a commit; `committed` is None where it was deleted."""
        self._longest_s = max(self._longest_s, interval_s)
        if committed is None or committed < 0:
            self._open = self._closed = None
            return
        interval = max(1, interval_s) * _MICROS
        if self._open is not None and self._open[0] // interval != micros // interval:
            self._close(interval_s)
        self._open = (micros, committed)

    def rate_at(self, percentile: float) -> int | None:
        """The rate that the partition did not exceed in `percentile` per cent of the known time, in
        milli-records a second: 100 for the greatest. None if no time is known."""
        if self._open is not None:
            self._close(self._longest_s)
            self._open = None
        pairs: list[tuple[int, int]] = sorted(zip(*self._pairs, strict=True))
        wanted = sum(span for _, span in pairs) * percentile / 100
        passed = 0
        for rate, span in pairs:
            passed += span
            if passed >= wanted:
                return rate
        return None

    def _close(self, interval_s: int) -> None:
        """Close the open commit, which is the last of its interval."""
        assert self._open is not None
        if self._closed is not None and (rate := rate_of((self._closed, self._open), interval_s)) is not None:
            self._pairs[0].append(rate)
            self._pairs[1].append(self._open[0] - self._closed[0])
        self._closed = self._open


_MOST_BYTES = 32 << 20
"""The most memory of the commits in hand; with more, the thinner hands them over early."""

_COMMIT_BYTES = 500
"""The memory of a commit in hand, without its key."""

_MOST_KEYS = 100_000
"""The most decoded keys that are remembered."""


class KeptCommit(NamedTuple):
    """A kept commit: the offset and time of its record, the group and partition, and the `committed` offset,
    which is None where the commit was deleted (a tombstone)."""

    offset: int
    micros: int
    group: str
    topic: str
    topic_partition: int
    committed: int | None


class CommitThinner:
    """Thins the commits of one partition of the offsets topic: `add` each in the order of offsets, and `take`
    the kept commits when it is `full`, and at the end.

    `kept` counts the taken commits, `undecodable` those whose bytes do not follow their schema. The memory is
    bounded by `_MOST_BYTES` and one record.
    """

    def __init__(self, interval_s: int) -> None:
        self._interval = interval_s * _MICROS
        self._keys: dict[bytes, OffsetCommitKey | None] = {}
        self._last: dict[tuple[OffsetCommitKey, int], KeptCommit] = {}
        self._bytes = 0
        self.kept = 0
        self.undecodable = 0

    @property
    def full(self) -> bool:
        return self._bytes >= _MOST_BYTES

    def add(self, offset: int, micros: int, key: bytes, value: bytes | None) -> None:
        """Add a commit from the bytes of its record, which may be invalid."""
        whose, committed = self._key(key), None
        if whose is not None and value is not None:
            committed = _committed(value)
        if whose is None or (committed is None and value is not None):
            self.undecodable += 1
            return
        place = whose, micros // self._interval
        if place not in self._last:
            self._bytes += len(key) + _COMMIT_BYTES
        self._last[place] = KeptCommit(offset, micros, whose.group, whose.topic, whose.partition, committed)

    def take(self) -> list[KeptCommit]:
        """The commits in hand, in the order of offsets."""
        taken = sorted(self._last.values())
        self._last, self._bytes = {}, 0
        self.kept += len(taken)
        return taken

    def _key(self, key: bytes) -> OffsetCommitKey | None:
        """The group and partition of a commit, equal for both versions of a key; None for an invalid key."""
        if key not in self._keys:
            if len(self._keys) >= _MOST_KEYS:
                self._keys.clear()
            self._keys[key] = _whose(key)
        return self._keys[key]


def _whose(key: bytes) -> OffsetCommitKey | None:
    try:
        decoded = decode_key(key)
    except ProtocolError:
        return None
    if not isinstance(decoded, OffsetCommitKey) or decoded.partition < 0:
        return None
    return OffsetCommitKey(decoded.group, decoded.topic, decoded.partition)


def _committed(value: bytes) -> int | None:
    """The committed offset; None for bytes that are not a commit, and for an offset below 0."""
    try:
        committed = decode_offset_commit(value).offset
    except ProtocolError:
        return None
    return committed if committed >= 0 else None
