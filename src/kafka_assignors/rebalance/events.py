"""The events that an adapter reports to the machine, and the actions that it carries out for the machine.

Times are seconds of `lease.clock`. The clients' own `TopicPartition` is a `Partition`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from kafka_assignors.group import NO_GENERATION, is_topic_name, quoted
from kafka_assignors.strategy import RebalanceProtocol, Strategy

Partition: TypeAlias = tuple[str, int]
Partitions: TypeAlias = frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Membership:
    """The identity of the member in its requests to the coordinator.

    `generation` is -1 outside the group; `member_id` is empty until the coordinator has given one.
    """

    member_id: str
    generation: int


NO_MEMBERSHIP = Membership("", NO_GENERATION)


class MembershipError(enum.Enum):
    """What the error of a response says about the membership of the member that sent the request."""

    NONE = "accepted"
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    OTHER = "an error that says nothing about the membership"
    """Disconnected, timed out, coordinator moved or loading, not authorized …"""


# ---------------------------------------------------------------------------------------------- events


@dataclass(frozen=True, slots=True)
class SubscriptionChanged:
    """The user subscribes to these topics now, with patterns resolved; without topics the member leaves."""

    topics: frozenset[str]


@dataclass(frozen=True, slots=True)
class RejoinRequested:
    """The group needs a new assignment: a topic of the leader got partitions, the user asks for one …"""

    reason: str


@dataclass(frozen=True, slots=True)
class AboutToJoin:
    """The adapter is ready to send a JoinGroup request. Only while `MemberState.must_join`.

    `protocol` is their `common_protocol`, since the result of the vote is not known before the response.
    """

    protocol: RebalanceProtocol


def common_protocol(strategies: Iterable[Strategy]) -> RebalanceProtocol:
    """The protocol of members that offer all of these strategies: cooperative only if each of them can."""
    if all(RebalanceProtocol.COOPERATIVE in strategy.protocols for strategy in strategies):
        return RebalanceProtocol.COOPERATIVE
    return RebalanceProtocol.EAGER


@dataclass(frozen=True, slots=True)
class Joined:
    """A JoinGroup response without an error; `attempt` is that of the `SendJoin` it answers."""

    attempt: int
    membership: Membership


@dataclass(frozen=True, slots=True)
class JoinFailed:
    """A JoinGroup request failed. `given_id` comes with MEMBER_ID_REQUIRED, whose `error` is OTHER."""

    attempt: int
    error: MembershipError
    given_id: str = ""


@dataclass(frozen=True, slots=True)
class Assigned:
    """A SyncGroup response without an error. `sent_at` is when its request went out.

    `fits` is False if the leader also assigned partitions that this member cannot take (`read_assignment`).
    """

    membership: Membership
    partitions: Partitions
    sent_at: float
    fits: bool = True


@dataclass(frozen=True, slots=True)
class SyncFailed:
    """A SyncGroup request, or the leader's own assigning before it, failed."""

    membership: Membership
    error: MembershipError


@dataclass(frozen=True, slots=True)
class HeartbeatAnswered:
    """A heartbeat was answered. `sent_at` is when its request went out, with `membership`."""

    membership: Membership
    error: MembershipError
    sent_at: float


@dataclass(frozen=True, slots=True)
class CommitRequested:
    """The user commits offsets of these partitions."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class CommitsCanBeSent:
    """An OffsetCommit request can be written at this moment, with the offsets of these partitions.

    Only while `MemberState.can_commit`, and not during a backoff.
    """

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class CommitAnswered:
    """The OffsetCommit request under way was answered, or its connection is closed (`error` is OTHER).

    `membership` is the one in the request. The offsets of the partitions `again` need another request: they
    were neither accepted, nor did they fail for good (`read_commit_response`), and a caller still waits.
    """

    membership: Membership
    error: MembershipError
    again: Partitions = frozenset()


@dataclass(frozen=True, slots=True)
class CommitAbandoned:
    """No caller waits any more for the commits of these partitions that are not sent."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class TopicsRecreated:
    """The topics of these partitions were deleted and created again: open commits are of the old logs."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class PollIntervalChecked:
    """The poll interval is checked: before each heartbeat, and when a user that exceeded it polls again.

    `polled_at` is when the user last polled.
    """

    polled_at: float


@dataclass(frozen=True, slots=True)
class AboutToCall:
    """The adapter is ready to call the listener, and waits for nothing more. Only while `may_call`.

    The answer is `Revoke`, `Lose` or `Announce`, decided at this moment alone, or none if nothing is left.
    """


@dataclass(frozen=True, slots=True)
class ListenerReturned:
    """The call that `Revoke`, `Lose` or `Announce` asked for is over, with or without an exception."""


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The user closes the consumer."""


