"""A subscription's user data, whose format depends on the name that members vote on.

| name                  | bytes                                                                          |
|-----------------------|--------------------------------------------------------------------------------|
| `sticky`              | owned partitions and generation as Java writes them, then member data if any    |
| `cooperative-sticky`  | the generation as Java writes it, then member data if any                       |
| `range`, `roundrobin` | member data if any; these strategies make nothing of a claim                    |
| any other             | member data if any                                                             |

Member data (see `member_data`) are written only where there is something to say that Java's format has no
place for. A member that shares these names with other clients thus sends what they would send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_assignors.group import NO_GENERATION, TopicPartitions
from kafka_assignors.wire.errors import ProtocolError
from kafka_assignors.wire.member_data import (
    MemberData,
    encode_member_data,
    member_data_follow,
    read_member_data,
)
from kafka_assignors.wire.reader import Reader
from kafka_assignors.wire.sticky_user_data import (
    encode_cooperative_sticky_user_data,
    encode_sticky_user_data,
    read_cooperative_sticky_user_data,
    read_sticky_user_data,
)

if TYPE_CHECKING:  # Strategies stand on this package: their members' data have a format.
    from kafka_assignors.strategy import MemberContext, Strategy

__all__ = ["encode_user_data", "read_user_data"]

_STICKY = "sticky"
_COOPERATIVE_STICKY = "cooperative-sticky"
_WITHOUT_CLAIMS = frozenset({"range", "roundrobin"})


def encode_user_data(strategy: Strategy, context: MemberContext, *, held: bool = False) -> bytes:
    """The user data that a member of `strategy` puts into its subscription.

    With `held`, the member goes on owning `context.owned` while it joins, and its subscription says so in a
    field of its own: then they are not repeated here, except where Java's format has them anyway. Without,
    this is where the leader learns what the member owned.

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
        return shared if own == MemberData() else shared + encode_member_data(own)
    except ProtocolError as error:
        raise error.of(f"member data of strategy {strategy.name!r}") from None


def read_user_data(name: str, reader: Reader, *, strict: bool) -> MemberData:
    """What a member says in the user data that `reader` stands before, under the strategy of this name.

    User data of another client that do not follow Java's format are passed over, as every client does, unless
    `strict`. Member data of ours that break off are a `ProtocolError` always.
    """
    owned: TopicPartitions = {}
    generation = NO_GENERATION
    try:
        if name == _STICKY and reader.remaining:
            owned, generation = read_sticky_user_data(reader)
        elif name == _COOPERATIVE_STICKY and reader.remaining:
            owned, generation = read_cooperative_sticky_user_data(reader)
    except ProtocolError:
        if strict:
            raise
        return MemberData()
    if not member_data_follow(reader):
        return MemberData(owned, generation)
    own = read_member_data(reader)
    if own.owned or generation == NO_GENERATION:
        generation = own.generation
    return MemberData(own.owned or owned, generation, own.data)


def in_order(partitions: TopicPartitions) -> dict[str, list[int]]:
    """Sorted partitions of the topics that have any: the same claim in the same bytes, whoever held it how.

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
