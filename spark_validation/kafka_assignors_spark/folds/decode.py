"""Records to events, a batch at a time: the code inside the tasks of `history.decode`.

Columns with a record's position, and its bytes, pass unchanged. This step only totals a generation's members
(see `folds.fast_decode`); later steps decode them. The records of a KIP-848 group are folded together (see
`folds.kip848`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from kafka_assignors.wire import ConsumerGroupKey, GroupMetadataKey, ProtocolError, decode_key
from kafka_assignors_spark.folds.fast_decode import FastDecoder, MemberTotals, totals_of
from kafka_assignors_spark.folds.records import RecordKind, decode_record

__all__ = ["CONFLICT", "RecordDecoder", "decode_batches"]

_MOST_GROUPS_KEPT = 50_000
CONFLICT = "different records at this partition and offset: of two clusters, or of a re-created topic?"

_STRINGS = pa.list_(pa.string())
_DECODED = (
    ("kind", pa.string()),
    ("group", pa.string()),
    ("reason", pa.string()),
    ("protocol_type", pa.string()),
    ("version", pa.int32()),
    ("generation", pa.int32()),
    ("protocol", pa.string()),
    ("leader", pa.string()),
)

_Row = tuple[
    str,
    str | None,
    str | None,
    str | None,
    int | None,
    int | None,
    str | None,
    str | None,
    MemberTotals,
    bool,
]
"""The decoded columns, the totals of the members, and whether the record belongs to a KIP-848 group."""


def decode_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`history.unique` records as `schemas.EVENTS`."""
    decoder = RecordDecoder()
    for batch in batches:
        if batch.num_rows:
            yield _events(batch, decoder)


def _events(batch: pa.RecordBatch, decoder: RecordDecoder) -> pa.RecordBatch:
    keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
    rows = [
        decoder.decode(key, value, conflict)
        for key, value, conflict in zip(keys, values, batch.column("conflict").to_pylist(), strict=True)
    ]
    *decoded, members, of_kip848 = zip(*rows, strict=True)
    arrays = {name: batch.column(name) for name in ("partition", "offset", "timestamp", "copies")}
    arrays |= {name: pa.array(column, kind) for (name, kind), column in zip(_DECODED, decoded, strict=True)}
    arrays |= _summed(members)
    arrays["value_bytes"] = pa.array([None if value is None else len(value) for value in values], pa.int32())
    parts = [key if part else None for key, part in zip(keys, of_kip848, strict=True)]
    arrays["key"] = pa.array(parts, pa.binary())
    arrays["value"] = batch.column("value")
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _summed(members: tuple[MemberTotals, ...]) -> dict[str, Any]:
    """The columns of `members`. Most generations of a group are alike, and lists take long: each is made
    once."""
    places: dict[MemberTotals, int] = {}
    places_of = pa.array([places.setdefault(each, len(places)) for each in members], pa.int32())
    columns = {
        "member_count": pa.array([each.count for each in places], pa.int32()),
        "clients": pa.array([each.clients for each in places], _STRINGS),
        "topics": pa.array([each.topics for each in places], _STRINGS),
        "holds": pa.array([each.holds for each in places], pa.bool_()),
    }
    return {name: column.take(places_of) for name, column in columns.items()}


class RecordDecoder:
    """Decodes the records of one task."""

    def __init__(self) -> None:
        self._groups: dict[bytes, str | None] = {}  # by key; None where it is no key of a classic group
        self._fast = FastDecoder()

    def decode(self, key: bytes | None, value: bytes | None, conflict: bool) -> _Row:
        if conflict:
            return self._conflict(key)
        if key is not None and value is not None:
            group = self._groups[key] if key in self._groups else self._new_group(key)
            if group is not None and (totals := self._fast.decode(value)) is not None:
                members = totals[-1]
                kind = RecordKind.GENERATION.value if members.count else RecordKind.EMPTY.value
                return (kind, group, None, *totals, False)
        event = decode_record(key, value)
        return (
            event.kind.value,
            event.group,
            event.reason,
            event.protocol_type,
            event.version,
            event.generation,
            event.protocol,
            event.leader,
            totals_of(event.members) if event.part is None else MemberTotals(topics=event.topics),
            event.part is not None,
        )

    def _conflict(self, key: bytes | None) -> _Row:
        try:
            decoded = None if key is None else decode_key(key)
        except ProtocolError:
            decoded = None
        of_kip848 = isinstance(decoded, ConsumerGroupKey)
        group = decoded.group if isinstance(decoded, (GroupMetadataKey, ConsumerGroupKey)) else None
        return (
            RecordKind.UNDECODABLE.value,
            group,
            CONFLICT,
            None,
            None,
            None,
            None,
            None,
            MemberTotals(),
            of_kip848,
        )

    def _new_group(self, key: bytes) -> str | None:
        try:
            decoded = decode_key(key)
        except ProtocolError:
            decoded = None
        if len(self._groups) >= _MOST_GROUPS_KEPT:
            self._groups.clear()
        group = self._groups[key] = decoded.group if isinstance(decoded, GroupMetadataKey) else None
        return group
