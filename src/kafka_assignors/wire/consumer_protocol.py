"""The embedded `consumer` protocol: a member's subscription, and its assignment from the leader.

`docs/internals/wire-format.md` has the fields. Later versions may only append, so a newer one is read as the
newest known, as Java's `ConsumerProtocol` does.

Partitions in the subscription's own field are *held*: the member consumes them while it joins (KIP-429), so
no other member may get them. Those in the user data were *revoked* before the join, and count for stickiness
alone. An eager member must never use the field: a Java leader would wait until it revokes what it no longer
has.

User data by the name that members vote on: `sticky` has owned partitions and generation as Java writes them,
`cooperative-sticky` the generation; then, under any name, **member data** if there are any: what
`member_data` returned, and the claim of a member whose client writes version 0 or revokes before it joins.
The magic of member data cannot begin anything that another client puts in its place: as an int32, the length
of Java's first array, and as an int16, the length of a topic's name, it is negative. No client's reader but
Sarama's, which fails under `sticky`, looks at the bytes that follow its own.

Java's `StickyAssignor` has had the generation since version 1 and writes no version number, so a reader tries
the newer form first. librdkafka (`rd_kafka_sticky_assignor_get_metadata`) and franz-go (`JoinGroupMetadata`)
write the form of `sticky` under `cooperative-sticky` too. kafka-python 3 writes an int16, the version 1,
before Java's fields, and expects it there (`StickyAssignorUserData`). This module reads all of them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafka_assignors.group import NO_GENERATION, Member, TopicPartitions, Warmth, detached_partitions, quoted
from kafka_assignors.wire.reader import Names, ProtocolError, Reader, read_topic_partitions
from kafka_assignors.wire.warm_sections import read_warmth, warmth_bytes
from kafka_assignors.wire.writer import Writer

if TYPE_CHECKING:
    from kafka_assignors.strategy import MemberContext, Strategy

_STICKY = "sticky"
_COOPERATIVE_STICKY = "cooperative-sticky"
_CLAIM_ELSEWHERE = frozenset({_STICKY, "range", "roundrobin"})
"""The names whose member data have no claim: it is in Java's user data, or counts for nothing."""


def encode_user_data(
    strategy: Strategy, context: MemberContext, *, held: bool = False, warmth: Warmth | None = None
) -> bytes:
    """The user data that a member of `strategy` puts into its subscription.

    With `held`, the member goes on owning `context.owned` while it joins: a field of the subscription says
    so, and the user data repeat them only where Java's format has them.

    `ProtocolError` if the strategy's `member_data` are not bytes or more than 64 KiB.
    """
    data = _ask(strategy, context)
    shared = b""
    own = MemberData({} if held else sorted_partitions(context.owned), context.generation, data, warmth)
    if strategy.name == _STICKY and (context.owned or context.generation != NO_GENERATION or data):
        shared = encode_sticky_user_data(sorted_partitions(context.owned), context.generation)
    elif strategy.name == _COOPERATIVE_STICKY:
        shared = struct.pack(">i", context.generation)
    if strategy.name in _CLAIM_ELSEWHERE or (shared and not own.owned):
        own = MemberData(data=data, warmth=warmth)
    return shared if own == MemberData() else shared + _encode_member_data(own)


def _read_user_data(name: str, reader: Reader) -> MemberData:
    """The member data in the user data at the reader's position, under the strategy of this name.

    User data of another client that do not follow Java's format are ignored, as in every client. Member data
    of ours that break off are a `ProtocolError`.
    """
    owned: TopicPartitions = {}
    generation = NO_GENERATION
    try:
        if name == _STICKY and reader.remaining:
            owned, generation = _read_sticky_user_data(reader)
        elif name == _COOPERATIVE_STICKY and reader.remaining:
            owned, generation = _read_cooperative_sticky_user_data(reader)
    except ProtocolError:
        return MemberData()
    if not reader.starts_with(_MAGIC):
        return MemberData(owned, generation)
    own = _read_member_data(reader)
    if own.owned or generation == NO_GENERATION:
        generation = own.generation
    return MemberData(own.owned or owned, generation, own.data, own.warmth)


