"""The life of one group: its records, in order, as generations with their place in it, and the owners.

* The *incarnation* counts from 1 the groups that were deleted and created again under the same name, which
  shows by the tombstone, by a generation that starts over, or by a change of protocol that is no migration.
* *Skipped* are the numbers between a generation and the one recorded before it. A generation is recorded when
  its leader's assignment arrives: one that the next join superseded never is, so skipped numbers alone are no
  lost history. *Lost* are records right before it that do not decode, and epochs of a KIP-848 group, which
  has a record of each.
* The *clock goes back* where a record is older than the one before it. Offsets define the order. The order of
  a *torn* group's records is not known, so its numbers show nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from kafka_assignors.group import TopicPartitions
from kafka_assignors_replay.history.kip848_fold import EpochFold
from kafka_assignors_replay.history.rebalances import CLASSIC, CONSUMER, Generation, partitions_of
from kafka_assignors_replay.history.records import (
    CONSUMER_PROTOCOL_TYPE,
    DecodedRecord,
    MemberRecord,
    RecordKind,
    from_micros,
)
from kafka_assignors_replay.result import OwnershipSpan

CONFLICT = "different records at this partition and offset: of two clusters, or of a re-created topic?"

TORN = (
    "records of the group lie in several partitions, so that their order is not known: the offsets topic was "
    "given more partitions, or these are records of two clusters"
)

_MOST_SKIPPED = 2**31 - 1
"""The most skipped numbers that are counted: a forged record may name any generation."""

_REMEMBERED = 8
"""The number of past assignments of a member that its claims are compared with."""


class Record(NamedTuple):
    """A record of the topic, and how many copies of it there are; its timestamp is in microseconds."""

    partition: int
    offset: int
    micros: int
    key: bytes | None
    value: bytes | None
    copies: int = 1


@dataclass(slots=True)
class LifeFold:
    """Folds the records of one group, of either protocol or of both: `feed` each in order.

    The fields are its whole state: the type and the number of the last generation (a tombstone has none), its
    time, how many records since then do not decode, and what the last few records `given` each member, by id.
    """

    epochs: EpochFold
    torn: bool
    last: tuple[str, int | None] | None = None
    last_timestamp: datetime | None = None
    incarnation: int = 0
    unreadable: int = 0
    given: deque[Mapping[str, TopicPartitions]] = field(default_factory=deque)

    def feed(self, record: Record, event: DecodedRecord) -> Iterator[Generation]:
        """The generations that this record is or completes."""
        self.unreadable += event.kind is RecordKind.UNDECODABLE and event.part is None
        classic = event.part is None
        type_ = CLASSIC if classic else CONSUMER
        timestamp = from_micros(record.micros)
        for seen in self._seen(timestamp, event):
            lost, self.unreadable = self.unreadable, 0
            before, self.last_timestamp = self.last_timestamp, timestamp
            last_type, previous = self.last or (type_, None)
            self.last = (type_, None if seen is None else seen.generation)
            if seen is None:
                continue
            number = seen.generation
            if seen.continues:
                last_type, previous = type_, number
            new_life = previous is None or (not self.torn and (number < previous or last_type != type_))
            self.incarnation += new_life
            same_life = not (new_life or self.torn)
            skipped = number - (previous or 0) - 1 if same_life else 0
            seen.group = event.group or ""
            seen.partition, seen.offset = record.partition, record.offset
            seen.incarnation = self.incarnation
            seen.type = type_
            seen.replacement = same_life and number == previous
            seen.skipped = min(max(skipped, 0), _MOST_SKIPPED)
            seen.starts_late = new_life and seen.starts_late
            seen.lost += lost
            seen.problem = TORN if self.torn else seen.problem
            seen.clock_back = not self.torn and before is not None and timestamp < before
            if classic:
                seen.reason = event.reason
                seen.value_bytes = len(record.value or b"")
            else:
                seen.protocol_type = CONSUMER_PROTOCOL_TYPE
                seen.value_bytes = sum(map(_bytes_of, seen.members.values()))
            if new_life:
                self.given.clear()
            seen.shows_loss = seen.lost > 0 or (seen.skipped > 0 and self._claims_more(seen, previous or 0))
            self.given.append({name: member.assigned for name, member in seen.members.items()})
            if len(self.given) > _REMEMBERED:
                self.given.popleft()
            yield seen

    def _claims_more(self, record: Generation, previous: int) -> bool:
        """Whether a member claims partitions that show that a record between the `previous` one and this one
        is missing.

        Skipped numbers alone show nothing. A member that claims, as of a skipped generation, partitions that
        no earlier record assigned to it received them from a generation that was delivered, and so was
        recorded. (A claim to earlier partitions does not count: Java's consumer adopts a generation's number
        when it joins, before its assignment arrives, and may not have seen its last assignment when the next
        join begins.)
        """
        for member in record.members.values():
            if member.owned and previous < member.owned_generation < record.generation:
                claimed = set(partitions_of(member.owned))
                for given in reversed(self.given):
                    if member.member_id not in given:
                        break  # it joined the group after that
                    claimed.difference_update(partitions_of(given[member.member_id]))
                if claimed:
                    return True
        return False

    def _seen(self, timestamp: datetime, event: DecodedRecord) -> Iterator[Generation | None]:
        """The generation that a record is or completes, or None for the end of the group."""
        if event.part is not None:
            if event.kind is RecordKind.UNDECODABLE:
                self.epochs.unreadable(event.part)
                return
            yield from self.epochs.feed(timestamp, event.part, event.said)
        elif event.kind is RecordKind.TOMBSTONE:
            self.epochs.classic_tombstone()
            yield None
        elif event.metadata is not None:
            metadata, has_members = event.metadata, event.kind is RecordKind.GENERATION
            yield Generation(
                timestamp,
                metadata.generation,
                event.members,
                metadata.protocol or "",
                empty=not has_members,
                starts_late=metadata.generation > 1,
                continues=self.epochs.classic(metadata.generation, has_members),
                protocol_type=metadata.protocol_type,
                leader=metadata.leader,
            )


def _bytes_of(member: MemberRecord) -> int:
    """The approximate size of the member in the value of a classic group."""
    texts = (member.member_id, member.client_id, member.client_host, *member.topics, *member.assigned)
    return sum(map(len, texts)) + 4 * sum(map(len, member.assigned.values()))


MOST_PARTITIONS = 120
MOST_GENERATIONS = 200
_MOST_SPANS = 2_000


class _Span(NamedTuple):
    """The owner of a partition from the record number `first` on, whose time is `begin`."""

    member: str
    begin: datetime
    first: int


class _Ended(NamedTuple):
    place: tuple[str, int]
    span: _Span
    end: datetime
    last: int


@dataclass(slots=True)
class OwnershipFold:
    """The owners of each partition, as spans: `feed` each record in order, then `finish`.

    A member is called by its instance id, else by its member id, so that a static member that restarts keeps
    its spans. No span crosses a record that does not decode, lost records, or the end of a group's life. The
    spans are those of the last `MOST_GENERATIONS` records; a record that assigns more than `MOST_PARTITIONS`
    is too much to draw, and has no owners. So the memory is bounded.
    """

    group: str = ""
    number: int = 0
    incarnation: int | None = None
    held: dict[tuple[str, int], _Span] = field(default_factory=dict)
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
        now = _owners(record) if record.is_known else {}
        self._end(record.timestamp, now)
        for place, member in now.items():
            if place not in self.held:
                self.held[place] = _Span(member, record.timestamp, self.number)
        while self.ended and self.ended[0].last < self._first:
            self.ended.popleft()

    def finish(self) -> list[OwnershipSpan]:
        """The spans in the order of partitions and time; if there are too many, those that ended last."""
        if self.times:
            self._end(self.times[-1], {})
        spans = []
        for place, (member, begin, first), end, last in self.ended:
            if last == self._first > first:
                continue  # it ended where the records that count begin
            begin = self.times[0] if first < self._first else begin
            # After a clock was set back, a span may end before it began.
            spans.append(OwnershipSpan(self.group, *place, member, begin, max(begin, end)))
        spans.sort(key=lambda span: (span.topic, span.partition))
        spans.sort(key=lambda span: span.end, reverse=True)
        return sorted(spans[:_MOST_SPANS], key=lambda span: (span.topic, span.partition, span.begin))

    @property
    def _first(self) -> int:
        """The number of the first record that counts."""
        return self.number - len(self.times) + 1

    def _end(self, at: datetime, now: dict[tuple[str, int], str]) -> None:
        for place in [place for place, span in self.held.items() if now.get(place) != span.member]:
            self.ended.append(_Ended(place, self.held.pop(place), at, self.number))


def _owners(record: Generation) -> dict[tuple[str, int], str]:
    members = record.members.values()
    if sum(len(numbers) for member in members for numbers in member.assigned.values()) > MOST_PARTITIONS:
        return {}
    return {
        place: member.instance_id or member.member_id
        for member in members
        for place in partitions_of(member.assigned)
    }
