"""Leader data: the user data that a leader of ours puts into every member's assignment.

Some clients do not tell an assignor in which generation it was assigned something (aiokafka's stock
`on_assignment` is given the assignment alone), but a member has to send that generation with its claim the
next time it joins. So the leader writes down the generation it formed:

    magic        4 bytes   FE 4B 41 4C  (the last three: "KAL")
    version      int16     1
    generation   int32     the generation this assignment is for

A later version may only append fields. Assignors of other clients do not look at an assignment's user data:
Java's `StickyAssignor.onAssignment` takes the partitions and asks the group metadata for the generation,
librdkafka's `rd_kafka_sticky_assignor_on_assignment_cb` does the same, and aiokafka's and kafka-python's
use `partitions()`.
"""

from __future__ import annotations

from kafka_assignors.protocol.reader import Reader
from kafka_assignors.protocol.writer import Writer

__all__ = ["decode_leader_data", "encode_leader_data"]

_MAGIC = b"\xfeKAL"
_VERSION = 1
_SUBJECT = "leader data"


def encode_leader_data(generation: int) -> bytes:
    """The bytes for an assignment of this generation."""
    writer = Writer(_SUBJECT)
    writer.raw(_MAGIC)
    writer.int16("version", _VERSION)
    writer.int32("generation", generation)
    return writer.getvalue()


def decode_leader_data(user_data: bytes) -> int | None:
    """The generation that the leader wrote; None where another client led, whose user data mean nothing here.

    `ProtocolError` if the bytes begin as ours do and then break off.
    """
    reader = Reader(user_data, _SUBJECT)
    if not reader.starts_with(_MAGIC):
        return None
    reader.raw("magic", len(_MAGIC))
    start = reader.offset
    version = reader.int16("version")
    if version < 1:
        raise reader.error("version", start, f"{version} is not a version of leader data")
    generation = reader.int32("generation")
    if version == _VERSION:
        reader.finish("generation")
    return generation
