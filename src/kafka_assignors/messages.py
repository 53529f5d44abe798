"""The bytes of JoinGroup and SyncGroup: what a member and the leader of its group write and read.

    member   topics and last assignment            `Assignor`           its JoinGroup request
    leader   its JoinGroup response                read_members         DecodedMembers
    leader   metadata of `DecodedMembers.topics`   topics_from          topics
    leader   members and topics                    encode_assignments   its SyncGroup request
    member   its SyncGroup response                read_assignment      OwnAssignment

A group works as long as its leader can assign, so the bytes of a member never make the leader fail. A member
whose bytes do not decode counts as subscribed to nothing. The leader does not ask for metadata of a topic
name that no topic can have (some clients refuse to ask, and that would end the generation), nor of more
topics than a group can have. A member takes only those partitions of its assignment that can exist and belong
to its subscription. Everything that is left out is a *finding*, which the adapter logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from kafka_assignors.claims import DroppedClaim
from kafka_assignors.group import (
    NO_GENERATION,
    Group,
    Member,
    Topic,
    TopicPartitions,
    is_topic_name,
    pairs,
    quoted,
)
from kafka_assignors.leader import LeaderResult, lead
from kafka_assignors.strategy import RebalanceProtocol, Strategy, lent
from kafka_assignors.wire import (
    ConsumerAssignment,
    Names,
    ProtocolError,
    decode_assignment,
    decode_member,
    encode_assignment,
)
from kafka_assignors.wire.warm_sections import Unit, WarmList, read_warm_list, warm_list_bytes

# ---------------------------------------------------------------------------------------- a member joins


@dataclass(frozen=True, slots=True)
class LastAssignment:
    """The last assignment of a member and its generation, which make the next assignment sticky.

    A member that has lost its partitions (its session expired) keeps this as it is: a member that got them
    since claims them with a later generation, and wins.
    """

    partitions: TopicPartitions
    generation: int


NEVER_ASSIGNED = LastAssignment({}, NO_GENERATION)


def broker_assigns(group_id: str, strategies: Iterable[str]) -> str:
    """The warning to a member whose JoinGroup was answered without naming a leader.

    A coordinator answers so in a group that was migrated online to KIP-848. It then assigns by itself, and
    members of the classic protocol get the result in the SyncGroup response
    (`classicGroupJoinToConsumerGroup` in Kafka's `GroupMetadataManager`).
    """
    return (
        f"no strategy of this consumer ({', '.join(strategies)}) runs in group {group_id!r}: one of its "
        "members uses the protocol of KIP-848 (group.protocol=consumer), and as long as there is one, the "
        "broker assigns the partitions of all. The strategy runs again once the last such member has left: "
        "find them with kafka-consumer-groups.sh --describe --members --verbose, and give them "
        "group.protocol=classic"
    )


# ------------------------------------------------------------------------------------ the leader assigns

_MOST_TOPICS = 50_000
"""The most topics of one member that the leader looks at, and whose metadata it asks for again and again.

A broker's record of a group (at most 1 MB by default) has no room for as many names of the usual length.
"""

MOST_MISSING_TOPICS = 100
"""The most topics that do not exist and are watched, so that each has a consumer as soon as it exists.
Clients log an error for each of them with each response of metadata, kafka-python 3 asks twice a second while
there is one, and a broker may create the topics. If more are missing, they wait for the next rebalance."""

_ASSIGNMENT_VERSION = 0
"""All versions of the assignment have the same fields, and the oldest clients know version 0 alone."""

_STAY_CLASSIC = b"\0"
"""User data of an assignment; members do not read it. A broker of Kafka 4 converts a classic group to KIP-848
when a member with `group.protocol=consumer` joins, unless the assignment of a member has user data, which the
conversion would lose (KAFKA-18134; `ConsumerGroup.fromClassicGroup`)."""


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the JoinGroup response shows it to the leader; `metadata` are the bytes it sent."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinGroupResponse:
    """`members`: only a leader gets them."""

    error_code: int
    member_id: str
    generation: int
    leader_id: str
    strategy: str
    members: Sequence[JoinedMember]

    @property
    def is_leader(self) -> bool:
        """Whether the member that gets this response leads the generation."""
        return bool(self.leader_id) and self.leader_id == self.member_id


@dataclass(frozen=True, slots=True)
class DecodedMembers:
    """The members of a group, decoded.

    `topics` are the subscribed topics that can exist, without those that only members with more than 50,000
    topics name.
    """

    members: tuple[Member, ...]
    topics: frozenset[str]
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EncodedAssignments:
    """The bytes of every member's assignment, by member id; they encode the `result` for `group`."""

    assignments: Mapping[str, bytes]
    findings: tuple[str, ...]
    group: Group
    result: LeaderResult


class RackWatch:
    """The racks of the brokers as one consumer has seen them, and whether it has to follow them now.

    A strategy that follows racks (`Strategy.follows_racks`) has its group rebalance when a replica moves to
    another rack, as Java's consumers do (KIP-881). Metadata name the racks of running brokers only. So a
    consumer keeps the last known rack of a broker that is away, or else a rolling restart would make the
    group rebalance twice for every broker.
    """

    def __init__(self) -> None:
        self.following = False
        self._racks: dict[int, str] = {}

    def see(self, brokers: Iterable[tuple[int, str | None]]) -> Mapping[int, str]:
        """The rack of each broker that has one, given the ids and racks of those that are running.

        A running broker without a rack loses the rack that it had.
        """
        racks = dict(self._racks)
        for broker, rack in brokers:
            if rack:
                racks[broker] = rack
            else:
                racks.pop(broker, None)
        self._racks = racks
        return racks

    def snapshot(
        self, known: Mapping[str, Any], topics_of: Callable[[Iterable[str]], Iterable[Topic]]
    ) -> Mapping[str, Any]:
        """For each watched topic, the value that makes the member rejoin if it changes.

        `known` is the client's own value by topic name; replica racks replace it while they are followed.
        """
        if not self.following:
            return known
        racks = {topic.name: topic.replica_racks for topic in topics_of(known)}
        return {name: racks.get(name) or value for name, value in known.items()}


def read_members(strategy: Strategy, joined: Iterable[JoinedMember]) -> DecodedMembers:
    """Decode the members' subscriptions. Never raises for the bytes of a member."""
    members: list[Member] = []
    topics: set[str] = set()
    findings: list[str] = []
    names = Names()
    illegal_of: dict[frozenset[str], list[str]] = {}  # subscription: its names that no topic can have
    legal: set[str] = set()
    for one in joined:
        try:
            member = decode_member(strategy, one.member_id, one.metadata, one.instance_id, names=names)
        except ProtocolError as error:
            findings.append(
                f"member {quoted(one.member_id)} gets no partitions, what it joined with does not decode: "
                f"{error}"
            )
            member = Member(one.member_id, frozenset(), one.instance_id)
        first_of_its_kind = member.topics not in illegal_of
        if first_of_its_kind:
            illegal_of[member.topics] = sorted(
                name for name in member.topics - legal if not is_topic_name(name)
            )
            legal |= member.topics.difference(illegal_of[member.topics])
        illegal = illegal_of[member.topics]
        if illegal:
            findings.append(
                f"member {quoted(one.member_id)} subscribes to {len(illegal)} topics that cannot exist, "
                f"the first being {quoted(illegal[0])}"
            )
        if len(member.topics) > _MOST_TOPICS:
            findings.append(
                f"member {quoted(one.member_id)} subscribes to {len(member.topics)} topics, which is more "
                f"than {_MOST_TOPICS}: it gets partitions of those only that members with fewer subscribe to"
            )
        elif first_of_its_kind:
            topics.update(member.topics.difference(illegal))
        members.append(member)
    return DecodedMembers(tuple(members), frozenset(topics), tuple(findings))


def watched_topics(topics: Set[str], missing: Set[str], own: Set[str]) -> Set[str]:
    """The topics whose metadata a leader follows; `missing` do not exist, `own` are its own subscription."""
    return topics if len(missing) <= MOST_MISSING_TOPICS else topics - missing | own


def topics_from(
    partitions_by_topic: Mapping[str, Mapping[int, Any]],
    racks: Mapping[int, str],
    replicas_of: Callable[[Any], Iterable[int]],
    names: Iterable[str],
) -> list[Topic]:
    """The topics in `names` that a client has metadata of; the type of its partition records is free.

    `racks` are the known racks by broker id; `replicas_of` gives the broker ids of a partition's replicas.
    Without any rack the replica racks are None.
    """
    topics = []
    for name in names:
        partitions = partitions_by_topic.get(name)
        if partitions is None:
            continue
        replica_racks = None
        if racks:
            replica_racks = tuple(
                frozenset(racks[node] for node in replicas_of(partitions[number]) if node in racks)
                for number in sorted(partitions)
            )
        topics.append(Topic(name, len(partitions), replica_racks))
    return topics


def encode_assignments(
    strategy: Strategy,
    members: DecodedMembers,
    topics: Iterable[Topic],
    generation: int | None,
    *,
    stay_classic: bool = False,
) -> EncodedAssignments:
    """Run the strategy as the leader of `generation` (None if unknown) and encode its assignment.

    `stay_classic`: each assignment has user data, so that a broker refuses the conversion of the group to
    KIP-848 and the member that would cause it.

    Raises `InvalidAssignmentError` for an assignment that breaks the strategy's contract.
    """
    group = Group.of(topics, members.members, generation)
    result = lead(strategy, group, _protocol_of(strategy))
    names = Names()
    assignments: dict[str, bytes] = {}
    for member_id, partitions in result.assignment.members.items():
        if member_id in result.lists:
            user_data = warm_list_bytes(result.lists[member_id])
        else:
            user_data = _STAY_CLASSIC if stay_classic else b""
        assignment = ConsumerAssignment(_ASSIGNMENT_VERSION, partitions, user_data)
        assignments[member_id] = encode_assignment(assignment, names=names)
    findings = (
        *_unknown_topics(members, group),
        *_claim_findings(group.claims.dropped),
        *strategy.findings(lent(strategy, group)),
    )
    return EncodedAssignments(assignments, members.findings + findings, group, result)


def _protocol_of(strategy: Strategy) -> RebalanceProtocol:
    # This member may be eager: if the strategy allows cooperative members, any other may still hold the
    # partitions that it claims.
    cooperative = RebalanceProtocol.COOPERATIVE in strategy.protocols
    return RebalanceProtocol.COOPERATIVE if cooperative else RebalanceProtocol.EAGER


def _unknown_topics(joined: DecodedMembers, group: Group) -> Iterator[str]:
    """One finding for all subscribed topics without metadata."""
    unknown = sorted(joined.topics - group.topics.keys())
    if unknown:
        subscribers = {
            member.id: len(member.topics - group.topics.keys())
            for member in joined.members
            if not member.topics <= group.topics.keys()
        }
        most, count = min(subscribers.items(), key=lambda item: (-item[1], item[0]))
        others = f", {len(subscribers) - 1} other members to some" if len(subscribers) > 1 else ""
        yield (
            f"{len(unknown)} subscribed topics get no consumer, the first being {quoted(unknown[0])}: the "
            "leader has no metadata of them, so they do not exist, or it may not describe them. Member "
            f"{quoted(most)} subscribes to {count} of them{others}"
        )


def _claim_findings(dropped: Iterable[DroppedClaim]) -> Iterator[str]:
    """One finding for each member and reason, which covers all topics of the member."""
    by_member: dict[tuple[str, str], list[DroppedClaim]] = {}
    for claim in dropped:
        by_member.setdefault((claim.member_id, claim.reason), []).append(claim)
    for (member_id, reason), claims in by_member.items():
        others = f" and {len(claims) - 1} other topics" if len(claims) > 1 else ""
        yield (
            f"member {quoted(member_id)} claims {sum(claim.count for claim in claims)} partitions of "
            f"{quoted(claims[0].topic)}{others} that do not count: {reason}"
        )


# ---------------------------------------------------------------------------------- a member is assigned


@dataclass(frozen=True, slots=True)
class SyncGroupResponse:
    """`assignment`: the bytes of a ConsumerProtocolAssignment, empty for none."""

    error_code: int
    assignment: bytes


_MOST_ASSIGNED_BYTES = 4 * 2**20
"""The most bytes of one member's assignment: room for a million partitions, more than a cluster has."""

_MOST_UNKNOWN_PARTITIONS = 1000
"""How many partitions a member takes that its metadata do not show. They may be new, and the leader's
metadata newer."""

_MISFIT = "It takes none of them, and joins again later: see which strategy that leader runs"


@dataclass(frozen=True, slots=True)
class OwnAssignment:
    """The valid part of an assignment, as its member reads it.

    `findings` say what it does not take. `lacks_metadata` says that some of it may exist: with newer metadata
    the member may take it. `warm` is what it shall warm, None from a leader that knows nothing of warm-ups.
    """

    partitions: TopicPartitions
    findings: tuple[str, ...]
    lacks_metadata: bool
    warm: WarmList | None = None

    @property
    def pairs(self) -> Iterator[tuple[str, int]]:
        """Topic and number of each partition."""
        return pairs(self.partitions)


def read_assignment(
    data: bytes, leader_id: str, subscribed: frozenset[str], partition_count: Callable[[str], int | None]
) -> OwnAssignment:
    """The valid part of the assignment in a member's SyncGroup response.

    `subscribed` are the topics of its JoinGroup request; `partition_count` gives the number of partitions of
    a topic in its metadata, or None. Raises `ProtocolError` for bytes that are no assignment, or are too
    many.
    """
    if not data:  # The coordinator sends no bytes to a member that the leader left out.
        return OwnAssignment({}, (), False)
    if len(data) > _MOST_ASSIGNED_BYTES:
        raise ProtocolError(
            "assignment", 0, f"has {len(data)} bytes, more than {_MOST_ASSIGNED_BYTES}", _of_leader(leader_id)
        )
    try:
        decoded = decode_assignment(data)
    except ProtocolError as error:
        raise error.of(_of_leader(leader_id)) from None
    assigned = decoded.partitions
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
    findings = (*_assignment_findings(leader_id, foreign, refused),)
    warm = _warm_list(decoded.user_data, subscribed, partition_count)
    return OwnAssignment(taken, findings, lacks_metadata, warm)


def _warm_list(
    user_data: bytes, subscribed: frozenset[str], partition_count: Callable[[str], int | None]
) -> WarmList | None:
    """The list in the user data, with the units of subscribed topics.

    The member echoes its list, so only so many partitions count that its metadata do not have.
    """
    warm = read_warm_list(user_data)
    if warm is None:
        return None
    counts = {topic: partition_count(topic) or 0 for topic in subscribed}
    units, may_be_new = list[Unit](), _MOST_UNKNOWN_PARTITIONS
    for unit in warm.units:
        new = sum(number >= counts.get(topic, 0) for topic, number in unit)
        if new <= may_be_new and all(topic in counts and number >= 0 for topic, number in unit):
            units.append(unit)
            may_be_new -= new
    return WarmList(warm.plan, tuple(units))


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
