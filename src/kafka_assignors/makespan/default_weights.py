"""The weight of a partition whose weight is unknown.

A partition whose weight is unknown weighs the median of its topic's known weights; where none of the topic's
is known, the median of all that are known in the group; where there is none at all, 1, so that a group
without weights is balanced by the number of partitions. (Of an even number of weights the median is the lower
of the two in the middle, which is a weight that exists, and an integer.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median_low

from kafka_assignors.group import Group

__all__ = ["Weights", "weights_of"]


@dataclass(frozen=True, slots=True)
class Weights:
    """The weight of every partition by topic, and of how many it was unknown."""

    by_topic: Mapping[str, Sequence[int]]
    unknown: int


def weights_of(group: Group) -> Weights:
    """The weights of the topics that some member subscribes to, the missing ones stood in for."""
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
