"""What the error codes of a coordinator mean for the membership: Kafka's own, from `Errors.java`.

error code          MembershipError     `membership_error`
MembershipError     Consequence         the table `CONSEQUENCES`
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kafka_assignors.rebalance import events
from kafka_assignors.rebalance.events import Event, MembershipError, Partition, Partitions

UNKNOWN_TOPIC_OR_PARTITION = 3
"""For a commit it means that the topic was deleted: no retry helps, even if the client calls it retriable."""

MEMBER_ID_REQUIRED = 79
"""The answer to a first JoinGroup: send it again, with the member id in the response."""

LOOKUP_BEFORE_LEAVING_S = 3.0
"""How long a member that leaves looks for a coordinator that it does not know: enough after a broken
connection or a move. Without LeaveGroup the group waits for the end of the session."""

_ERRORS: Mapping[int, MembershipError] = {
    0: MembershipError.NONE,
    22: MembershipError.ILLEGAL_GENERATION,
    25: MembershipError.UNKNOWN_MEMBER_ID,
    27: MembershipError.REBALANCE_IN_PROGRESS,
    82: MembershipError.FENCED_INSTANCE_ID,
}
_RETRIABLE = frozenset(
    (2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89)
) | {100, 103, 106, 122, 123}
"""The codes whose exceptions extend Java's RetriableException. The lists of the clients are shorter."""

_UNKNOWN_SERVER_ERROR = -1
_REQUEST_TIMED_OUT = 7
_COORDINATOR_LOAD_IN_PROGRESS = 14
_COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
_INCONSISTENT_GROUP_PROTOCOL = 23
_TOPIC_AUTHORIZATION_FAILED = 29
_GROUP_AUTHORIZATION_FAILED = 30
_GROUP_MAX_SIZE_REACHED = 81

_NAMES: Mapping[int, str] = {
    _UNKNOWN_SERVER_ERROR: "UNKNOWN_SERVER_ERROR",
    UNKNOWN_TOPIC_OR_PARTITION: "UNKNOWN_TOPIC_OR_PARTITION",
    10: "MESSAGE_TOO_LARGE",
    12: "OFFSET_METADATA_TOO_LARGE",
    22: "ILLEGAL_GENERATION",
    _INCONSISTENT_GROUP_PROTOCOL: "INCONSISTENT_GROUP_PROTOCOL",
    24: "INVALID_GROUP_ID",
    25: "UNKNOWN_MEMBER_ID",
    26: "INVALID_SESSION_TIMEOUT",
    28: "INVALID_COMMIT_OFFSET_SIZE",
    _TOPIC_AUTHORIZATION_FAILED: "TOPIC_AUTHORIZATION_FAILED",
    _GROUP_AUTHORIZATION_FAILED: "GROUP_AUTHORIZATION_FAILED",
    31: "CLUSTER_AUTHORIZATION_FAILED",
    35: "UNSUPPORTED_VERSION",
    42: "INVALID_REQUEST",
    44: "POLICY_VIOLATION",
    69: "GROUP_ID_NOT_FOUND",
    _GROUP_MAX_SIZE_REACHED: "GROUP_MAX_SIZE_REACHED",
    110: "FENCED_MEMBER_EPOCH",
    113: "STALE_MEMBER_EPOCH",
}
"""Kafka's names of the errors that no retry helps, as far as a coordinator gives them to a member."""


def answered(request: str, error_code: int, group_id: str) -> str:
    """`the coordinator of group 'g' answered SyncGroup with UNKNOWN_SERVER_ERROR (error -1)`."""
    name = _NAMES.get(error_code)
    error = f"{name} (error {error_code})" if name else f"error {error_code}"
    return f"the coordinator of group {group_id!r} answered {request} with {error}"


_COMMIT_FAILS_ELSEWHERE = (_REQUEST_TIMED_OUT, _COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)
_COMMIT_IS_TRIED_AGAIN = (_COORDINATOR_LOAD_IN_PROGRESS, *_COMMIT_FAILS_ELSEWHERE)


class Consequence(enum.Enum):
    """What an error means for the membership of the member that sent the request."""

    NONE = "nothing"
    REJOIN = "the member joins again, with what it owns"
    UNLESS_JOINING = "as LOST, but while JoinGroup is under way its response decides"
    LOST = "the membership is lost, and what is owned with it"
    FENCED = "the same, and the member never joins again"


_REFUSED = {
    MembershipError.UNKNOWN_MEMBER_ID: Consequence.LOST,
    MembershipError.FENCED_INSTANCE_ID: Consequence.FENCED,
}
_OF_JOIN = {
    MembershipError.OTHER: Consequence.REJOIN,
    MembershipError.REBALANCE_IN_PROGRESS: Consequence.REJOIN,
    MembershipError.ILLEGAL_GENERATION: Consequence.LOST,
    **_REFUSED,
}
_OF_MEMBER = {
    MembershipError.OTHER: Consequence.NONE,
    MembershipError.REBALANCE_IN_PROGRESS: Consequence.REJOIN,
    MembershipError.ILLEGAL_GENERATION: Consequence.UNLESS_JOINING,
    **_REFUSED,
}
CONSEQUENCES: Mapping[type[Event], Mapping[MembershipError, Consequence]] = {
    events.JoinFailed: _OF_JOIN,
    events.SyncFailed: _OF_JOIN,
    events.HeartbeatAnswered: {MembershipError.NONE: Consequence.NONE, **_OF_MEMBER},
    events.CommitAnswered: {MembershipError.NONE: Consequence.NONE, **_OF_MEMBER},
}
"""What follows from each error in the response to JoinGroup, SyncGroup, Heartbeat and OffsetCommit, if the
response is about the present membership."""


