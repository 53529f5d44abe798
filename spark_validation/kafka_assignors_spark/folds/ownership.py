"""The owners of each partition over time: the records of one group as spans.

A member is called by its instance id, else by its member id, so that a static member that restarts keeps its
spans. A member owns what a record assigns until the next record. No span crosses a record that does not
decode, lost records, or the end of a group's life.

Pure Python without Spark, one record at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any

from kafka_assignors_spark.folds.rebalances import Generation
from kafka_assignors_spark.timestamps import to_micros

__all__ = ["OwnershipFold", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """A row of `schemas.OWNERSHIP`: `member` owned the partition from `begin` to `end`."""

    group: str
    topic: str
    partition: int
    member: str
    begin: datetime
    end: datetime

    def row(self) -> tuple[Any, ...]:
        """The values in the order of `schemas.OWNERSHIP`, the times in microseconds."""
        *names, begin, end = astuple(self)
        return (*names, to_micros(begin), to_micros(end))


class OwnershipFold:
    """The spans of one group: `feed` each record in order, then `finish`."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], tuple[str, datetime]] = {}  # by partition: who has it, since when
        self._last: Generation | None = None

    def feed(self, record: Generation) -> Iterator[Span]:
        """The spans that this record ends."""
        last, self._last = self._last, record
        if last is not None and last.incarnation != record.incarnation:
            # The time of the group's deletion is not known; its last record is the end of the span.
            yield from self._end(last, last.timestamp, {})
        elif last is not None and record.lost:
            yield from self._end(last, last.timestamp, {})
        now = _owners(record) if record.decodes and record.problem is None else {}
        yield from self._end(record, record.timestamp, now)
        for place, member in now.items():
            self._held.setdefault(place, (member, record.timestamp))

    def finish(self) -> Iterator[Span]:
        """The spans that are open at the last record."""
        if self._last is not None:
            yield from self._end(self._last, self._last.timestamp, {})

    def _end(self, record: Generation, at: datetime, now: dict[tuple[str, int], str]) -> Iterator[Span]:
        ended = [place for place, (member, _) in self._held.items() if now.get(place) != member]
        for place in ended:
            member, since = self._held.pop(place)
            # After a clock was set back, a span may end before it began.
            yield Span(record.group, *place, member, since, max(since, at))


def _owners(record: Generation) -> dict[tuple[str, int], str]:
    return {
        (topic, partition): member.instance_id or member.member_id
        for member in record.members.values()
        for topic, partitions in member.assigned.items()
        for partition in partitions
    }
