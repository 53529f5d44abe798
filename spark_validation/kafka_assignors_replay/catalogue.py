"""The topics of a group at a time: how many partitions, and in which racks their replicas were.

A record of a group names only the topic and number of partitions. The rest comes from the *catalogue*, the
topics of the cluster over time: a table beside the records.

A leader may have been behind it (its metadata were some minutes old when partitions were added) or, by
moments, ahead of it. The recorded assignment shows which: it covers every partition that its leader knew of.
So the *leader's view* takes the catalogue's entry whose partition count the record confirms, and prefers the
entry of that time. Where the catalogue has no such entry, the count is taken from the record itself, and the
topic is `inferred`: only if the record assigns every number from 0 up, and without racks. If that fails as
well, the view has a `problem`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from kafka_assignors.group import InvalidGroupError, Topic, TopicPartitions, quoted
from kafka_assignors.group_json import MOST_PARTITIONS
from kafka_assignors_replay.history.records import FIRST_MICROS, from_micros


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A topic as it was from `since` on, until the next entry of the same name.

    `since` is None where the start is not known: the entry then applies to all times before the next one.
    """

    since: datetime | None
    topic: Topic

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> CatalogueEntry:
        """The entry in a row of `schemas.TOPICS`, `from` in microseconds; null means for all earlier times.

        `InvalidGroupError` if the row does not describe a topic.
        """
        name, partitions = row["topic"], row["partitions"]
        if name is None:
            raise InvalidGroupError("column topic is null in a row; give each topic its name")
        if partitions is None or partitions > MOST_PARTITIONS:
            given = "null or no number of 32 bits" if partitions is None else partitions
            raise InvalidGroupError(
                f"column partitions of topic {quoted(name)} is {given}; give a number of partitions up to "
                f"{MOST_PARTITIONS}"
            )
        since = None if row["from"] is None else from_micros(row["from"])
        racks = row["replica_racks"]
        if racks is not None:
            racks = tuple(frozenset(rack for rack in each or () if rack) for each in racks)
        return cls(since, Topic(name, partitions, racks, row["topic_id"]))

    def row(self) -> tuple[object, ...]:
        """The row of `schemas.TOPICS` for Spark, with `from` as a time."""
        topic = self.topic
        racks = None if topic.replica_racks is None else [sorted(each) for each in topic.replica_racks]
        return topic.name, topic.id, self.since, topic.partitions, racks


def changed_entry(
    known: CatalogueEntry | None, found: Topic, now: datetime, *, racks_known: bool
) -> CatalogueEntry | None:
    """The entry of a topic from `now` on, after the latest `known` one; None if that still holds.

    The first entry holds for all times. Without `racks_known`, other racks are no change, and an entry has
    none: the racks of some replicas would count as those of all.
    """
    if not racks_known:
        found = replace(found, replica_racks=None)
    if known is None:
        return CatalogueEntry(None, found)
    before = known.topic
    same_racks = not racks_known or before.replica_racks == found.replica_racks
    same = (before.id, before.partitions) == (found.id, found.partitions) and same_racks
    return None if same else CatalogueEntry(now, found)


MOST_TOPICS = 100_000
"""The most topics of a group that are remembered: it may read new ones every hour, watched for months."""


def forget_unused(known: dict[str, Any], used: Iterable[str]) -> None:
    """Forget what is `known` of other topics than the `used` ones, if it is too much."""
    if len(known) > MOST_TOPICS:
        for each in known.keys() - used:
            del known[each]


_ALWAYS = from_micros(FIRST_MICROS)


def _since(entry: CatalogueEntry) -> datetime:
    return entry.since or _ALWAYS


class Catalogue:
    """Topics over time. A lookup takes time logarithmic in the number of the topic's entries."""

    def __init__(self, entries: Iterable[CatalogueEntry]) -> None:
        self.set_entries(entries)

    def set_entries(self, entries: Iterable[CatalogueEntry]) -> None:
        """Replace all entries by these: folds that run for months share one catalogue."""
        by_topic: dict[str, list[CatalogueEntry]] = {}
        for entry in entries:
            by_topic.setdefault(entry.topic.name, []).append(entry)
        self._entries = {name: sorted(history, key=_since) for name, history in by_topic.items()}
        self._names = {entry.topic.id: name for name, of in self._entries.items() for entry in of}

    def at(self, topic: str, when: datetime) -> Topic | None:
        """The topic as of `when`; None if there is no entry so early, or none at all."""
        history = self._entries.get(topic, ())
        position = bisect_right(history, when, key=_since)
        return history[position - 1].topic if position else None

    def name_of(self, topic_id: str) -> str | None:
        """The name of the topic that has, or had, this id; None if there is no entry with it."""
        return self._names.get(topic_id)

    def entries(self, topic: str) -> tuple[Topic, ...]:
        """The topic in each of its entries, in order."""
        return tuple(entry.topic for entry in self._entries.get(topic, ()))

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Catalogue:
        """The catalogue in rows of `schemas.TOPICS`, see `CatalogueEntry.from_row`.

        Their order is of no matter, also where they contradict each other.
        """
        return cls(sorted(map(CatalogueEntry.from_row, rows), key=lambda entry: repr(entry.row())))


@dataclass(frozen=True, slots=True)
class LeaderView:
    """The topics that a leader saw. `inferred` are those whose count comes from the record alone."""

    topics: tuple[Topic, ...]
    inferred: tuple[str, ...] = ()
    problem: str | None = None


def leader_view(
    catalogue: Catalogue, when: datetime, subscribed: Iterable[str], recorded: Mapping[str, TopicPartitions]
) -> LeaderView:
    """The topics that the leader saw when it made the assignment `recorded` at `when`, for members with these
    subscriptions.

    The leader did not see a topic without an assigned partition.
    """
    given: dict[str, set[int]] = {}
    for by_topic in recorded.values():
        for name, partitions in by_topic.items():
            given.setdefault(name, set()).update(partitions)

    topics: list[Topic] = []
    inferred: list[str] = []
    for name in sorted(name for name in subscribed if given.get(name)):
        numbers, entry = given[name], catalogue.at(name, when)
        covers_all = len(numbers) == max(numbers) + 1 and min(numbers) == 0
        known = (entry, *catalogue.entries(name)) if covers_all else ()
        seen = next((each for each in known if each and each.partitions == len(numbers)), entry)
        if seen is None or max(numbers) >= seen.partitions:
            if not covers_all:
                return LeaderView((), problem=f"no partition count is known for topic {name!r} at that time")
            seen = Topic(name, len(numbers))
            inferred.append(name)
        topics.append(seen)
    return LeaderView(tuple(topics), tuple(inferred))
