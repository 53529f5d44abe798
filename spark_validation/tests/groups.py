"""Histories for tests: groups, their generations, and the bytes that a coordinator would write for them.

A `Log` is one partition of the offsets topic. Its records have real bytes of the wire format, as a consumer
would read them. Offsets count up from 0, and each record is one second later than the previous one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from compat_tests.support.group_records import encode_consumer_group_value, encode_group_metadata, encode_key
from kafka_assignors.wire import ConsumerAssignment, Subscription, encode_assignment, encode_subscription
from kafka_assignors_replay.history import kip848_records
from kafka_assignors_replay.history.consumer_offsets import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    GroupMember,
    GroupMetadata,
    GroupMetadataKey,
)
from kafka_assignors_replay.schemas import RAW, TOPICS

START = datetime(2026, 3, 1, tzinfo=timezone.utc)

Partitions = Mapping[str, Sequence[int]]
ALL, LOW, HIGH = {"orders": (0, 1, 2, 3)}, {"orders": (0, 1)}, {"orders": (2, 3)}


def topic_id(topic: str) -> str:
    """A topic id for this name, in Kafka's format."""
    return base64.urlsafe_b64encode(hashlib.md5(topic.encode()).digest()).rstrip(b"=").decode()


def by_id(share: Partitions) -> dict[str, tuple[int, ...]]:
    return {topic_id(topic): tuple(numbers) for topic, numbers in share.items()}


def new_member(
    topics: Iterable[str] = ("orders",),
    *,
    instance: str | None = None,
    pattern: str | None = None,
    assignor: str | None = None,
    client: str = "java",
) -> kip848_records.ConsumerGroupMember:
    """A member of a KIP-848 group, as it describes itself."""
    return kip848_records.ConsumerGroupMember(
        instance, None, client, "/127.0.0.1", tuple(topics), pattern, assignor
    )


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
    """A member of a generation; with `owned` it holds partitions while it joins."""
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
    """The records of one partition, oldest first; each method appends to them and returns the log."""

    partition: int = 0
    records: list[dict[str, Any]] = field(default_factory=list)

    def append(self, key: bytes | None, value: bytes | None) -> Log:
        offset = len(self.records)
        row = (self.partition, offset, START + timedelta(seconds=offset), key, value)
        self.records.append(dict(zip(RAW.names, row, strict=True)))
        return self

    def generation(
        self, group: str, number: int, *members: GroupMember, protocol: str = "range", kind: str = "consumer"
    ) -> Log:
        """Append a generation as its coordinator writes it; the first member, if any, leads."""
        value = GroupMetadata(
            version=3,
            protocol_type=kind,
            generation=number,
            protocol=protocol if members else None,
            leader=members[0].member_id if members else None,
            state_timestamp_ms=0,
            members=members,
        )
        return self.append(encode_key(GroupMetadataKey(group)), encode_group_metadata(value))

    def three_generations(self, group: str) -> Log:
        """Append three generations: one member has all, shares with another, and has all again."""
        self.generation(group, 1, member("a", gets=ALL))
        self.generation(group, 2, member("a", gets=LOW), member("b", gets=HIGH))
        return self.generation(group, 3, member("a", gets=ALL))

    def tombstone(self, group: str) -> Log:
        return self.append(encode_key(GroupMetadataKey(group)), None)

    # The records of KIP-848 groups, as the broker writes them.

    def part(
        self,
        group: str,
        kind: ConsumerGroupRecord,
        value: kip848_records.ConsumerGroupValue | None,
        member_id: str | None = None,
        pattern: str | None = None,
    ) -> Log:
        """Append any record of a KIP-848 group, or a tombstone if `value` is None."""
        key = encode_key(ConsumerGroupKey(kind, group, member_id, pattern))
        return self.append(key, None if value is None else encode_consumer_group_value(value))

    def describes(self, group: str, member_id: str, member: kip848_records.ConsumerGroupMember) -> Log:
        return self.part(group, ConsumerGroupRecord.MEMBER_METADATA, member, member_id)

    def epoch(self, group: str, number: int, metadata_hash: int = 1) -> Log:
        return self.part(
            group, ConsumerGroupRecord.METADATA, kip848_records.GroupEpoch(number, metadata_hash)
        )

    def target(self, group: str, member_id: str, share: Partitions) -> Log:
        value = kip848_records.TargetAssignment(by_id(share))
        return self.part(group, ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER, value, member_id)

    def targets(self, group: str, epoch: int, shares: Mapping[str, Partitions]) -> Log:
        """Append the targets of these members, and the record that completes the targets of the epoch."""
        for member_id, share in shares.items():
            self.target(group, member_id, share)
        return self.part(
            group, ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA, kip848_records.TargetAssignmentEpoch(epoch)
        )

    def assigns(
        self,
        group: str,
        epoch: int,
        shares: Mapping[str, Partitions],
        metadata_hash: int = 1,
        **described: kip848_records.ConsumerGroupMember,
    ) -> Log:
        """Append the descriptions of members that join or change, the epoch, and its targets."""
        for member_id, each in described.items():
            self.describes(group, member_id, each)
        return self.epoch(group, epoch, metadata_hash).targets(group, epoch, shares)

    def resolves(self, group: str, pattern: str, *topics: str) -> Log:
        """Append the topics that match a pattern."""
        resolved = kip848_records.ResolvedRegularExpression(topics)
        return self.part(group, ConsumerGroupRecord.REGULAR_EXPRESSION, resolved, pattern=pattern)

    def progresses(self, group: str, member_id: str) -> Log:
        """Append that a member has come further."""
        value = kip848_records.CurrentAssignment()
        return self.part(group, ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT, value, member_id)

    def removes(self, group: str, *member_ids: str) -> Log:
        """Append the tombstones of each member, in the broker's order."""
        for member_id in member_ids:
            for kind in (
                ConsumerGroupRecord.CURRENT_MEMBER_ASSIGNMENT,
                ConsumerGroupRecord.TARGET_ASSIGNMENT_MEMBER,
                ConsumerGroupRecord.MEMBER_METADATA,
            ):
                self.part(group, kind, None, member_id)
        return self

    def deletes(self, group: str) -> Log:
        """Append the tombstones of a KIP-848 group without members."""
        self.part(group, ConsumerGroupRecord.TARGET_ASSIGNMENT_METADATA, None)
        self.part(group, ConsumerGroupRecord.PARTITION_METADATA, None)
        return self.part(group, ConsumerGroupRecord.METADATA, None)

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.records, RAW)


def write_history(folder: Path, log: Log, topics: Mapping[str, int] | None = None) -> str:
    """Write a history directory with these records, and a catalogue for `topics` (partition counts)."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(log.table(), folder / "raw.parquet")
    if topics is not None:
        rows = ((name, topic_id(name), START, count, None) for name, count in topics.items())
        table = pa.Table.from_pylist([dict(zip(TOPICS.names, row, strict=True)) for row in rows], TOPICS)
        pq.write_table(table, folder / "topics.parquet")
    return str(folder)
