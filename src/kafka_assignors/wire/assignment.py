"""ConsumerProtocolAssignment: what the leader answers a member, delivered by SyncGroup.

Schema: `ConsumerProtocolAssignment.json` of apache/kafka. Versions 0 to 3 have the same two fields; the
numbers only follow those of the subscription.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.group import TopicPartitions
from kafka_assignors.wire.names import Names
from kafka_assignors.wire.reader import Reader, read_topic_partitions
from kafka_assignors.wire.writer import Writer, write_topic_partitions

__all__ = ["ConsumerAssignment", "decode_assignment", "encode_assignment"]

_NEWEST_VERSION = 3
_SUBJECT = "assignment"


@dataclass(frozen=True, slots=True)
class ConsumerAssignment:
    """An assignment as it stands in the bytes.

    `version` may be newer than this code; `user_data` is empty where it is null in the bytes.
    """

    version: int
    partitions: TopicPartitions
    user_data: bytes = b""


def decode_assignment(data: bytes | bytearray | memoryview) -> ConsumerAssignment:
    """The assignment in `data`; `ProtocolError` if the bytes are not one.

    No bytes at all are no assignment here: a coordinator stores them for a member that a leader left out,
    and the caller knows whether that may happen.
    """
    reader = Reader(data, _SUBJECT)
    version = reader.int16("version")
    if version < 0:
        raise reader.error("version", 0, f"is negative: {version}")
    partitions = read_topic_partitions(reader, "assigned_partitions")
    return ConsumerAssignment(version, partitions, reader.nullable_byte_array("user_data") or b"")


def encode_assignment(assignment: ConsumerAssignment, *, names: Names | None = None) -> bytes:
    """The bytes of `assignment` in its own version; `ProtocolError` for a version not written here.

    `names` are shared by the assignments of a group.
    """
    writer = Writer(_SUBJECT, names)
    if not 0 <= assignment.version <= _NEWEST_VERSION:
        raise writer.error("version", 0, f"{assignment.version} is not one of 0 to {_NEWEST_VERSION}")
    writer.int16("version", assignment.version)
    write_topic_partitions(writer, "assigned_partitions", assignment.partitions)
    writer.byte_array("user_data", assignment.user_data)
    return writer.getvalue()
