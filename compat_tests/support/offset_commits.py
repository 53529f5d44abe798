"""The value of an offset commit in `__consumer_offsets`: the committed offset of one partition.

Schema: `OffsetCommitValue.json` in group-coordinator/src/main/resources/common/message of apache/kafka.
Version 1 has an expiry time, which version 2 dropped, version 3 added the leader epoch, and version 4 is the
first flexible one, with the topic's id as a tagged field.
"""

from __future__ import annotations

from dataclasses import dataclass

from compat_tests.support.group_records import RecordWriter
from kafka_assignors_replay.history.consumer_offsets import RecordReader

_NEWEST_COMMIT_VERSION = 4
_FIRST_FLEXIBLE_COMMIT_VERSION = 4
_COMMIT_SUBJECT = "offset commit"
_TOPIC_ID_TAG = 0


@dataclass(frozen=True, slots=True)
class OffsetCommit:
    """A committed offset: `offset` is that of the next record to read.

    `timestamp_ms` is when the coordinator took the commit, in milliseconds since the epoch. `leader_epoch` is
    -1 where it is unknown and before version 3, `expire_timestamp_ms` -1 in all versions but 1. `topic_id` is
    None where the record does not have one.
    """

    version: int
    offset: int
    metadata: str
    timestamp_ms: int
    leader_epoch: int = -1
    expire_timestamp_ms: int = -1
    topic_id: str | None = None


def decode_offset_commit(data: bytes | bytearray | memoryview) -> OffsetCommit:
    """The commit in the value of a record; `ProtocolError` if the bytes do not follow the schema."""
    reader = RecordReader(data, _COMMIT_SUBJECT)
    version = reader.int16("version")
    if not 0 <= version <= _NEWEST_COMMIT_VERSION:
        raise reader.error(
            "version", 0, f"{version} is not known: this reads versions 0 to {_NEWEST_COMMIT_VERSION}"
        )
    reader.flexible = version >= _FIRST_FLEXIBLE_COMMIT_VERSION
    offset = reader.int64("offset")
    leader_epoch = reader.int32("leader_epoch") if version >= 3 else -1
    metadata = reader.string("metadata")
    timestamp_ms = reader.int64("commit_timestamp")
    expire_timestamp_ms = reader.int64("expire_timestamp") if version == 1 else -1
    topic_id = None
    if reader.flexible:
        for tag in reader.tagged_fields("tagged_fields"):
            if tag == _TOPIC_ID_TAG:
                topic_id = reader.uuid("topic_id")
    reader.finish("tagged_fields" if reader.flexible else "commit_timestamp")
    return OffsetCommit(version, offset, metadata, timestamp_ms, leader_epoch, expire_timestamp_ms, topic_id)


def encode_offset_commit(value: OffsetCommit) -> bytes:
    """The bytes of `value` in its own version; fields that the version lacks are left out."""
    version = value.version
    writer = RecordWriter.of_version(_COMMIT_SUBJECT, version)
    writer.int64("offset", value.offset)
    if version >= 3:
        writer.int32("leader_epoch", value.leader_epoch)
    writer.string("metadata", value.metadata)
    writer.int64("commit_timestamp", value.timestamp_ms)
    if version == 1:
        writer.int64("expire_timestamp", value.expire_timestamp_ms)
    if writer.flexible:
        writer.tagged_fields({} if value.topic_id is None else {_TOPIC_ID_TAG: _uuid(value.topic_id)})
    return writer.getvalue()


def _uuid(value: str) -> bytes:
    writer = RecordWriter(_COMMIT_SUBJECT)
    writer.uuid("topic_id", value)
    return writer.getvalue()
