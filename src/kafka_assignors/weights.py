"""The weights of partitions: how a leader reads what a source gives.

A source of weights is a function of the user, a file, or the brokers. It may be late, fail, or return
nonsense, and none of that may hold up the group. The adapters ask it, with a timeout; `weigh` interprets the
result:

- an entry that is no weight (not a whole number from 0 to 2^63 - 1) counts as unknown, and so does a topic
  with too few or too many; the leader's log says so, once for each topic;
- without an answer the last one that this member got counts, however old: old weights are better than none.
  If it never got one, all weights are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import Any, NamedTuple, TypeAlias

from kafka_assignors.group import MOST_WEIGHT, Topic

GivenWeights: TypeAlias = Mapping[str, Sequence[int | None]]
"""By topic a weight for each partition, from 0 on; None where it is unknown."""


class NoWeightsError(Exception):
    """The source of weights raised, or did not answer in time: the message says why."""


class Weighed(NamedTuple):
    """Topics with the weights that a source gave, and the problems in these weights."""

    topics: list[Topic]
    findings: list[str]


def weigh(topics: Iterable[Topic], given: object) -> Weighed:
    """The topics with the weights that a source gave, and the problems in these weights."""
    if not isinstance(given, Mapping):
        return Weighed(
            list(topics), [f"the source of weights gave {type(given).__name__}, not a mapping of topics"]
        )
    weighed: list[Topic] = []
    findings: list[str] = []
    for topic in topics:
        try:
            listed = given.get(topic.name)
            weights, finding = (None, None) if listed is None else _checked(topic, listed)
        except Exception as error:  # The source may give values of any class, and each may raise anything.
            weights = None
            finding = f"the weights of topic {topic.name!r} raise {_short(error, 120)}: they are unknown"
        if finding is not None:
            findings.append(finding)
        weighed.append(replace(topic, weights=weights))
    return Weighed(weighed, findings)


def _checked(topic: Topic, listed: Any) -> tuple[tuple[int | None, ...] | None, str | None]:
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
