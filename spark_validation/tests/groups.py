"""Histories for tests: groups, their generations and the bytes a coordinator would have written of them.

A `Log` is one partition of the offsets topic. What is appended are real bytes of the wire format, in records
as a consumer would read them; offsets count up from 0 and each record is a second younger than the one
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_assignors.protocol import (
    ConsumerAssignment,
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
    Subscription,
    encode_assignment,
    encode_group_metadata,
    encode_key,
    encode_subscription,
)

START = datetime(2026, 3, 1, tzinfo=timezone.utc)

RAW_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
TOPICS_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("topic_id", pa.string()),
        ("from", pa.timestamp("us", "UTC")),
        ("partitions", pa.int32()),
        ("replica_racks", pa.list_(pa.list_(pa.string()))),
    ]
)

Partitions = Mapping[str, Sequence[int]]


def member(
    name: str,
    topics: Iterable[str] = ("orders",),
    gets: Partitions | None = None,
    *,
    owned: Partitions | None = None,
    generation: int = -1,
    instance: str | None = None,
    client: str = "java",
) -> GroupMember:
    """A member of a generation; `owned` makes it one that holds partitions while it joins."""
    subscription = Subscription(3, tuple(topics), b"", owned or {}, generation)
    return GroupMember(
        member_id=name,
        client_id=f"{client}-{name}",
        client_host="/127.0.0.1",
        session_timeout_ms=45_000,
        subscription=encode_subscription(subscription),
        assignment=encode_assignment(ConsumerAssignment(0, gets or {}, b"")),
        rebalance_timeout_ms=60_000,
        instance_id=instance,
    )


@dataclass
class Log:
    """The records of one partition, oldest first."""

    partition: int = 0
    records: list[dict[str, object]] = field(default_factory=list)

    def append(self, key: bytes | None, value: bytes | None) -> None:
        offset = len(self.records)
        timestamp = START + timedelta(seconds=offset)
        self.records.append(
            {
                "partition": self.partition,
                "offset": offset,
                "timestamp": timestamp,
                "key": key,
                "value": value,
            }
        )

    def generation(
        self, group: str, number: int, *members: GroupMember, protocol: str = "range", kind: str = "consumer"
    ) -> None:
        """A generation as its coordinator writes it; the first member leads, without members it is empty."""
        value = GroupMetadata(
            version=3,
            protocol_type=kind,
            generation=number,
            protocol=protocol if members else None,
            leader=members[0].member_id if members else None,
            state_timestamp_ms=0,
            members=members,
        )
        self.append(encode_key(GroupMetadataKey(group)), encode_group_metadata(value))

    def tombstone(self, group: str) -> None:
        self.append(encode_key(GroupMetadataKey(group)), None)

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.records, RAW_SCHEMA)


def write_history(folder: Path, log: Log, topics: Mapping[str, int] | None = None) -> str:
    """A history directory with these records, and a catalogue if there are `topics` (partition counts)."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(log.table(), folder / "raw.parquet")
    if topics is not None:
        rows = [
            {"topic": name, "topic_id": name, "from": START, "partitions": count, "replica_racks": None}
            for name, count in topics.items()
        ]
        pq.write_table(pa.Table.from_pylist(rows, TOPICS_SCHEMA), folder / "topics.parquet")
    return str(folder)
