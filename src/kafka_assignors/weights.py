"""The weights of partitions: reading the source's result, and replacing what is invalid.

A source of weights is a function of the user, a file, or the brokers. It may be late, fail, or return
nonsense, and none of that may hold up the group. The adapters ask it, with a timeout; this module interprets
the result:

- an entry that is no weight (not a whole number from 0 to 2^63 - 1) counts as unknown, and so does a topic
  with too few or too many; the leader's log says so, once for each topic;
- without any answer the last one that this member got counts, however old: weights change slowly beside
  being absent. Without a last one either all weights are unknown, and a strategy counts partitions.

`WeightsFile` reads its file when it is called. There is no other I/O here, and nothing that knows a client.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import Any, TypeAlias

from kafka_assignors.arguments import require_integer, require_number
from kafka_assignors.group import MOST_WEIGHT, Topic

FORMAT = 1
"""The version of the form of a file of weights. Another one is refused."""

GivenWeights: TypeAlias = Mapping[str, Sequence[int | None]]
"""By topic a weight for each partition, from 0 on; None where it is unknown."""

Offsets: TypeAlias = Mapping[tuple[str, int], int]
"""An offset by topic and partition. One below 0 counts as unknown."""


def require_source(source: object, timeout_s: object) -> None:
    """TypeError or ValueError for what cannot be asked for weights, or not within such a time."""
    if source is not None and (not callable(source) or isinstance(source, type)):
        raise TypeError(
            "weights must be a function (topics: partition counts by name) -> weights by name, "
            f"not {source!r}"
        )
    require_number("weights_timeout_s", timeout_s, above_zero=True)


def patience_s(timeout_s: float, session_timeout_s: float) -> float:
    """How long the group waits for weights: `timeout_s`, but at most a third of the session."""
    return min(timeout_s, session_timeout_s / 3)


def weigh(topics: Iterable[Topic], given: object) -> tuple[list[Topic], list[str]]:
    """The topics with the weights that a source gave, and what was wrong with these."""
    if not isinstance(given, Mapping):
        return list(topics), [f"the source of weights gave {type(given).__name__}, not a mapping of topics"]
    weighed: list[Topic] = []
    findings: list[str] = []
    for topic in topics:
        weights: tuple[int | None, ...] | None = None
        if given.get(topic.name) is not None:
            weights, finding = _weights_of(topic, given[topic.name])
            if finding is not None:
                findings.append(finding)
        weighed.append(replace(topic, weights=weights))
    return weighed, findings


def _weights_of(topic: Topic, listed: Any) -> tuple[tuple[int | None, ...] | None, str | None]:
    if isinstance(listed, str | bytes | Mapping) or not hasattr(listed, "__len__"):
        what = type(listed).__name__
        return None, f"the weights of topic {topic.name!r} are a {what}, not a sequence: they are unknown"
    if len(listed) != topic.partitions:
        return None, (
            f"there are {len(listed)} weights for the {topic.partitions} partitions of topic "
            f"{topic.name!r}: they are unknown"
        )
    entries = list(listed)
    weights = tuple(map(_weight, entries))
    bad = [
        place
        for place, (entry, weight) in enumerate(zip(entries, weights, strict=True))
        if weight is None and entry is not None
    ]
    if not bad:
        return weights, None
    return weights, (
        f"{len(bad)} weights of topic {topic.name!r} are no whole numbers from 0 to 2^63 - 1, the first "
        f"being {_short(entries[bad[0]])} of partition {bad[0]}: they are unknown"
    )


def _weight(entry: Any) -> int | None:
    """The entry as an int if it is a weight; any integer type counts, NumPy's included."""
    try:
        weight = None if isinstance(entry, bool) else index(entry)
    except TypeError:
        return None
    return weight if weight is not None and 0 <= weight <= MOST_WEIGHT else None


def _short(entry: object, width: int = 40) -> str:
    if type(entry) is int and entry.bit_length() > 128:  # Its digits may be more than Python will print.
        return f"an integer of {entry.bit_length()} bits"
    text = repr(entry)
    return text if len(text) <= width else text[: width - 1] + "…"


def lag_weights(
    topics: Mapping[str, int],
    committed: Offsets,
    end: Offsets,
    base: int,
) -> dict[str, list[int | None]]:
    """The lag of each partition: the records after the committed offset, plus `base`.

    Unknown where nothing is committed, or the end is not known. (Offsets of a compacted topic and of
    transactions have holes, so that there may be fewer records than the lag says.)
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
        self, now_s: float, topics: Mapping[str, int], committed: Offsets, end: Offsets
    ) -> GivenWeights:
        """The weights after a look at the offsets; `now_s` is a monotonic clock."""
        raise NotImplementedError


class LagSource(OffsetWeights):
    """The lag of a group as weights: of each partition the records between the committed offset and the end.

    `base` is what a partition weighs besides, in records: it keeps a group that keeps up from being moved
    about because of a handful of records. `settings` are those by which the consumer finds its brokers, under
    the names of the client: bootstrap_servers, security_protocol, sasl_mechanism and so on.
    """

    def __init__(self, group_id: str, *, base: int = 1000, **settings: Any) -> None:
        """Raises TypeError or ValueError for a base that is no number of records."""
        require_integer("base", base, least=0, most=MOST_WEIGHT // 2)  # Lag needs room above it.
        super().__init__(group_id, settings)
        self._base = base

    def weigh(
        self, now_s: float, topics: Mapping[str, int], committed: Offsets, end: Offsets
    ) -> GivenWeights:
        """The lag, at any time."""
        return lag_weights(topics, committed, end, self._base)


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
        raise ValueError(f"{where}: this version reads format {FORMAT}, not {_short(form['format'])}")
    for name, weights in form["topics"].items():
        if not isinstance(weights, list):
            raise ValueError(f"{where}: the weights of topic {name!r} are no array")
    topics: dict[str, list[int | None]] = form["topics"]
    return topics
