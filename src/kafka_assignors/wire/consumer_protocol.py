"""The embedded `consumer` protocol: a member's subscription, and the assignment that the leader answers.

ConsumerProtocolSubscription is in the JoinGroup request, ConsumerProtocolAssignment in the SyncGroup
response. The schemas are the two JSON files of these names in apache/kafka. Version 1 of the subscription
added the owned partitions (KIP-429), version 2 the generation they are of (KIP-792), version 3 the rack
(KIP-881). Later versions may only append, so a newer one is read as the newest known and the rest is left
alone, as Java's `ConsumerProtocol` does. Versions 0 to 3 of the assignment have the same two fields; the
numbers only follow those of the subscription.

Partitions reach the leader in one of two places, and the place has a meaning. Those in the subscription's
own field are held: the member goes on consuming them while it joins (KIP-429), so no other member may get
them before it has given them up. Those in the user data were revoked before the join: they count for
stickiness alone. An eager member must therefore never use the field. A Java leader would wait for it to give
up partitions that it no longer has, and since an eager member has nothing left to revoke, it would never
rejoin and the partitions would stay without a consumer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka_assignors.group import NO_GENERATION, Member, TopicPartitions, quoted
from kafka_assignors.wire.errors import ProtocolError
from kafka_assignors.wire.reader import Names, Reader, read_topic_partitions
from kafka_assignors.wire.user_data import encode_user_data, in_order, read_user_data
from kafka_assignors.wire.writer import Writer, write_topic_partitions

if TYPE_CHECKING:  # Strategies stand on this package: their members' data have a format.
    from kafka_assignors.strategy import MemberContext, Strategy

_NEWEST_VERSION = 3

_SUBSCRIPTION = "subscription"


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
    subscription, _ = _read_subscription(Reader(data, _SUBSCRIPTION))
    return subscription


def _read_subscription(reader: Reader) -> tuple[Subscription, int]:
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
    # Bytes that end here are complete in every version. Clients whose structure is that of version 0
    # (aiokafka's, kafka-python's before 3) put any number an assignor names before it, and so do others:
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
    writer = Writer(_SUBSCRIPTION)
    if not 0 <= version <= _NEWEST_VERSION:
        raise writer.error("version", 0, f"{version} is not one of 0 to {_NEWEST_VERSION}")
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
            field, 0, f"exists since version {since} and cannot be sent in version {version}", _SUBSCRIPTION
        )


def encode_member(
    strategy: Strategy, context: MemberContext, *, held: bool, version: int = _NEWEST_VERSION
) -> bytes:
    """The subscription with which a member of `strategy` joins.

    `held` says that it goes on owning `context.owned` while it joins; an eager member passes False.
    `version` is that of the subscription: what it has no field for (the generation before 2, the rack
    before 3) goes into the user data or is left out.

    `ProtocolError` if something does not fit the format, or for partitions held in version 0, which cannot
    say so.
    """
    if held and context.owned and version < 1:
        raise ProtocolError(
            "owned_partitions", 0, "held partitions cannot be sent in version 0", "subscription"
        )
    return encode_subscription(
        Subscription(
            version,
            tuple(sorted(context.topics)),
            encode_user_data(strategy, context, held=held),
            in_order(context.owned) if held else {},
            context.generation if version >= 2 else NO_GENERATION,
            context.rack if version >= 3 else None,
        )
    )


def decode_member(
    strategy: Strategy | str,
    member_id: str,
    metadata: bytes | bytearray | memoryview,
    instance_id: str | None = None,
    *,
    strict: bool = False,
    names: Names | None = None,
) -> Member:
    """The member that the leader decodes from the bytes of a member that runs `strategy`, given by name or
    object.

    The generation comes with the claim it belongs to: from the subscription with held partitions (or from
    the user data if it has no generation), from the user data with revoked ones. Nothing is judged here.

    `names` are shared by the members of a group, which mostly name the same topics; members with the same
    subscription then have the same set of topics, which makes it quick to find out.

    `ProtocolError`, naming the member, if the bytes are not a subscription or the member data of ours in it
    break off; with `strict`, also if the user data of `sticky` or `cooperative-sticky` are not what Java
    sends. Otherwise such a member counts as one without a claim, as it does for all clients.
    """
    name = strategy if isinstance(strategy, str) else strategy.name
    subject = f"subscription of member {quoted(member_id)}"
    reader = Reader(metadata, subject, names=names)
    subscription, offset = _read_subscription(reader)
    user_data = Reader(subscription.user_data, subject, parent="user_data", base=offset, names=reader.names)
    told = read_user_data(name, user_data, strict=strict)

    owned = _without_empty(subscription.owned)
    generation = told.generation if subscription.generation < 0 else subscription.generation
    revoked = False
    if not owned:
        owned = _without_empty(told.owned)
        revoked = bool(owned)
        if revoked:
            generation = told.generation
    return Member(
        id=member_id,
        topics=reader.names.as_set(subscription.topics),
        instance_id=instance_id,
        rack=subscription.rack,
        owned=owned,
        generation=generation,
        revoked=revoked,
        data=told.data,
    )


def _without_empty(owned: TopicPartitions) -> TopicPartitions:
    if all(owned.values()):
        return owned
    return {topic: numbers for topic, numbers in owned.items() if numbers}


_ASSIGNMENT = "assignment"


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
    reader = Reader(data, _ASSIGNMENT)
    version = reader.int16("version")
    if version < 0:
        raise reader.error("version", 0, f"is negative: {version}")
    partitions = read_topic_partitions(reader, "assigned_partitions")
    return ConsumerAssignment(version, partitions, reader.nullable_byte_array("user_data") or b"")


def encode_assignment(assignment: ConsumerAssignment, *, names: Names | None = None) -> bytes:
    """The bytes of `assignment` in its own version; `ProtocolError` for a version not written here.

    `names` are shared by the assignments of a group.
    """
    writer = Writer(_ASSIGNMENT, names)
    if not 0 <= assignment.version <= _NEWEST_VERSION:
        raise writer.error("version", 0, f"{assignment.version} is not one of 0 to {_NEWEST_VERSION}")
    writer.int16("version", assignment.version)
    write_topic_partitions(writer, "assigned_partitions", assignment.partitions)
    writer.byte_array("user_data", assignment.user_data)
    return writer.getvalue()
