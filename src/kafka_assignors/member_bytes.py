"""What a member writes and reads: the subscription that it joins with, and the assignment that it gets.

    the topics and the last assignment -> subscription_bytes -> its JoinGroup request
    its SyncGroup response             -> read_assignment    -> OwnAssignment

The same for every client: an adapter carries the bytes to and from its client and decides nothing. A member
takes of an assignment the partitions that can exist and belong to its subscription. The rest is a finding
that names the leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafka_assignors.group import NO_GENERATION, TopicPartitions, quoted
from kafka_assignors.strategy import MemberContext, Strategy
from kafka_assignors.wire import ProtocolError, decode_assignment, encode_member

_MOST_ASSIGNED_BYTES = 4 * 2**20
"""The most bytes of one member's assignment: room for a million partitions, more than a cluster has."""

_MOST_UNKNOWN_PARTITIONS = 1000
"""How many partitions a member takes that its metadata do not show. They may be new, and the leader's
metadata newer."""

_MISFIT = "It takes none of them, and joins again later: see which strategy that leader runs"


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """The last assignment of a member and its generation, which make the next assignment sticky.

    A member that has lost its partitions (its session expired) keeps this as it is. The generation says how
    old the claim is: a member that got the partitions later claims them with a later generation, and wins. If
    no member did, giving them back costs nothing.
    """

    partitions: TopicPartitions
    generation: int


NEVER_ASSIGNED = LastAssignment({}, NO_GENERATION)


@dataclass(frozen=True, slots=True)
class OwnAssignment:
    """The valid part of an assignment, as its member reads it.

    `findings` say what it does not take. `lacks_metadata` says that some of that is only unknown: with newer
    metadata the member may take it.
    """

    partitions: TopicPartitions
    findings: tuple[str, ...]
    lacks_metadata: bool

    @property
    def pairs(self) -> Iterator[tuple[str, int]]:
        """Topic and number of each partition."""
        return ((topic, number) for topic, numbers in self.partitions.items() for number in numbers)


def broker_assigns(group_id: str, strategies: Iterable[str]) -> str:
    """The warning to a member whose JoinGroup was answered without naming a leader.

    A coordinator does so in a group that was migrated online to KIP-848. It then assigns by itself and hands
    the result to members of the classic protocol in the SyncGroup response (`classicGroupJoinToConsumerGroup`
    in Kafka's `GroupMetadataManager`).
    """
    return (
        f"no strategy of this consumer ({', '.join(strategies)}) runs in group {group_id!r}: one of its "
        "members uses the protocol of KIP-848 (group.protocol=consumer), and as long as there is one, the "
        "broker assigns the partitions of all. The strategy runs again once the last such member has left: "
        "find them with kafka-consumer-groups.sh --describe --members --verbose, and give them "
        "group.protocol=classic"
    )


def subscription_bytes(
    strategy: Strategy,
    topics: Iterable[str],
    last: LastAssignment,
    *,
    instance_id: str | None = None,
    rack: str | None = None,
    held: bool = False,
) -> bytes:
    """The bytes of the subscription that a member joins with.

    An eager member owns nothing at this moment: the partitions that it owned until now count for stickiness,
    and no member waits for them. A cooperative member has `held` its last assignment, and keeps it while it
    joins.
    """
    subscribed = frozenset(topics)
    # Dropping a claim on a topic that is no longer subscribed is the leader's job too, but it would log it.
    owned = {name: partitions for name, partitions in last.partitions.items() if name in subscribed}
    context = MemberContext(subscribed, owned, last.generation, instance_id, rack)
    return encode_member(strategy, context, held=held)


def read_assignment(
    data: bytes, leader_id: str, subscribed: frozenset[str], partition_count: Callable[[str], int | None]
) -> OwnAssignment:
    """The valid part of the assignment in a member's SyncGroup response.

    `subscribed` are the topics of its JoinGroup request, `partition_count` says what its metadata show of
    one of them. Raises `ProtocolError` for bytes that are no assignment, or are too many.
    """
    if not data:  # A coordinator has no bytes for a member that the leader left out.
        return OwnAssignment({}, (), False)
    if len(data) > _MOST_ASSIGNED_BYTES:
        raise ProtocolError(
            "assignment", 0, f"has {len(data)} bytes, more than {_MOST_ASSIGNED_BYTES}", _of_leader(leader_id)
        )
    try:
        assigned = decode_assignment(data).partitions
    except ProtocolError as error:
        raise error.of(_of_leader(leader_id)) from None
    taken: dict[str, Sequence[int]] = {}
    foreign: list[str] = []
    refused: list[tuple[str, int]] = []  # topic, and how many of its partitions
    may_be_new = _MOST_UNKNOWN_PARTITIONS
    lacks_metadata = False
    for topic, numbers in assigned.items():
        if topic not in subscribed:
            if numbers:
                foreign.append(topic)
            continue
        count = partition_count(topic) or 0
        distinct = {*numbers}
        known = {number for number in distinct if 0 <= number < count}
        unknown = sorted(number for number in distinct if number >= count)
        taken[topic] = sorted(known.union(unknown[:may_be_new]))
        lacks_metadata |= len(unknown) > may_be_new
        may_be_new -= min(may_be_new, len(unknown))
        if surplus := len(distinct) - len(taken[topic]):
            refused.append((topic, surplus))
    return OwnAssignment(taken, (*_assignment_findings(leader_id, foreign, refused),), lacks_metadata)


def _of_leader(leader_id: str) -> str:
    return f"what the leader {quoted(leader_id)} assigned to this member"


def _assignment_findings(
    leader_id: str, foreign: Sequence[str], refused: Sequence[tuple[str, int]]
) -> Iterator[str]:
    if foreign:
        yield (
            f"the leader {quoted(leader_id)} assigned partitions of {len(foreign)} topics to this member to "
            f"which it does not subscribe, the first being {quoted(min(foreign))}. {_MISFIT}"
        )
    if refused:
        count = sum(partitions for _, partitions in refused)
        yield (
            f"the leader {quoted(leader_id)} assigned {count} partitions to this member that do not exist, "
            f"the first of topic {quoted(min(refused)[0])}. {_MISFIT}"
        )