def membership_error(error_code: int) -> MembershipError:
    """What an error code says about the membership of the member that sent the request."""
    return _ERRORS.get(error_code, MembershipError.OTHER)


def coordinator_moved(error_code: int) -> bool:
    """Whether the group has another coordinator now."""
    return error_code in (_COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR)


def is_transient(error_code: int) -> bool:
    """Whether the same JoinGroup, SyncGroup or Heartbeat request may succeed in a moment."""
    return error_code in _RETRIABLE and error_code != UNKNOWN_TOPIC_OR_PARTITION


class Errors(Protocol):
    """The client's module of exceptions."""

    KafkaError: type[Exception]
    CommitFailedError: type[Exception]
    KafkaTimeoutError: type[Exception]

    def for_code(self, error_code: int, /) -> Any:
        """The exception class of an error code."""
        ...


def error_of(
    request: str, error_code: int, group_id: str, errors: Errors, offered: Iterable[str] = ()
) -> Any:
    """The client's exception for an error code that no retry helps, in the response to a `request`.

    `offered` are the strategies in the JoinGroup request that got this response.
    """
    kind = errors.for_code(error_code)
    if error_code == _INCONSISTENT_GROUP_PROTOCOL and (names := ", ".join(offered)):
        return kind(answered(request, error_code, group_id) + _no_common_strategy(names))
    if error_code == _GROUP_AUTHORIZATION_FAILED:
        return kind(group_id)
    if error_code == _GROUP_MAX_SIZE_REACHED and kind.errno != error_code:
        return errors.KafkaError(f"group {group_id!r} has group.max.size members already")
    text = answered(request, error_code, group_id)
    if error_code == _UNKNOWN_SERVER_ERROR:
        text += ": the log of that broker says why"
        text += _TOO_LARGE if request == "SyncGroup" else ""
    return kind(text)


_TOO_LARGE = (
    ". A frequent cause is a group that is too large to store: the subscriptions and assignments of all its "
    "members are one record of __consumer_offsets, whose size max.message.bytes of that topic limits"
)


def _no_common_strategy(offered: str) -> str:
    return (
        f": the members of the group do not list the strategies of this one ({offered}); those that run the "
        "client's own consumer class with its default list do not. Restart each member once with the "
        "cooperative class and both strategies: partition_assignment_strategy=[CooperativeStickyAssignor(), "
        "RoundRobinAssignor()] if the group runs roundrobin. When all members have this list, restart them "
        "with CooperativeStickyAssignor() alone. `kafka-assignors groups describe` shows "
        "the strategy that the group runs"
    )


def commit_error(failed: Mapping[Partition, int], group_id: str, errors: Errors) -> Any:
    """The client's exception for a commit whose partitions failed for good with these error codes.

    The choice of one of them is Java's: an error of the whole group, else the first one; topics that the user
    may not read come last.
    """
    code = min(failed.items(), key=lambda one: (_PRECEDENCE.get(one[1], 1), one[0]))[1]
    partitions = sorted(partition for partition, other in failed.items() if other == code)
    if code == _TOPIC_AUTHORIZATION_FAILED:
        return errors.for_code(code)({topic for topic, _ in partitions})
    error = error_of("OffsetCommit", code, group_id, errors)
    if code != _GROUP_AUTHORIZATION_FAILED:
        names = ", ".join(f"{topic}-{number}" for topic, number in partitions)
        error.args = (f"{error.args[0]}; not committed: {names}",)
    return error


@dataclass(frozen=True, slots=True)
class CommitResponse:
    """What the error codes of an OffsetCommit response mean.

    `coordinator_moved`: it has to be looked up again. The codes are read as in `OffsetCommitResponseHandler`
    of Java's `ConsumerCoordinator`, except that of a deleted topic: Java retries it, without success.
    """

    error: MembershipError
    accepted: Partitions
    failed: Mapping[Partition, int]
    coordinator_moved: bool


def read_commit_response(sent: Partitions, codes: Mapping[Partition, int]) -> CommitResponse:
    """Sort the partitions of an OffsetCommit request by the error codes in its response.

    An error about the membership applies to the whole request, even if only one partition has it. A partition
    that the response lacks has failed.
    """
    code_of = {partition: codes.get(partition, _UNKNOWN_SERVER_ERROR) for partition in sent}
    found = set(code_of.values())
    of_membership = next(
        (code for code in sorted(found) if membership_error(code) not in _NOT_OF_MEMBERSHIP), None
    )
    if of_membership is not None:
        error = _ERRORS[of_membership]
    else:
        error = MembershipError.NONE if found <= {0} else MembershipError.OTHER
    return CommitResponse(
        error,
        accepted=frozenset(partition for partition, code in code_of.items() if code == 0),
        failed={
            partition: code
            for partition, code in code_of.items()
            if code and code not in _COMMIT_IS_TRIED_AGAIN and membership_error(code) is MembershipError.OTHER
        },
        coordinator_moved=not found.isdisjoint(_COMMIT_FAILS_ELSEWHERE),
    )


_NOT_OF_MEMBERSHIP = (MembershipError.NONE, MembershipError.OTHER)
_PRECEDENCE = {_GROUP_AUTHORIZATION_FAILED: 0, _TOPIC_AUTHORIZATION_FAILED: 2}