Event: TypeAlias = (
    SubscriptionChanged
    | RejoinRequested
    | AboutToJoin
    | Joined
    | JoinFailed
    | Assigned
    | SyncFailed
    | HeartbeatAnswered
    | CommitRequested
    | CommitsCanBeSent
    | CommitAnswered
    | CommitAbandoned
    | TopicsRecreated
    | PollIntervalChecked
    | AboutToCall
    | ListenerReturned
    | CloseRequested
)


# --------------------------------------------------------------------------------------------- actions


@dataclass(frozen=True, slots=True)
class CallDue:
    """A call of the listener is due. Deliver no more records of the partitions being `revoked`, and commit
    their consumed offsets if commits are automatic. Answer: `AboutToCall`."""

    revoked: Partitions


@dataclass(frozen=True, slots=True)
class Revoke:
    """Call `on_partitions_revoked`, while positions and commits still work. Answer: `ListenerReturned`."""

    partitions: Partitions
    told: ClassVar = "revoked"


@dataclass(frozen=True, slots=True)
class Lose:
    """Call `on_partitions_lost`: other members may own them already. Answer: `ListenerReturned`."""

    partitions: Partitions
    told: ClassVar = "lost"


@dataclass(frozen=True, slots=True)
class Install:
    """The assignment is now exactly these. A partition that stays keeps its position, buffers and fetches."""

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Announce:
    """Call `on_partitions_assigned` with the added partitions, or with none. Answer: `ListenerReturned`."""

    partitions: Partitions
    told: ClassVar = "assigned"


def in_log(asked: CallListener, partitions: Partitions) -> str:
    """The call of the listener, for a line of the log: `added: orders 0-5, 7; payments 3`."""
    numbers: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        numbers.setdefault(topic, []).append(partition)
    topics = [
        f"{topic if is_topic_name(topic) else quoted(topic)} {_ranges(found)}"
        for topic, found in numbers.items()
    ]
    # Clients call it assigned, which reads as if it were the whole assignment.
    verb = "added" if isinstance(asked, Announce) else asked.told
    return f"{verb}: {'; '.join(topics) or 'none'}"


def _ranges(ascending: list[int]) -> str:
    ranges: list[list[int]] = []
    for number in ascending:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


@dataclass(frozen=True, slots=True)
class SendJoin:
    """Send a JoinGroup request. Answer: `Joined` or `JoinFailed`.

    `owned` and `membership.generation` are the member's claim. `reason` is for the request and the log.
    """

    attempt: int
    membership: Membership
    owned: Partitions
    reason: str


@dataclass(frozen=True, slots=True)
class SendSync:
    """Send a SyncGroup request, as the leader after assigning. Answer: `Assigned` or `SyncFailed`."""

    membership: Membership


@dataclass(frozen=True, slots=True)
class SendLeave:
    """Send a LeaveGroup request for this member id. Its response is not reported."""

    member_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class SendCommit:
    """Write an OffsetCommit request with the newest offset of each partition, before anything else happens.

    Answer: `CommitAnswered`.
    """

    membership: Membership
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class CommitRefused:
    """Tell the callers of all open commits of these partitions that they failed, as `CommitFailedError`.

    Commits in the request under way fail only if it does.
    """

    partitions: Partitions


@dataclass(frozen=True, slots=True)
class Fail:
    """Raise this to the user: the member can never join again."""

    reason: str


CallListener: TypeAlias = Revoke | Lose | Announce
"""A call of the user's listener, whose method `on_partitions_…` ends with `told`."""

RequestAction: TypeAlias = SendJoin | SendSync | SendLeave | SendCommit | CommitRefused
"""An action that is about a request: a session carries it out."""

Action: TypeAlias = CallDue | CallListener | Install | RequestAction | Fail
