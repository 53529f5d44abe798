"""A consumer group as a running cluster shows it, and the `Group` that a strategy would see.

What a cluster shows depends on the group's kind and state; an unknown value is None, never empty:

- A *classic* group shows every member's subscription and assignment, byte by byte, while it is `Stable`.
  While it rebalances it shows neither. It never shows its generation and its members' timeouts. It shows the
  assignor that has won the vote; the other assignors of a member are not stored anywhere.
- A *consumer* group (KIP-848), whose broker assigns, shows the members' assignments. The admin client hides
  their subscriptions, racks and epochs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_assignors.group import NO_GENERATION, Group, Member, Topic, TopicPartitions, some_of
from kafka_assignors.wire import (
    ProtocolError,
    Subscription,
    decode_assignment,
    decode_member,
    decode_subscription,
)

CLASSIC = "classic"
"""A group whose members assign: the leader runs the strategy that the members voted for."""

CONSUMER = "consumer"
"""A group of KIP-848: the broker assigns, and no strategy of a client runs."""

_SHOWN_BYTES = 16
"""A problem shows this many of the bytes that do not decode."""


class UnknownOwnersError(ValueError):
    """The owners of the group's partitions are not known: it rebalances, or a topic is hidden."""


@dataclass(frozen=True, slots=True)
class LiveMember:
    """A member. Its ids and host come from the member itself: they are not trusted and may be any text.

    Attributes:
        instance_id: `group.instance.id` of a static member.
        assigned: its partitions now, empty for an idle member; None while the group rebalances.
        metadata: the bytes with which it joined, under the assignor in use; None if the cluster does not show
            them: always in a consumer group, and in a classic group while it rebalances.
        subscription: `metadata` decoded; None without metadata, and if they do not decode.
        problem: whose bytes do not decode (the member's subscription, the leader's assignment), the bytes and
            the reason; None if all decode.
    """

    id: str
    client_id: str
    host: str
    instance_id: str | None = None
    assigned: TopicPartitions | None = None
    metadata: bytes | None = None
    subscription: Subscription | None = None
    problem: str | None = None

    @property
    def topics(self) -> frozenset[str] | None:
        """The subscribed topics; None if unknown."""
        return None if self.subscription is None else frozenset(self.subscription.topics)

    @property
    def rack(self) -> str | None:
        """`client.rack`; None if it has none, or if its client or the cluster does not show it."""
        return None if self.subscription is None else self.subscription.rack

    @property
    def load(self) -> int | None:
        """How many partitions it has now; None if unknown."""
        return None if self.assigned is None else sum(map(len, self.assigned.values()))

    def with_metadata(self, metadata: bytes) -> LiveMember:
        """The member with these bytes and the decoded subscription."""
        try:
            subscription = decode_subscription(metadata)
        except ProtocolError as error:
            problem = self._with_problem("the subscription it joined with", metadata, error)
            return dataclasses.replace(self, metadata=metadata, subscription=None, problem=problem)
        return dataclasses.replace(self, metadata=metadata, subscription=subscription)

    def with_assignment(self, assignment: bytes) -> LiveMember:
        """The member with the partitions of this assignment; with none if the bytes do not decode."""
        try:
            decoded = decode_assignment(assignment)
        except ProtocolError as error:
            problem = self._with_problem("the assignment that its leader sent", assignment, error)
            return dataclasses.replace(self, assigned={}, problem=problem)
        assigned = {topic: sorted(numbers) for topic, numbers in decoded.partitions.items() if numbers}
        return dataclasses.replace(self, assigned=assigned)

    def _with_problem(self, what: str, data: bytes, error: ProtocolError) -> str:
        more = f" and {len(data) - _SHOWN_BYTES} more bytes" if len(data) > _SHOWN_BYTES else ""
        found = f"{what} (0x{data[:_SHOWN_BYTES].hex()}{more}): {error}"
        return found if self.problem is None else f"{self.problem}; {found}"


