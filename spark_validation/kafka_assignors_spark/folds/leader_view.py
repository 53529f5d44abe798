"""Which topics, with how many partitions, a leader saw when it assigned.

The catalogue has the topics of the cluster over time. A leader may have been behind it (its metadata were
some minutes old when partitions were added) or, by moments, ahead of it. The recorded assignment shows which:
it covers every partition that its leader knew of. So the view takes the catalogue's entry whose partition
count the record confirms, and prefers the entry of that time.

Where the catalogue has no such entry, the count is taken from the record itself, and the topic is `inferred`:
only if the record assigns every number from 0 up, and without racks. If that fails as well, the view has a
`problem`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from kafka_assignors.group import Topic, TopicPartitions
from kafka_assignors_spark.catalogue import Catalogue

__all__ = ["LeaderView", "leader_view"]


@dataclass(frozen=True, slots=True)
class LeaderView:
    """The topics a leader saw. `corrected` are those where the record contradicts the catalogue's entry of
    that time, `inferred` those whose count comes from the record alone."""

    topics: tuple[Topic, ...]
    corrected: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()
    problem: str | None = None


def leader_view(
    catalogue: Catalogue, when: datetime, subscribed: Iterable[str], recorded: Mapping[str, TopicPartitions]
) -> LeaderView:
    """What the leader saw that made the assignment `recorded` at `when`, for members with these
    subscriptions.

    A topic without an assigned partition is one that the leader did not see.
    """
    given: dict[str, set[int]] = {}
    for by_topic in recorded.values():
        for name, partitions in by_topic.items():
            given.setdefault(name, set()).update(partitions)

    topics: list[Topic] = []
    corrected: list[str] = []
    inferred: list[str] = []
    for name in sorted(subscribed):
        numbers = given.get(name, set())
        entry = catalogue.at(name, when)
        if not numbers:
            if entry is not None and entry.partitions:
                corrected.append(name)  # it exists, and the leader did not know it yet
            continue
        covers_all = len(numbers) == max(numbers) + 1 and min(numbers) == 0
        if entry is not None and entry.partitions == len(numbers) and covers_all:
            topics.append(entry)
            continue
        confirmed = next((each for each in catalogue.entries(name) if each.partitions == len(numbers)), None)
        if covers_all and confirmed is not None:
            topics.append(confirmed)
            corrected.append(name)
        elif entry is not None and max(numbers) < entry.partitions:
            topics.append(entry)
        elif covers_all:
            topics.append(Topic(name, len(numbers)))
            inferred.append(name)
        else:
            return LeaderView((), problem=f"no partition count is known for topic {name!r} at that time")
    return LeaderView(tuple(topics), tuple(corrected), tuple(inferred))
