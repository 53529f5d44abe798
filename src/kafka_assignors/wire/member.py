"""A whole member: from what it knows of itself to the bytes it joins with, and on to what a leader sees.

Partitions reach the leader in one of two places, and the place has a meaning. Those in the subscription's
own field are held: the member goes on consuming them while it joins (KIP-429), so nobody may get them
before it has given them up. Those in the user data were revoked before the join: they count for stickiness
and for nothing else. An eager member must therefore never use the field. A Java leader would wait for it to
give up what it no longer has, and since an eager member has nothing left to revoke, it would never rejoin
and the partitions would stay without a consumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_assignors.group import NO_GENERATION, Member, TopicPartitions, quoted
from kafka_assignors.wire.errors import ProtocolError
from kafka_assignors.wire.names import Names
from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.subscription import (
    NEWEST_VERSION,
    Subscription,
    encode_subscription,
    read_subscription,
)
from kafka_assignors.wire.user_data import encode_user_data, in_order, read_user_data

if TYPE_CHECKING:  # Strategies stand on this package: their members' data have a format.
    from kafka_assignors.strategy import MemberContext, Strategy

__all__ = ["decode_member", "encode_member"]


def encode_member(
    strategy: Strategy, context: MemberContext, *, held: bool, version: int = NEWEST_VERSION
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
    """What the leader of a group learns from the bytes of a member that runs `strategy`, or the one so named.

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
    subscription, offset = read_subscription(reader)
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
