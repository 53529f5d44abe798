"""ConsumerProtocolSubscription: what a member sends the leader in its JoinGroup request.

Schema: `ConsumerProtocolSubscription.json` of apache/kafka. Version 1 added the owned partitions (KIP-429),
version 2 the generation they are of (KIP-792), version 3 the rack (KIP-881). Later versions may only
append, so a newer one is read as the newest known and the rest is left alone, as Java's `ConsumerProtocol`
does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_assignors.group import NO_GENERATION, TopicPartitions
from kafka_assignors.wire.errors import ProtocolError
from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.topic_partitions import read_topic_partitions, write_topic_partitions
from kafka_assignors.wire.writer import Writer

__all__ = [
    "NEWEST_VERSION",
    "Subscription",
    "decode_subscription",
    "encode_subscription",
    "read_subscription",
]

NEWEST_VERSION = 3

_SUBJECT = "subscription"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as it stands in the bytes.

    `version` is the version the bytes carry, which may be newer than this code. `user_data` is empty where
    it is null in the bytes: no client tells these two apart. `generation` is -1 and `rack` is None where
    the version has none; an empty rack id means none, as in Java.
    """

    version: int
    topics: tuple[str, ...]
    user_data: bytes = b""
    owned: TopicPartitions = field(default_factory=dict)
    generation: int = NO_GENERATION
    rack: str | None = None


def decode_subscription(data: bytes | bytearray | memoryview) -> Subscription:
    """The subscription in `data`; `ProtocolError` if the bytes are not one."""
    subscription, _ = read_subscription(Reader(data, _SUBJECT))
    return subscription


def read_subscription(reader: Reader) -> tuple[Subscription, int]:
    """The subscription that `reader` stands before, and the offset of its user data."""
    version = reader.int16("version")
    if version < 0:
        raise reader.error("version", 0, f"is negative: {version}")
    topics = reader.strings("topics")
    user_data = reader.nullable_byte_array("user_data") or b""
    user_data_offset = reader.offset - len(user_data)
    owned: TopicPartitions = {}
    generation = NO_GENERATION
    rack = None
    # Bytes that end here are complete whatever version they claim. Clients whose structure is that of version
    # 0 (aiokafka's, kafka-python's before 3) put any number an assignor names before it, and so do others:
    # Sarama (consumer_group_members.go) and franz-go (pkg/kgo/group_balancer.go) allow for it, too.
    if version >= 1 and reader.remaining:
        owned = read_topic_partitions(reader, "owned_partitions")
        if version >= 2:
            generation = reader.int32("generation_id")
        if version >= 3:
            rack = reader.nullable_string("rack_id")
    return Subscription(version, topics, user_data, owned, generation, rack or None), user_data_offset


def encode_subscription(subscription: Subscription) -> bytes:
    """The bytes of `subscription` in its own version.

    `ProtocolError` for a version that this code does not write, and for a field that the version cannot
    carry.
    """
    version = subscription.version
    writer = Writer(_SUBJECT)
    if not 0 <= version <= NEWEST_VERSION:
        raise writer.error("version", 0, f"{version} is not one of 0 to {NEWEST_VERSION}")
    _require(version, 1, "owned_partitions", not subscription.owned)
    _require(version, 2, "generation_id", subscription.generation == NO_GENERATION)
    _require(version, 3, "rack_id", subscription.rack is None)

    writer.int16("version", version)
    for topic in writer.items("topics", subscription.topics):
        writer.string("", topic)
    # Never null: Kafka 0.9 could not read that, which is why librdkafka writes it so as well.
    writer.byte_array("user_data", subscription.user_data)
    if version >= 1:
        write_topic_partitions(writer, "owned_partitions", subscription.owned)
    if version >= 2:
        writer.int32("generation_id", subscription.generation)
    if version >= 3:
        writer.nullable_string("rack_id", subscription.rack)
    return writer.getvalue()


def _require(version: int, since: int, field: str, unset: bool) -> None:
    if version < since and not unset:
        raise ProtocolError(
            field, 0, f"exists since version {since} and cannot be sent in version {version}", _SUBJECT
        )