def sorted_partitions(partitions: TopicPartitions) -> dict[str, list[int]]:
    """Sorted partitions of the topics that have any: other bytes for an equal claim can cost a rebalance."""
    return {topic: sorted(numbers) for topic, numbers in partitions.items() if numbers}


def _ask(strategy: Strategy, context: MemberContext) -> bytes:
    # A strategy may change what it is handed.
    data: object = strategy.member_data(replace(context, owned=detached_partitions(context.owned)))
    subject = f"member data of strategy {strategy.name!r}"
    if not isinstance(data, bytes):
        raise ProtocolError("data", 0, f"is {type(data).__name__}, not bytes", subject)
    if len(data) > MAX_DATA_BYTES:
        raise ProtocolError("data", 0, _TOO_MANY.format(len(data)), subject)
    return data


MAX_DATA_BYTES = 64 * 1024
_TOO_MANY = f"{{}} bytes are more than the {MAX_DATA_BYTES} allowed"

_MAGIC = b"\xfeKAM"
_VERSION = 1
_WARM_VERSION = 2
"""The version of member data with what the member announces of its warm-ups at the end."""

_SUBJECT = "member data"


@dataclass(frozen=True, slots=True)
class MemberData:
    """The data that a member sends the leader in addition to its subscription."""

    owned: TopicPartitions = field(default_factory=dict)
    generation: int = NO_GENERATION
    data: bytes = b""
    warmth: Warmth | None = None


def _encode_member_data(member: MemberData) -> bytes:
    body = Writer(_SUBJECT)
    body.int32("generation", member.generation)
    body.topic_partitions("owned", member.owned)
    body.byte_array("data", member.data)
    if member.warmth is not None:
        body.byte_array("warmth", warmth_bytes(member.warmth))

    writer = Writer(_SUBJECT)
    writer.raw(_MAGIC)
    writer.int16("version", _VERSION if member.warmth is None else _WARM_VERSION)
    writer.byte_array("body", body.getvalue())
    return writer.getvalue()


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
        raise body.error("data", start, _TOO_MANY.format(len(data)))
    if version == _VERSION:
        body.finish("data")
        return MemberData(owned, generation, data)
    return MemberData(owned, generation, data, read_warmth(body))


_INT32_BYTES = 4
_KAFKA_PYTHON_VERSION = b"\x00\x01"  # In Java's format, this begins a count of at least 65,536 topics.


def encode_sticky_user_data(owned: TopicPartitions, generation: int) -> bytes:
    """Version 1 of what `StickyAssignor` sends."""
    writer = Writer("user data of sticky")
    writer.topic_partitions("previous_assignment", owned)
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


def _read_cooperative_sticky_user_data(reader: Reader) -> tuple[dict[str, Sequence[int]], int]:
    """The generation, with the partitions owned in it where a client names them here as well."""
    if reader.remaining > _INT32_BYTES and not reader.starts_with(_MAGIC, after=_INT32_BYTES):
        attempt = reader.fork()
        try:
            claim = _read_claim(attempt)
        except ProtocolError:
            pass  # Then it is a generation with something unknown behind it.
        else:
            if not attempt.remaining:
                return claim
    return {}, reader.int32("generation")


_NEWEST_VERSION = 3

