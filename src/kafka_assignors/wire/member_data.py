"""Member data: the one format of ours in a member's user data.

It carries what the subscription of Kafka has no field for: what the strategy's `member_data` returned and,
for members whose client writes version 0 subscriptions or that revoke before they join, the partitions they
owned last and the generation they owned them in. Integers are big-endian, as everywhere in Kafka:

    magic        4 bytes   FE 4B 41 4D  (the last three: "KAM")
    version      int16     1
    length       int32     the bytes that follow
    generation   int32     -1: none
    owned        int32     number of topics, then for each: topic (string), partitions (array of int32)
    data         int32     number of bytes, at most 65,536, then these

A later version may only append fields, and the length says where they end, so that this code reads it too.
The magic cannot begin anything that another client puts in its place: as an int32, the length of Java's
first array, and as an int16, the length of a topic's name, it is negative.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_assignors.group import NO_GENERATION, TopicPartitions
from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.topic_partitions import read_topic_partitions, write_topic_partitions
from kafka_assignors.wire.writer import Writer

__all__ = ["MAX_DATA_BYTES", "MemberData", "encode_member_data", "member_data_follow", "read_member_data"]

MAX_DATA_BYTES = 64 * 1024

_MAGIC = b"\xfeKAM"
_VERSION = 1
_SUBJECT = "member data"


@dataclass(frozen=True, slots=True)
class MemberData:
    """What a member tells the leader beside its subscription."""

    owned: TopicPartitions = field(default_factory=dict)
    generation: int = NO_GENERATION
    data: bytes = b""


def encode_member_data(member: MemberData) -> bytes:
    """The bytes of `member`; `ProtocolError` if `data` is longer than 64 KiB."""
    body = Writer(_SUBJECT)
    body.int32("generation", member.generation)
    write_topic_partitions(body, "owned", member.owned)
    if len(member.data) > MAX_DATA_BYTES:
        raise body.error(
            "data",
            len(body.getvalue()),
            f"{len(member.data)} bytes are more than the {MAX_DATA_BYTES} allowed",
        )
    body.byte_array("data", member.data)

    writer = Writer(_SUBJECT)
    writer.raw(_MAGIC)
    writer.int16("version", _VERSION)
    writer.byte_array("body", body.getvalue())
    return writer.getvalue()


def member_data_follow(reader: Reader, *, after: int = 0) -> bool:
    """Whether `reader` stands before member data, or so many bytes away from them."""
    return reader.starts_with(_MAGIC, after=after)


def read_member_data(reader: Reader) -> MemberData:
    """The member data that `reader` stands before; what follows them is left alone."""
    reader.raw("magic", len(_MAGIC))
    start = reader.offset
    version = reader.int16("version")
    if version < 1:
        raise reader.error("version", start, f"{version} is not a version of member data")
    body = reader.section("body")
    generation = body.int32("generation")
    owned = read_topic_partitions(body, "owned")
    start = body.offset
    data = body.byte_array("data")
    if len(data) > MAX_DATA_BYTES:
        raise body.error("data", start, f"{len(data)} bytes are more than the {MAX_DATA_BYTES} allowed")
    if version == _VERSION:
        body.finish("data")
    return MemberData(owned, generation, data)
