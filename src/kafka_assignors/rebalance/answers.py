"""What the error codes of a coordinator say of the membership: Kafka's own, from `Errors.java`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafka_assignors.rebalance.values import Answer, Partition, Partitions

__all__ = [
    "LOOKUP_BEFORE_LEAVING_S",
    "MEMBER_ID_REQUIRED",
    "UNKNOWN_TOPIC_OR_PARTITION",
    "CommitResponse",
    "answer_of",
    "coordinator_moved",
    "decisive_error",
    "is_transient",
    "read_commit_response",
]

UNKNOWN_TOPIC_OR_PARTITION = 3
"""To a commit it says that the topic was deleted: no retry helps, whatever the client takes it for."""

MEMBER_ID_REQUIRED = 79
"""To a first JoinGroup: to be sent again, with the member id that came along."""

LOOKUP_BEFORE_LEAVING_S = 3.0
"""How long a member that leaves looks for a coordinator that it does not know at that moment.

Without LeaveGroup the group waits for the end of the session. Three seconds outlast a connection that broke
and a coordinator that moved, and do not hold up a consumer whose brokers are all gone for long.
"""

_ANSWERS: Mapping[int, Answer] = {
    0: Answer.OK,
    22: Answer.ILLEGAL_GENERATION,
    25: Answer.UNKNOWN_MEMBER_ID,
    27: Answer.REBALANCE_IN_PROGRESS,
    82: Answer.FENCED_INSTANCE_ID,
}
_RETRIABLE = frozenset(
    (2, 3, 5, 6, 7, 9, 13, 14, 15, 16, 19, 20, 41, 51, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 89)
) | {100, 103, 106, 122, 123}
"""The codes whose exceptions extend Java's RetriableException. The lists of the clients are shorter."""

_UNKNOWN_SERVER_ERROR = -1
_REQUEST_TIMED_OUT = 7
_COORDINATOR_LOAD_IN_PROGRESS = 14
_COORDINATOR_NOT_AVAILABLE = 15
_NOT_COORDINATOR = 16
_TOPIC_AUTHORIZATION_FAILED = 29
_GROUP_AUTHORIZATION_FAILED = 30

_COMMIT_FAILS_ELSEWHERE = (_REQUEST_TIMED_OUT, _COORDINATOR_NOT_AVAILABLE, _NOT_COORDINATOR)
_COMMIT_IS_TRIED_AGAIN = (_COORDINATOR_LOAD_IN_PROGRESS, *_COMMIT_FAILS_ELSEWHERE)


def answer_of(error_code: int) -> Answer:
    """What an error code says about the membership of who asked."""
    return _ANSWERS.get(error_code, Answer.OTHER)


def coordinator_moved(error_code: int) -> bool:
    """Whether the group has another coordinator now."""
    return error_code in (_COORDINATOR_NOT_AVAILABLE, _NOT_COORDINATOR)


def is_transient(error_code: int) -> bool:
    """Whether the same JoinGroup, SyncGroup or Heartbeat request may succeed in a moment."""
    return error_code in _RETRIABLE and error_code != UNKNOWN_TOPIC_OR_PARTITION


@dataclass(frozen=True, slots=True)
class CommitResponse:
    """What the error codes of an OffsetCommit response say.

    `answer`, `accepted` and `failed` are for the event `CommitAnswered`; `coordinator_moved`: the coordinator
    has to be looked up again. Which code is which is `OffsetCommitResponseHandler` of Java's
    `ConsumerCoordinator`, but for a topic that was deleted: no retry of Java's succeeds there either.
    """

    answer: Answer
    accepted: Partitions
    failed: Mapping[Partition, int]
    coordinator_moved: bool


def read_commit_response(sent: Partitions, codes: Mapping[Partition, int]) -> CommitResponse:
    """Tell the partitions of an OffsetCommit request apart by the error codes in its response.

    An error about the membership is one of the whole request, whichever partition it stands beside. A
    partition that the response lacks has failed.
    """
    code_of = {partition: codes.get(partition, _UNKNOWN_SERVER_ERROR) for partition in sent}
    found = set(code_of.values())
    of_membership = next((code for code in sorted(found) if answer_of(code) not in _NOT_OF_MEMBERSHIP), None)
    if of_membership is not None:
        answer = _ANSWERS[of_membership]
    else:
        answer = Answer.OK if found <= {0} else Answer.OTHER
    return CommitResponse(
        answer,
        accepted=frozenset(partition for partition, code in code_of.items() if code == 0),
        failed={
            partition: code
            for partition, code in code_of.items()
            if code and code not in _COMMIT_IS_TRIED_AGAIN and answer_of(code) is Answer.OTHER
        },
        coordinator_moved=not found.isdisjoint(_COMMIT_FAILS_ELSEWHERE),
    )


def decisive_error(failed: Mapping[Partition, int]) -> tuple[int, tuple[Partition, ...]]:
    """The error code that the caller of a commit gets of those that failed for good, and its partitions.

    It is chosen as in Java: that of the whole group, else the first; topics that the user may not read come
    last. The partitions are sorted.
    """
    code = min(failed.items(), key=lambda one: (_PRECEDENCE.get(one[1], 1), one[0]))[1]
    return code, tuple(sorted(partition for partition, other in failed.items() if other == code))


_NOT_OF_MEMBERSHIP = (Answer.OK, Answer.OTHER)
_PRECEDENCE = {_GROUP_AUTHORIZATION_FAILED: 0, _TOPIC_AUTHORIZATION_FAILED: 2}