_SUBSCRIPTION = "subscription"


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription as it stands in the bytes.

    `version` may be newer than this code. `user_data` is empty where it is null in the bytes. `generation` is
    -1 and `rack` is None where the version has none; an empty rack id means none, as in Java.
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
    # Bytes that end here are complete in every version. Clients that write the fields of version 0 (aiokafka,
    # kafka-python before 3) send any version number that an assignor names. Sarama
    # (consumer_group_members.go) and franz-go (pkg/kgo/group_balancer.go) allow for it, too.
    if version >= 1 and reader.remaining:
        owned = read_topic_partitions(reader, "owned_partitions")
        if version >= 2:
            generation = reader.int32("generation_id")
        if version >= 3:
            rack = reader.nullable_string("rack_id")
    return Subscription(version, topics, user_data, owned, generation, rack or None), user_data_offset


def encode_subscription(subscription: Subscription) -> bytes:
    """The bytes of `subscription` in its own version, without the fields that this version lacks."""
    version = subscription.version
    writer = Writer(_SUBSCRIPTION)
    writer.int16("version", version)
    writer.strings("topics", subscription.topics)
    # Null if empty, as Java writes: under `sticky`, empty bytes make a leader of Sarama fail.
    writer.nullable_byte_array("user_data", subscription.user_data or None)
    if version >= 1:
        writer.topic_partitions("owned_partitions", subscription.owned)
    if version >= 2:
        writer.int32("generation_id", subscription.generation)
    if version >= 3:
        writer.nullable_string("rack_id", subscription.rack)
    return writer.getvalue()


def encode_member(
    strategy: Strategy, context: MemberContext, *, held: bool, warmth: Warmth | None = None
) -> bytes:
    """The subscription with which a member of `strategy` joins: `held`, errors as in `encode_user_data`."""
    return encode_subscription(
        Subscription(
            _NEWEST_VERSION,
            tuple(sorted(context.topics)),
            encode_user_data(strategy, context, held=held, warmth=warmth),
            sorted_partitions(context.owned) if held else {},
            context.generation,
            context.rack,
        )
    )


def decode_member(
    strategy: Strategy | str,
    member_id: str,
    metadata: bytes | bytearray | memoryview,
    instance_id: str | None = None,
    *,
    names: Names | None = None,
) -> Member:
    """The member that a leader decodes from the bytes of a member of `strategy`, a name or an object.

    The generation comes with the claim it belongs to: from the subscription with held partitions (or from
    the user data if it has no generation), from the user data with revoked ones. Nothing is judged here.
    `names` are shared by the members of a group.

    `ProtocolError`, naming the member, if the bytes are not a subscription or the member data of ours in it
    break off. If the user data of `sticky` or `cooperative-sticky` are not what Java sends, the member counts
    as one without a claim, as it does for all clients.
    """
    name = strategy if isinstance(strategy, str) else strategy.name
    reader = Reader(metadata, _SUBSCRIPTION, names=names)
    try:
        subscription, offset = _read_subscription(reader)
        user_data = Reader(
            subscription.user_data, _SUBSCRIPTION, parent="user_data", base=offset, names=reader.names
        )
        told = _read_user_data(name, user_data)
    except ProtocolError as error:
        raise error.of(f"{_SUBSCRIPTION} of member {quoted(member_id)}") from None

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
        warmth=told.warmth,
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

    Nor are empty bytes, which a coordinator stores for a member that its leader left out.
    """
    reader = Reader(data, _ASSIGNMENT)
    version = reader.int16("version")
    if version < 0:
        raise reader.error("version", 0, f"is negative: {version}")
    partitions = read_topic_partitions(reader, "assigned_partitions")
    return ConsumerAssignment(version, partitions, reader.nullable_byte_array("user_data") or b"")


def encode_assignment(assignment: ConsumerAssignment, *, names: Names | None = None) -> bytes:
    """The bytes of `assignment` in its own version; `names` are shared by the assignments of a group."""
    writer = Writer(_ASSIGNMENT, names)
    writer.int16("version", assignment.version)
    writer.topic_partitions("assigned_partitions", assignment.partitions)
    # Null if empty, as in a subscription: a member of Sarama sends them back when it joins again.
    writer.nullable_byte_array("user_data", assignment.user_data or None)
    return writer.getvalue()
