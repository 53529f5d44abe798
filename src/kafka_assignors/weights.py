"""The weights of partitions: how a leader reads what a source gives, and what stands for an unknown weight.

A source of weights is a function of the user, a file, or the brokers. It may be late, fail, or return
nonsense, and none of that may hold up the group. The adapters ask it, with a timeout; `weigh` interprets the
result:

- an entry that is no weight (not a whole number from 0 to 2^63 - 1) counts as unknown, and so does a topic
  with too few or too many; the leader's log says so, once for each topic;
- without an answer the last one that this member got counts, however old: old weights are better than none.
  If it never got one, all weights are unknown.

A partition with an unknown weight gets the median of its topic's known weights; if there are none, the median
of the group's known weights; if there are none, 1, so that a group without weights is balanced by the number
of partitions. (The median of an even number of weights is the lower of the two in the middle: an integer.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import index
from statistics import median_low
from typing import Any, TypeAlias

from kafka_assignors.group import MOST_WEIGHT, Group, Topic

GivenWeights: TypeAlias = Mapping[str, Sequence[int | None]]
"""By topic a weight for each partition, from 0 on; None where it is unknown."""


def weigh(topics: Iterable[Topic], given: object) -> tuple[list[Topic], list[str]]:
    """The topics with the weights that a source gave, and the problems in these weights."""
    if not isinstance(given, Mapping):
        return list(topics), [f"the source of weights gave {type(given).__name__}, not a mapping of topics"]
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
    return weighed, findings


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


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of every partition by topic, and the number of unknown weights."""

    by_topic: Mapping[str, Sequence[int]]
    unknown: int


def weights_of(group: Group) -> Weights:
    """The weights of all topics that a member subscribes to; a median stands in for an unknown one."""
    subscribed = frozenset[str]().union(*(member.topics for member in group.members.values()))
    topics = [group.topics[name] for name in sorted(subscribed & group.topics.keys())]
    known = {topic.name: [weight for weight in topic.weights or () if weight is not None] for topic in topics}
    everywhere = list(chain.from_iterable(known.values()))
    usual = median_low(everywhere) if everywhere else 1
    by_topic: dict[str, Sequence[int]] = {}
    for topic in topics:
        if len(known[topic.name]) == topic.partitions:
            by_topic[topic.name] = known[topic.name]
            continue
        stand_in = median_low(known[topic.name]) if known[topic.name] else usual
        given = topic.weights or (None,) * topic.partitions
        by_topic[topic.name] = [stand_in if weight is None else weight for weight in given]
    return Weights(by_topic, sum(topic.partitions for topic in topics) - len(everywhere))
