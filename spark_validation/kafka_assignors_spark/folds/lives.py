"""The life of one group: its records, in order, as generations with their place in it.

* The *incarnation* counts from 1 the groups that were deleted and created again under the same name, which
  shows by the tombstone, by a generation that starts over, or by a change of protocol that is no migration.
* *Skipped* are the numbers between a generation and the one recorded before it. A generation is recorded when
  its leader's assignment arrives: one that the next join superseded never is, so skipped numbers alone are no
  lost history. *Lost* are records right before it that do not decode, and epochs of a KIP-848 group, which
  has a record of each.
* It *starts late* if it is the first record seen of its incarnation, and cannot be the first generation.
* A *replacement* is the generation of the record before once more, as a restarted static member makes it, or
  a change of protocol.
* The *clock goes back* where a record is older than the one before it. Offsets define the order.

The order of a *torn* group's records is not known, so its numbers show nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from kafka_assignors_spark.folds.kip848 import EpochFold
from kafka_assignors_spark.folds.rebalances import CLASSIC, CONSUMER, TORN, FoldedGeneration, Generation
from kafka_assignors_spark.folds.records import (
    CONSUMER_PROTOCOL_TYPE,
    DecodedRecord,
    MemberRecord,
    RecordKind,
    from_micros,
)

CONFLICT = "different records at this partition and offset: of two clusters, or of a re-created topic?"

_MOST_SKIPPED = 2**31 - 1
"""A forged record may name any generation."""


class Record(NamedTuple):
    """A record of the topic, and how many copies of it there are; its timestamp is in microseconds."""

    partition: int
    offset: int
    micros: int
    key: bytes | None
    value: bytes | None
    copies: int = 1


@dataclass(frozen=True, slots=True)
class RecordedGeneration:
    """A generation, and what else its record says. Groups of other protocol types than "consumer" have them,
    too, but no members that decode.

    `value_bytes` is the length of the record's value, or an estimate of it for a KIP-848 group.
    """

    generation: Generation
    partition: int
    protocol_type: str | None
    version: int | None
    reason: str | None
    clock_back: bool
    unknown_topics: tuple[str, ...]
    value_bytes: int

    @property
    def is_of_consumers(self) -> bool:
        """Whether a replay has to know of it; an empty group may have no protocol type."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE or self.generation.empty


@dataclass(slots=True)
class LifeFold:
    """Folds the records of one group, of either protocol or of both: `feed` each in order.

    The fields are its whole state: the type and the number of the last generation (a tombstone has none), its
    time, and how many records since then do not decode.
    """

    epochs: EpochFold
    torn: bool
    last: tuple[str, int | None] | None = None
    last_timestamp: datetime | None = None
    incarnation: int = 0
    unreadable: int = 0

    def feed(self, record: Record, event: DecodedRecord) -> Iterator[RecordedGeneration]:
        """The generations that this record is or completes."""
        self.unreadable += event.kind is RecordKind.UNDECODABLE and event.part is None
        type_ = CLASSIC if event.part is None else CONSUMER
        for seen in self._seen(record, event):
            lost, self.unreadable = seen.lost + self.unreadable, 0
            before, self.last_timestamp = self.last_timestamp, seen.timestamp
            last_type, previous = self.last or (type_, None)
            self.last = (type_, seen.generation)
            if seen.generation is None:
                continue
            back = not self.torn and before is not None and seen.timestamp < before
            same_type = last_type == type_ or seen.continues
            previous = seen.generation if seen.continues else previous
            yield self._placed(record, event, seen, type_, same_type, previous, lost, back)

    def _placed(
        self,
        record: Record,
        event: DecodedRecord,
        seen: FoldedGeneration,
        type_: str,
        same_type: bool,
        previous: int | None,
        lost: int,
        back: bool,
    ) -> RecordedGeneration:
        number = seen.generation
        assert number is not None
        starts = previous is None or (not self.torn and (number < previous or not same_type))
        self.incarnation += starts
        same_life = not (starts or self.torn)
        skipped = (
            0 if not same_life or previous is None else min(max(number - previous - 1, 0), _MOST_SKIPPED)
        )
        classic = type_ == CLASSIC
        generation = Generation(
            group=event.group or "",
            incarnation=self.incarnation,
            generation=number,
            offset=seen.offset,
            timestamp=seen.timestamp,
            protocol=seen.protocol or "",
            empty=seen.kind is RecordKind.EMPTY,
            replacement=same_life and number == previous,
            skipped=skipped,
            starts_late=starts and seen.starts_late,
            decodes=event.reason is None,
            members={member.member_id: member for member in seen.members},
            leader=event.leader,
            type=type_,
            lost=lost,
            problem=TORN if self.torn else seen.problem,
            facts=seen.facts,
        )
        return RecordedGeneration(
            generation=generation,
            partition=record.partition,
            protocol_type=event.protocol_type if classic else CONSUMER_PROTOCOL_TYPE,
            version=event.version,
            reason=event.reason,
            clock_back=back,
            unknown_topics=seen.unknown_topics,
            value_bytes=len(record.value or b"") if classic else sum(map(_bytes_of, seen.members)),
        )

    def _seen(self, record: Record, event: DecodedRecord) -> Iterator[FoldedGeneration]:
        """The generation, or the end of the group, that a record is or completes."""
        offset, timestamp = record.offset, from_micros(record.micros)
        if event.part is not None:
            if event.kind is RecordKind.UNDECODABLE:
                self.epochs.unreadable(event.part)
                return
            yield from self.epochs.feed(offset, timestamp, event.part, event.said)
        elif event.kind is RecordKind.TOMBSTONE:
            self.epochs.classic_tombstone()
            yield FoldedGeneration(event.kind, offset, timestamp)
        elif event.kind in (RecordKind.GENERATION, RecordKind.EMPTY) and event.generation is not None:
            yield FoldedGeneration(
                event.kind,
                offset,
                timestamp,
                event.generation,
                event.protocol,
                event.members,
                continues=self.epochs.classic(event.generation, event.kind is RecordKind.GENERATION),
                starts_late=event.generation > 1,
            )


def _bytes_of(member: MemberRecord) -> int:
    """The approximate size of the member in the value of a classic group."""
    texts = (member.member_id, member.client_id, member.client_host, *member.topics, *member.assigned)
    return sum(map(len, texts)) + 4 * sum(map(len, member.assigned.values()))
