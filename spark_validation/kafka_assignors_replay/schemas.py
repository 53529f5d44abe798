"""The tables that the replay and the archive read and write, column by column, as Arrow schemas.

| table | a row is | key |
|---|---|---|
| `raw` | a record of `__consumer_offsets`, offset commits left out | partition, offset |
| `archived` | a `raw` record in an archive, with the cluster that it is from | partition, offset |
| `topics` | a topic as it was from a moment on: the catalogue | topic, from |
| `generations` | a generation of a group with its place in the group's life | group, offset |
| `members` | a member of a generation: what it asked for and what it got | group, offset, member_id |
| `assignments` | a topic of which a member of a generation got partitions | group, offset, member_id, topic |
| `current` | how far a member of a KIP-848 group has come on its way to its assignment | group, offset |
| `causes` | why a generation was formed | group, offset |
| `replayed` | a rebalance under one strategy in one mode, measured | group, offset, strategy, mode |
| `metrics` | a day of a group under one strategy in one mode, summed up | date, group, strategy, mode |
| `churn` | a day of a group: how many generations a cause made | date, group, cause |
| `faults` | a day of a client that made a group rebalance, or a deployment | – |
| `checked` | a recorded generation compared with the replay of its strategy | group, offset |

A generation's number is no key: a static member's replacement writes the same generation again, and a
deleted group starts from 0. That of a KIP-848 group is the group's epoch. All timestamps are instants, in
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

_STRING, _INT, _LONG, _BOOL = pa.string(), pa.int32(), pa.int64(), pa.bool_()
_BINARY, _DOUBLE, _DATE = pa.binary(), pa.float64(), pa.date32()
_TIMESTAMP = pa.timestamp("us", "UTC")
_STRINGS = pa.list_(_STRING)
_NUMBERS = pa.list_(_INT)
_PARTITIONS = pa.map_(_STRING, _NUMBERS)


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


_OF_TYPES: dict[Any, pa.DataType] = {
    str: _STRING,
    Mode: _STRING,
    FaultKind: _STRING,
    CheckOutcome: _STRING,
    bool: _BOOL,
    float: _DOUBLE,
    date: _DATE,
    datetime: _TIMESTAMP,
    tuple[str, ...]: _STRINGS,
    Sequence[str]: _STRINGS,
    TopicPartitions: _PARTITIONS,
}


def _columns(
    kind: Any, names: Sequence[str] = (), whole: pa.DataType = _INT, **own: pa.DataType
) -> pa.Schema:
    """The columns for the fields of a class, and `own` columns: all of them, or those in `names`. `whole` is
    the type of integers."""
    hints = get_type_hints(kind)
    types: dict[Any, pa.DataType] = {**_OF_TYPES, int: whole}

    def type_of(name: str) -> pa.DataType:
        if name in own:
            return own[name]
        if name == "offset":
            return _LONG
        return next(types[each] for each in (hints[name], *get_args(hints[name])) if each in types)

    return _schema(**{name: type_of(name) for name in names or (*hints, *own)})


def _replayed() -> pa.Schema:
    """The columns for the fields of a `Replayed`, with one for each measure in place of `measures`."""
    *place, inferred, problem = _columns(Replayed, [each for each in Replayed._fields if each != "measures"])
    return pa.schema([*place, *_columns(Measures), inferred, problem])


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

TABLES: dict[str, pa.Schema] = {
    "generations": _columns(
        Generation,
        GENERATIONS,
        gap_before=_BOOL,
        facts=pa.list_(pa.struct([("fact", _STRING), ("subject", _STRING)])),
        member_count=_INT,
        clients=_STRINGS,
        topics=_STRINGS,
        holds=_BOOL,
    ),
    "members": _columns(MemberRecord, MEMBERS, **_OF_GENERATION, client=_STRING),
    "assignments": _schema(**_OF_GENERATION, member_id=_STRING, topic=_STRING, partitions=_NUMBERS),
    # `epoch` is the group epoch that the member has reached, -2 for a static member that is away, null where
    # the record is the end of the member; the rest is null then. `state` is "stable", "unrevoked partitions"
    # (it has yet to revoke `pending_revocation`), "unreleased partitions" (it waits for others to revoke) or
    # "unknown".
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
    "replayed": _replayed(),
    "metrics": _columns(Verdict, whole=_LONG, date=_DATE),
    "churn": _schema(date=_DATE, group=_STRING, cause=_STRING, generations=_LONG),
    "faults": _columns(Fault),
    "checked": _columns(CheckedGeneration),
}
"""The tables that a replay writes as Parquet, a folder each; the classes of their rows say what columns mean.
A row of `metrics` is a `history.measures.Verdict` of one day."""

SORTED = _schema(g=_BINARY, partition=_INT, offset=_LONG, key=_BINARY, micros=_LONG, value=_BINARY)
"""A record of a group on its way to a fold, sorted by all columns but the value; `g` is the group's id."""


def record_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """The rows, at least one, in the columns of `schema`; times are microseconds since 1970."""
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(dict(zip(schema.names, columns, strict=True)), schema)
