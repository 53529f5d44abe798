"""The generations of one group from its raw records, computed without Spark: what the sample check reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import replace
from datetime import datetime
from typing import Any

from kafka_assignors.wire import decode_consumer_group_value
from kafka_assignors_spark.catalogue import Catalogue
from kafka_assignors_spark.folds.decode import CONFLICT
from kafka_assignors_spark.folds.generations import CLASSIC, CONSUMER, TORN, FoldedGeneration
from kafka_assignors_spark.folds.kip848 import EpochFold
from kafka_assignors_spark.folds.rebalances import Generation
from kafka_assignors_spark.folds.records import (
    CONSUMER_PROTOCOL_TYPE,
    DecodedRecord,
    RecordKind,
    decode_record,
)
from kafka_assignors_spark.timestamps import from_micros

__all__ = ["bytes_of", "local_generations"]


def local_generations(
    rows: Iterable[Any], catalogue: Catalogue, collided: Set[tuple[int, int]] = frozenset()
) -> Iterator[Generation]:
    """The generations of one group of either protocol, or of both, from its raw records in order, timestamps
    in microseconds; `collided` are the places where others lie, too.

    It is what `jobs.kip848.fold` and `history.generations` find in another way.
    """
    folder = EpochFold(catalogue)
    records = list(rows)
    torn = len({row["partition"] for row in records}) > 1
    last: tuple[str, int | None] | None = None  # type and number; a tombstone has none
    incarnation = unreadable = 0
    for row in records:
        value = bytes_of(row["value"])
        event = decode_record(bytes_of(row["key"]), value)
        if (row["partition"], row["offset"]) in collided:
            event = replace(event, kind=RecordKind.UNDECODABLE, reason=CONFLICT)
        type_ = CLASSIC if event.part is None else CONSUMER
        unreadable += event.kind is RecordKind.UNDECODABLE and event.part is None
        for seen in _seen(folder, event, row["offset"], from_micros(row["timestamp"]), value):
            number, lost, unreadable = seen.generation, seen.lost + unreadable, 0
            last_type, previous = last or (type_, None)
            last = (type_, number)
            if number is None:
                continue
            if seen.continues:
                previous = number
            anew = number < (previous or 0) or (last_type != type_ and not seen.continues)
            starts = previous is None or (anew and not torn)
            incarnation += starts
            skipped = 0 if starts or torn or previous is None else max(number - previous - 1, 0)
            empty = seen.kind is RecordKind.EMPTY
            if type_ == CLASSIC and event.protocol_type != CONSUMER_PROTOCOL_TYPE and not empty:
                continue
            yield Generation(
                group=event.group or "",
                incarnation=incarnation,
                generation=number,
                offset=seen.offset,
                timestamp=seen.timestamp,
                protocol=seen.protocol or "",
                empty=empty,
                replacement=not (starts or torn) and number == previous,
                skipped=skipped,
                starts_late=starts and seen.starts_late,
                decodes=event.reason is None,
                members={member.member_id: member for member in seen.members},
                leader=event.leader,
                type=type_,
                lost=lost,
                problem=TORN if torn else seen.problem,
                facts=seen.facts,
            )


def _seen(
    folder: EpochFold, event: DecodedRecord, offset: int, timestamp: datetime, value: bytes | None
) -> Iterator[FoldedGeneration]:
    """The generation, or the end of the group, that a record is or completes."""
    if event.part is not None:
        if event.kind is RecordKind.UNDECODABLE:
            folder.unreadable(event.part)
            return
        said = None if value is None else decode_consumer_group_value(event.part.type, value)
        yield from folder.feed(offset, timestamp, event.part, said)
    elif event.kind is RecordKind.TOMBSTONE:
        folder.classic_tombstone()
        yield FoldedGeneration(event.kind, offset, timestamp)
    elif event.kind in (RecordKind.GENERATION, RecordKind.EMPTY) and event.generation is not None:
        yield FoldedGeneration(
            event.kind,
            offset,
            timestamp,
            event.generation,
            event.protocol,
            event.members,
            continues=folder.classic(event.generation, event.kind is RecordKind.GENERATION),
            starts_late=event.generation > 1,
        )


def bytes_of(value: bytearray | bytes | None) -> bytes | None:
    """A binary value as Spark hands it over, as bytes."""
    return None if value is None else bytes(value)
