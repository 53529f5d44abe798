"""Sources of weights: what a leader asks for weights (`kafka_assignors.weights` reads the reply).

`WeightsFile` reads its file when it is called. There is no other I/O here, no clock, and nothing that knows a
client: `for_aiokafka` and `for_kafka_python` look up the offsets for `LagSource` and `RateSource`.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from kafka_assignors.arguments import require_integer, require_number
from kafka_assignors.group import MOST_WEIGHT
from kafka_assignors.weights import GivenWeights

FORMAT = 1
"""The version of the form of a file of weights. Another one is refused."""

PartitionOffsets: TypeAlias = Mapping[tuple[str, int], int]
"""An offset by topic and partition. One below 0 counts as unknown."""


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

    Offsets of compacted topics and of transactions have holes, so there may be fewer records than that.

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
        """The lag, regardless of `now_s`; unknown if nothing is committed, or if the end is not known."""
        return {
            name: [
                self._base + max(0, end[name, partition] - committed[name, partition])
                if (name, partition) in end and committed.get((name, partition), -1) >= 0
                else None
                for partition in range(partitions)
            ]
            for name, partitions in topics.items()
        }


_LEAST_S = 1.0
"""A look sooner than this after another changes no rate."""

_MOST = 1e9
"""The greatest number that an argument may be, so that no sum overflows."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The end of a partition at the look that the next rate begins with, and the average rate up to it.

    `rate` is None before there are two looks. `trust` is the sum of the weights in the average: below 1, as
    the past before the first look is missing.
    """

    at_s: float
    end: int
    rate: float | None = None
    trust: float = 0.0


class RateSource(OffsetWeights):
    """The records that come to each partition of a group, as weights: how many in 1000 seconds.

    The rate is an average in which a second that is `half_life_s` ago counts half. It is unknown for a
    partition that was looked at once, and begins anew when the end of a partition goes back (it was made
    again). `base` is what every partition has in addition, in records a second: so a few records move nothing
    in a group with little to do. `settings` are as for `LagSource`. Safe in several threads.
    """

    def __init__(
        self, group_id: str, *, half_life_s: float = 120.0, base: float = 1.0, **settings: Any
    ) -> None:
        """Raises TypeError or ValueError for an argument that is no number from 0, or above 0, to 1e9."""
        super().__init__(group_id, settings)
        require_number("half_life_s", half_life_s, most=_MOST, above_zero=True)
        require_number("base", base, most=_MOST)
        self._half_life_s, self._base = half_life_s, base
        self._seen: dict[tuple[str, int], _Seen] = {}
        self._lock = threading.Lock()

    def weigh(
        self, now_s: float, topics: Mapping[str, int], committed: PartitionOffsets, end: PartitionOffsets
    ) -> GivenWeights:
        """The rates after this look and those before; the topics that it leaves out are forgotten."""
        keys = [(name, partition) for name, partitions in topics.items() for partition in range(partitions)]
        with self._lock:
            looked = {key: self._look(self._seen.get(key), now_s, end.get(key, -1)) for key in keys}
            self._seen = {key: seen for key, seen in looked.items() if seen is not None}
            return {
                name: [self._weight(self._seen.get((name, partition))) for partition in range(partitions)]
                for name, partitions in topics.items()
            }

    def _look(self, seen: _Seen | None, now_s: float, end: int) -> _Seen | None:
        if end < 0:
            return seen
        if seen is None or end < seen.end:
            return _Seen(now_s, end)
        passed_s = now_s - seen.at_s
        if passed_s < 0:  # The clock went back.
            return replace(seen, at_s=now_s, end=end)
        if passed_s < _LEAST_S:
            return seen
        new = -math.expm1(-math.log(2) * passed_s / self._half_life_s)
        old = seen.trust * (1 - new)
        rate = ((seen.rate or 0.0) * old + (end - seen.end) / passed_s * new) / (old + new)
        return _Seen(now_s, end, rate, old + new)

    def _weight(self, seen: _Seen | None) -> int | None:
        if seen is None or seen.rate is None:
            return None
        return min(round(min(self._base + seen.rate, float(MOST_WEIGHT)) * 1000), MOST_WEIGHT)


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
    """The weights in the text of a file, whose `format` may be absent; single ones are judged by `weigh`.

    Raises ValueError, which names `where`, for anything else.
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
