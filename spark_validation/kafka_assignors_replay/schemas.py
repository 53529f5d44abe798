"""The columns of what the archive and the replay read and write, as Arrow schemas.

A row of `RAW` is a record of `__consumer_offsets`, `ARCHIVED` adds its cluster, and a row of `TOPICS` is a
topic as it was from a moment on. All timestamps are instants, in microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

_STRING, _INT, _LONG, _BINARY = pa.string(), pa.int32(), pa.int64(), pa.binary()
_TIMESTAMP = pa.timestamp("us", "UTC")

RAW = pa.schema(
    [
        ("partition", _INT),
        ("offset", _LONG),
        ("timestamp", _TIMESTAMP),
        ("key", _BINARY),
        ("value", _BINARY),
    ]
)

ARCHIVED = RAW.append(pa.field("cluster_id", _STRING))

TOPICS = pa.schema(
    [
        ("topic", _STRING),
        ("topic_id", _STRING),
        ("from", _TIMESTAMP),
        ("partitions", _INT),
        ("replica_racks", pa.list_(pa.list_(_STRING))),
    ]
)

SORTED = pa.schema(
    [
        ("g", _BINARY),
        ("partition", _INT),
        ("offset", _LONG),
        ("key", _BINARY),
        ("micros", _LONG),
        ("value", _BINARY),
    ]
)
"""A record of a group on its way to a fold, sorted by all columns but the value; `g` is the group's id."""


def record_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """The rows, at least one, in the columns of `schema`; times are microseconds since 1970."""
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_pydict(dict(zip(schema.names, columns, strict=True)), schema)
