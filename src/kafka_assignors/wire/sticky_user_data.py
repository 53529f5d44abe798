"""Java's user data under the names `sticky` and `cooperative-sticky`.

`StickyAssignor.java` [apache/kafka, clients/src/main/java/org/apache/kafka/clients/consumer] writes what
the member owned, and since version 1 the generation in which it did; the format carries no version number,
so a reader tries the newer one first. `CooperativeStickyAssignor.java` writes the generation alone, since
the subscription has a field for the rest.

librdkafka (`rd_kafka_sticky_assignor_get_metadata` in rdkafka_sticky_assignor.c) and franz-go
(`JoinGroupMetadata` in pkg/kgo/group_balancer.go) write the format of `sticky` under `cooperative-sticky`,
too. Java takes the number of topics in it for the generation; here it is recognised.

kafka-python 3 puts an int16, the version 1, before what Java writes, and expects it there
(`StickyAssignorUserData`, observed in 3.0.12): no other client understands it, nor it any other. Here it is
recognised.

None of the readers looks at what follows: `Schema.read` in Java and `Struct.decode` in aiokafka
(aiokafka/protocol/struct.py) read field by field from a buffer and never ask whether it has ended, nor does
`ApiData.decode` in kafka-python (kafka/protocol/api_data.py); librdkafka does not read another member's
user data at all (`rd_kafka_group_MemberMetadata_consumer_read` in rdkafka_cgrp.c). Member data of ours may
therefore follow.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_assignors.group import NO_GENERATION, TopicPartitions
from kafka_assignors.wire.errors import ProtocolError
from kafka_assignors.wire.member_data import member_data_follow
from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.topic_partitions import read_topic_partitions, write_topic_partitions
from kafka_assignors.wire.writer import Writer

__all__ = [
    "encode_cooperative_sticky_user_data",
    "encode_sticky_user_data",
    "read_cooperative_sticky_user_data",
    "read_sticky_user_data",
]

_INT32_BYTES = 4
_KAFKA_PYTHON_VERSION = b"\x00\x01"  # read as Java's, at least 65,536 topics


def encode_sticky_user_data(owned: TopicPartitions, generation: int) -> bytes:
    """Version 1 of what `StickyAssignor` sends."""
    writer = Writer("user data of sticky")
    write_topic_partitions(writer, "previous_assignment", owned)
    writer.int32("generation", generation)
    return writer.getvalue()


def read_sticky_user_data(reader: Reader) -> tuple[dict[str, Sequence[int]], int]:
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
    """What `CooperativeStickyAssignor` sends."""
    writer = Writer("user data of cooperative-sticky")
    writer.int32("generation", generation)
    return writer.getvalue()


def read_cooperative_sticky_user_data(reader: Reader) -> tuple[dict[str, Sequence[int]], int]:
    """The generation, with the partitions owned in it where a client names them here as well."""
    if reader.remaining > _INT32_BYTES and not member_data_follow(reader, after=_INT32_BYTES):
        attempt = reader.fork()
        try:
            claim = _read_claim(attempt)
        except ProtocolError:
            pass  # a generation with something unknown behind it, then
        else:
            if not attempt.remaining:
                return claim
    return {}, reader.int32("generation")