@dataclass(frozen=True, slots=True)
class LiveGroup:
    """A group as the cluster showed it at one moment.

    Attributes:
        group_type: `classic`, `consumer`, or `unknown` where the broker is too old to tell.
        state: as Kafka names it: `Stable`, `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Dead`;
            `Unknown` for a state that the admin client does not know (such as a consumer group's
            `Assigning`).
        protocol: the assignor in use: the winner of the members' vote, or the broker's; None without members.
        protocol_type: `consumer` for consumers; None if unknown, and in a group that never had members.
        topics: topics that members subscribe to or have partitions of, with partition counts and replica
            racks; None if they were not read. A topic that does not exist (any more), or that is hidden, is
            missing.
        hidden_topics: the topics that the principal may not describe.
        unknown_topics: why other topics have no metadata: they do not exist, or the name is not valid.
        problems: what could not be read, and why; one sentence each.
        error: why the group cannot be described; then only its id is known.
    """

    id: str
    group_type: str
    state: str
    protocol: str | None = None
    protocol_type: str | None = None
    members: tuple[LiveMember, ...] = ()
    topics: Mapping[str, Topic] | None = None
    hidden_topics: frozenset[str] = frozenset()
    unknown_topics: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    error: str | None = None

    @property
    def loads(self) -> tuple[int, ...] | None:
        """Partitions of each member, in the order of `members`; None while the group rebalances."""
        loads = tuple(member.load for member in self.members if member.load is not None)
        return loads if len(loads) == len(self.members) else None

    @property
    def subscribed(self) -> frozenset[str]:
        """All topics that members are known to subscribe to, or to have partitions of."""
        names = ((*(each.topics or ()), *(each.assigned or ())) for each in self.members)
        return frozenset[str]().union(*names)

    @property
    def unknown_owners(self) -> str | None:
        """Why balance and moves are not known, one sentence with the missing right; None if they are."""
        if self.hidden_topics:
            topics = some_of([*map(repr, sorted(self.hidden_topics))], 1)
            return (
                f"this principal may not describe topic {topics}, so its partitions, the balance of the "
                f"group and what strategies would move are not known: it needs Describe on Topic {topics}"
            )
        if self.loads is None:
            return f"rebalancing ({self.state}), so what its members own is not known: try again"
        return None


def as_group(live: LiveGroup) -> Group:
    """The group as the strategy of its leader would see it if all members joined again now.

    Each member owns the partitions that it has now, and all claim the same generation: the lowest possible
    one, which is one above the latest generation that a member joined with. A member whose subscription the
    cluster does not show counts as subscribed to all topics of the group; if its bytes do not decode, to
    none. `live.topics` must have been read. Raises `UnknownOwnersError` while the group rebalances, and if
    one of its topics is hidden.
    """
    if live.unknown_owners:
        raise UnknownOwnersError(f"group {live.id!r}: {live.unknown_owners}")
    everything = live.subscribed
    members = [as_member(live, member, everything) for member in live.members]
    generation = 1 + max((member.generation for member in members), default=NO_GENERATION)
    topics = live.topics or {}
    return Group.of(
        (topics[name] for name in sorted(everything) if name in topics),
        (
            dataclasses.replace(member, generation=generation if member.owned else NO_GENERATION)
            for member in members
        ),
    )


def as_member(live: LiveGroup, member: LiveMember, everything: frozenset[str]) -> Member:
    """The core's member, with the generation it joined with; `everything` is a subscription not shown."""
    owned = {topic: sorted(numbers) for topic, numbers in (member.assigned or {}).items() if numbers}
    if member.metadata is None:
        return Member(member.id, everything, member.instance_id, owned=owned)
    try:
        joined = decode_member(live.protocol or "", member.id, member.metadata, member.instance_id)
    except ProtocolError:
        return Member(member.id, frozenset(), member.instance_id, owned=owned)
    return dataclasses.replace(joined, owned=owned, revoked=False)
