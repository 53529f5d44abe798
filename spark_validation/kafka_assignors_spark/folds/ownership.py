"""The owners of each partition over time: the last records of one group as spans.

A member is called by its instance id, else by its member id, so that a static member that restarts keeps its
spans. A member owns what a record assigns until the next record. No span crosses a record that does not
decode, lost records, or the end of a group's life.

The spans are those of the last `MOST_GENERATIONS` records; a record that assigns more than `MOST_PARTITIONS`
is too much to draw, and has no owners. So the memory is bounded.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

from kafka_assignors_spark.folds.rebalances import Generation
from kafka_assignors_spark.result import OwnershipSpan

MOST_PARTITIONS = 120
MOST_GENERATIONS = 200
_MOST_SPANS = 2_000


@dataclass(frozen=True, slots=True)
class _Held:
    """Who owns a partition since when; `number` counts records."""

    member: str
    since: datetime
    number: int


@dataclass(frozen=True, slots=True)
class _Ended:
    topic: str
    partition: int
    held: _Held
    end: datetime
    number: int


@dataclass(slots=True)
class OwnershipFold:
    """The spans of one group: `feed` each record in order, then `finish`. The fields are its whole state."""

    group: str = ""
    number: int = 0
    incarnation: int | None = None
    held: dict[tuple[str, int], _Held] = field(default_factory=dict)
    ended: deque[_Ended] = field(default_factory=deque)
    times: deque[datetime] = field(default_factory=deque)  # of the last records

    def feed(self, record: Generation) -> None:
        self.group = record.group
        if self.times and (self.incarnation != record.incarnation or record.lost):
            # The time of the group's deletion is not known; its last record is the end of the span.
            self._end(self.times[-1], {})
        self.incarnation = record.incarnation
        self.number += 1
        self.times.append(record.timestamp)
        if len(self.times) > MOST_GENERATIONS:
            self.times.popleft()
        now = _owners(record) if record.decodes and record.problem is None else {}
        self._end(record.timestamp, now)
        for place, member in now.items():
            if place not in self.held:
                self.held[place] = _Held(member, record.timestamp, self.number)
        while self.ended and self.ended[0].number < self._first:
            self.ended.popleft()

    def finish(self) -> list[OwnershipSpan]:
        """The spans, those that ended last if they are too many, in the order of partitions and time."""
        if self.times:
            self._end(self.times[-1], {})
        spans = []
        for each in self.ended:
            if each.number == self._first > each.held.number:
                continue  # it ended where the records that count begin
            begin = self.times[0] if each.held.number < self._first else each.held.since
            # After a clock was set back, a span may end before it began.
            end = max(begin, each.end)
            spans.append(OwnershipSpan(self.group, each.topic, each.partition, each.held.member, begin, end))
        spans.sort(key=lambda span: (span.topic, span.partition))
        spans.sort(key=lambda span: span.end, reverse=True)
        return sorted(spans[:_MOST_SPANS], key=lambda span: (span.topic, span.partition, span.begin))

    @property
    def _first(self) -> int:
        """The number of the first record that counts."""
        return self.number - len(self.times) + 1

    def _end(self, at: datetime, now: dict[tuple[str, int], str]) -> None:
        gone = [place for place, held in self.held.items() if now.get(place) != held.member]
        for place in gone:
            self.ended.append(_Ended(*place, self.held.pop(place), at, self.number))


def _owners(record: Generation) -> dict[tuple[str, int], str]:
    shares = [(member, member.assigned) for member in record.members.values()]
    if sum(len(numbers) for _, share in shares for numbers in share.values()) > MOST_PARTITIONS:
        return {}
    return {
        (topic, partition): member.instance_id or member.member_id
        for member, share in shares
        for topic, partitions in share.items()
        for partition in partitions
    }
