"""The tables that the replay and the archive read and write, column by column, as Arrow schemas.

A row of `raw` is a record of `__consumer_offsets`, `archived` adds its cluster, and a row of `topics` is a
topic as it was from a moment on. `TABLES` are the tables that a replay writes. A generation's number is no
key: a static member's replacement writes the same generation again, and a deleted group starts from 0; the
group and the offset are one. That number of a KIP-848 group is its epoch. All timestamps are instants, in
microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, get_args, get_type_hints

import pyarrow as pa

from kafka_assignors.group import TopicPartitions
from kafka_assignors_replay.history.accuracy import CheckedGeneration, CheckOutcome
from kafka_assignors_replay.history.faults import Fault, FaultKind
from kafka_assignors_replay.history.group_replay import Replayed
from kafka_assignors_replay.history.measures import Measures, Mode, Verdict
from kafka_assignors_replay.history.rebalances import Generation
from kafka_assignors_replay.history.records import MemberRecord
from kafka_assignors_replay.history.table_rows import GENERATIONS, MEMBERS

_STRING, _INT, _LONG, _BINARY = pa.string(), pa.int32(), pa.int64(), pa.binary()
_TIMESTAMP = pa.timestamp("us", "UTC")
_STRINGS, _NUMBERS = pa.list_(_STRING), pa.list_(_INT)
_PARTITIONS = pa.map_(_STRING, _NUMBERS)

_OF_TYPES: dict[Any, pa.DataType] = {
    **dict.fromkeys((str, Mode, FaultKind, CheckOutcome), _STRING),
    **dict.fromkeys((tuple[str, ...], Sequence[str]), _STRINGS),
    bool: pa.bool_(),
    int: _INT,
    float: pa.float64(),
    date: pa.date32(),
    datetime: _TIMESTAMP,
    TopicPartitions: _PARTITIONS,
}


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


def _columns(kind: Any, names: Sequence[str] = (), **own: pa.DataType) -> pa.Schema:
    """The columns for the fields of a class, and `own` columns: all of them, or those in `names`."""
    of_fields = {
        name: _LONG if name == "offset" else _OF_TYPES[each]
        for name, hint in get_type_hints(kind).items()
        for each in (*get_args(hint), hint)
        if each in _OF_TYPES
    }
    found = {**of_fields, **own}
    return _schema(**{name: found[name] for name in names or found})


RAW = _schema(partition=_INT, offset=_LONG, timestamp=_TIMESTAMP, key=_BINARY, value=_BINARY)

ARCHIVED = RAW.append(pa.field("cluster_id", _STRING))

TOPICS = pa.schema(
    [
        ("topic", _STRING),
        ("topic_id", _STRING),
        ("from", _TIMESTAMP),
        ("partitions", _INT),
        ("replica_racks", pa.list_(_STRINGS)),
    ]
)

_PLACE = {"group": _STRING, "partition": _INT, "offset": _LONG}
_OF_GENERATION = {"group": _STRING, "offset": _LONG, "generation": _INT}
_VERDICT, _MEASURES = _columns(Verdict, date=pa.date32()), _columns(Measures)
*_REPLAYED, _INFERRED, _PROBLEM = _columns(Replayed)

TABLES: dict[str, pa.Schema] = {
    "generations": _columns(
        Generation,
        GENERATIONS,
        gap_before=pa.bool_(),
        facts=pa.list_(pa.struct([("fact", _STRING), ("subject", _STRING)])),
        member_count=_INT,
        clients=_STRINGS,
        topics=_STRINGS,
        holds=pa.bool_(),
    ),
    "members": _columns(MemberRecord, MEMBERS, **_OF_GENERATION, client=_STRING),
    "assignments": _schema(**_OF_GENERATION, member_id=_STRING, topic=_STRING, partitions=_NUMBERS),
    # How far a member of a KIP-848 group has come on its way to its assignment. `epoch` is the group epoch
    # that it has reached, -2 for a static member that is away, null where the record is the end of the
    # member; the rest is null then. `state` is "stable", "unrevoked partitions" (it has yet to revoke
    # `pending_revocation`), "unreleased partitions" (it waits for others to revoke) or "unknown".
    "current": _schema(
        **_PLACE,
        timestamp=_TIMESTAMP,
        member_id=_STRING,
        epoch=_INT,
        previous_epoch=_INT,
        state=_STRING,
        assigned=_PARTITIONS,
        pending_revocation=_PARTITIONS,
        unknown_topics=_STRINGS,
    ),
    # `causes` are of class `history.causes.Cause`, in its order; never empty.
    "causes": _schema(**_PLACE, generation=_INT, timestamp=_TIMESTAMP, causes=_STRINGS),
    "replayed": pa.schema([*_REPLAYED, *_MEASURES, _INFERRED, _PROBLEM]),
    "metrics": pa.schema([each.with_type(_LONG) if each.type == _INT else each for each in _VERDICT]),
    "churn": _schema(date=pa.date32(), group=_STRING, cause=_STRING, generations=_LONG),
    "faults": _columns(Fault),
    "checked": _columns(CheckedGeneration),
}
"""The tables that a replay writes as Parquet, a folder each; the classes of their rows say what columns mean.
A row of `metrics` is a `history.measures.Verdict` of a day; `churn` counts generations by cause."""

SORTED = _schema(g=_BINARY, partition=_INT, offset=_LONG, key=_BINARY, micros=_LONG, value=_BINARY)
"""A record of a group on its way to a fold, sorted by all columns but the value; `g` is the group's id."""


def record_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """The rows, at least one, in the columns of `schema`; times are microseconds since 1970."""
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(dict(zip(schema.names, columns, strict=True)), schema)
