"""A subscription's user data, whose format depends on the name that members vote on.

| name                  | bytes                                                                          |
|-----------------------|--------------------------------------------------------------------------------|
| `sticky`              | owned partitions and generation as Java writes them, then member data if any    |
| `cooperative-sticky`  | the generation as Java writes it, then member data if any                       |
| `range`, `roundrobin` | member data if any; these strategies make nothing of a claim                    |
| any other             | member data if any                                                             |

**Member data** are a format of this package. A member writes them only to say something that Java's format
has no field for: what the strategy's `member_data` returned, and, if its client writes version 0
subscriptions or revokes before it joins, the partitions it owned last with their generation. A member that
shares one of the names above with other clients thus sends what they would send. Integers are big-endian:

    magic        4 bytes   FE 4B 41 4D  (the last three: "KAM")
    version      int16     1
    length       int32     the bytes that follow
    generation   int32     -1: none
    owned        int32     number of topics, then for each: topic (string), partitions (array of int32)
    data         int32     number of bytes, at most 65,536, then these

A later version may only append fields, and the length says where they end, so that this code reads it too.
The magic cannot begin anything that another client puts in its place: as an int32, the length of Java's
first array, and as an int16, the length of a topic's name, it is negative.

**Java's user data**: `StickyAssignor.java` [apache/kafka, clients/src/main/java/org/apache/kafka/clients/
consumer] writes the partitions that the member owned, and since version 1 the generation in which it owned
them. The format carries no version number, so a reader tries the newer one first.
`CooperativeStickyAssignor.java` writes the generation alone, since the subscription has a field for the rest.

librdkafka (`rd_kafka_sticky_assignor_get_metadata` in rdkafka_sticky_assignor.c) and franz-go
(`JoinGroupMetadata` in pkg/kgo/group_balancer.go) write the format of `sticky` under `cooperative-sticky`,
too. Java takes the number of topics in it for the generation; this module recognises it.

kafka-python 3 writes an int16, the version 1, before Java's fields, and expects it there
(`StickyAssignorUserData`, observed in 3.0.12). No other client reads this form, and kafka-python 3 reads no
other; this module reads both.

No client's reader looks at the bytes that follow: `Schema.read` in Java and `Struct.decode` in aiokafka
(aiokafka/protocol/struct.py) read field by field from a buffer and never check for its end, nor does
`ApiData.decode` in kafka-python (kafka/protocol/api_data.py); librdkafka does not read another member's
user data at all (`rd_kafka_group_MemberMetadata_consumer_read` in rdkafka_cgrp.c). Member data may therefore
follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_assignors.group import NO_GENERATION, TopicPartitions
from kafka_assignors.wire.errors import ProtocolError
from kafka_assignors.wire.reader import Reader, read_topic_partitions
from kafka_assignors.wire.writer import Writer, write_topic_partitions

if TYPE_CHECKING:  # Strategies stand on this package: their members' data have a format.
    from kafka_assignors.strategy import MemberContext, Strategy

_STICKY = "sticky"
_COOPERATIVE_STICKY = "cooperative-sticky"
_WITHOUT_CLAIMS = frozenset({"range", "roundrobin"})


def encode_user_data(strategy: Strategy, context: MemberContext, *, held: bool = False) -> bytes:
    """The user data that a member of `strategy` puts into its subscription.

    With `held`, the member goes on owning `context.owned` while it joins, and its subscription says so in a
    field of its own; the user data repeat them only where Java's format has them. Without `held`, the leader
    learns from the user data what the member owned.

    `ProtocolError` if the strategy's `member_data` are not bytes or more than 64 KiB.
    """
    data = _ask(strategy, context)
    owned = {} if held else in_order(context.owned)
    if strategy.name == _STICKY:
        shared = b""
        if context.owned or context.generation != NO_GENERATION or data:
            shared = encode_sticky_user_data(in_order(context.owned), context.generation)
        own = MemberData(data=data)
    elif strategy.name == _COOPERATIVE_STICKY:
        shared = encode_cooperative_sticky_user_data(context.generation)
        own = MemberData(owned, context.generation if owned else NO_GENERATION, data)
    elif strategy.name in _WITHOUT_CLAIMS:
        shared = b""
        own = MemberData(data=data)
    else:
        shared = b""
        own = MemberData(owned, context.generation, data)
    try:
        return shared if own == MemberData() else shared + _encode_member_data(own)
    except ProtocolError as error:
        raise error.of(f"member data of strategy {strategy.name!r}") from None


def read_user_data(name: str, reader: Reader, *, strict: bool) -> MemberData:
    """The member data in the user data at the reader's position, under the strategy of this name.

    User data of another client that do not follow Java's format are passed over, as every client does, unless
    `strict`. Member data of ours that break off are a `ProtocolError` always.
    """
    owned: TopicPartitions = {}
    generation = NO_GENERATION
    try:
        if name == _STICKY and reader.remaining:
            owned, generation = _read_sticky_user_data(reader)
        elif name == _COOPERATIVE_STICKY and reader.remaining:
            owned, generation = _read_cooperative_sticky_user_data(reader)
    except ProtocolError:
        if strict:
            raise
        return MemberData()
    if not _member_data_follow(reader):
        return MemberData(owned, generation)
    own = _read_member_data(reader)
    if own.owned or generation == NO_GENERATION:
        generation = own.generation
    return MemberData(own.owned or owned, generation, own.data)


def in_order(partitions: TopicPartitions) -> dict[str, list[int]]:
    """Sorted partitions of the topics that have any: equal claims give equal bytes.

    A broker compares the subscription of a member that joins again with the one it has, and a difference
    can make the group rebalance.
    """
    return {topic: sorted(numbers) for topic, numbers in partitions.items() if numbers}


def _ask(strategy: Strategy, context: MemberContext) -> bytes:
    data: object = strategy.member_data(context)
    if not isinstance(data, bytes):
        raise ProtocolError(
            "data", 0, f"is {type(data).__name__}, not bytes", f"member data of strategy {strategy.name!r}"
        )
    return data


MAX_DATA_BYTES = 64 * 1024

_MAGIC = b"\xfeKAM"
_VERSION = 1
_SUBJECT = "member data"


@dataclass(frozen=True, slots=True)
class MemberData:
    """The data that a member sends the leader beside its subscription."""

    owned: TopicPartitions = field(default_factory=dict)
    generation: int = NO_GENERATION
    data: bytes = b""


def _encode_member_data(member: MemberData) -> bytes:
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


def _member_data_follow(reader: Reader, *, after: int = 0) -> bool:
    """Whether `reader` stands before member data, or so many bytes away from them."""
    return reader.starts_with(_MAGIC, after=after)


def _read_member_data(reader: Reader) -> MemberData:
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


_INT32_BYTES = 4
_KAFKA_PYTHON_VERSION = b"\x00\x01"  # read as Java's, at least 65,536 topics


def encode_sticky_user_data(owned: TopicPartitions, generation: int) -> bytes:
    """Version 1 of what `StickyAssignor` sends."""
    writer = Writer("user data of sticky")
    write_topic_partitions(writer, "previous_assignment", owned)
    writer.int32("generation", generation)
    return writer.getvalue()


def _read_sticky_user_data(reader: Reader) -> tuple[dict[str, Sequence[int]], int]:
    """Owned partitions and their generation, -1 in version 0, which has none."""
    if reader.starts_with(_KAFKA_PYTHON_VERSION):
        attempt = reader.fork()
        try:
            _read_claim(attempt)
        except ProtocolError:
            reader.raw("version", len(_KAFKA_PYTHON_VERSION))
    return _read_claim(reader)


def _read_claim(reader: Reader) -> tuple[dict[str, Sequence[int]], int]:
    owned = read_topic_partitions(reader, "previous_assignment")
    # Java falls back to version 0 when what is left is too short for a generation.
    generation = reader.int32("generation") if reader.remaining >= _INT32_BYTES else NO_GENERATION
    return owned, generation


def encode_cooperative_sticky_user_data(generation: int) -> bytes:
    """The user data of Java's `CooperativeStickyAssignor`."""
    writer = Writer("user data of cooperative-sticky")
    writer.int32("generation", generation)
    return writer.getvalue()


def _read_cooperative_sticky_user_data(reader: Reader) -> tuple[dict[str, Sequence[int]], int]:
    """The generation, with the partitions owned in it where a client names them here as well."""
    if reader.remaining > _INT32_BYTES and not _member_data_follow(reader, after=_INT32_BYTES):
        attempt = reader.fork()
        try:
            claim = _read_claim(attempt)
        except ProtocolError:
            pass  # a generation with something unknown behind it, then
        else:
            if not attempt.remaining:
                return claim
    return {}, reader.int32("generation")
