"""The life of one group: its records, in order, as generations with their place in it.

* The *incarnation* counts from 1 the groups that were deleted and created again under the same name, which
  shows by the tombstone, by a generation that starts over, or by a change of protocol that is no migration.
* *Skipped* are the numbers between a generation and the one recorded before it. A generation is recorded when
  its leader's assignment arrives: one that the next join superseded never is, so skipped numbers alone are no
  lost history. *Lost* are records right before it that do not decode, epochs of a KIP-848 group, which
  has a record of each, and all skipped numbers if files of the history were left out.
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
    RecordKind,
    from_micros,
)

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

    If the history is `lossy`, skipped numbers count as lost. The other fields are its whole state: the type
    and number of the last generation (a tombstone has none), its time, how many records since then do not
    decode, and what the last few records `given` each member, by id.
    """

    epochs: EpochFold
    torn: bool
    lossy: bool = False
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
            seen.lost += lost + (seen.skipped if self.lossy else 0)
            seen.problem = TORN if self.torn else seen.problem
            seen.clock_back = not self.torn and before is not None and timestamp < before
            if classic:
                seen.reason = event.reason
            else:
                seen.protocol_type = CONSUMER_PROTOCOL_TYPE
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
