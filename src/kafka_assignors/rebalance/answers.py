"""What the error codes of a coordinator say of the membership: Kafka's own, from `Errors.java`."""

from __future__ import annotations

from collections.abc import Mapping

from kafka_assignors.rebalance.values import Answer

__all__ = ["MEMBER_ID_REQUIRED", "UNKNOWN_TOPIC_OR_PARTITION", "answer_of", "coordinator_moved"]

UNKNOWN_TOPIC_OR_PARTITION = 3
"""To a commit it says that the topic was deleted: no retry helps, whatever the client takes it for."""

MEMBER_ID_REQUIRED = 79
"""To a first JoinGroup: to be sent again, with the member id that came along."""

_ANSWERS: Mapping[int, Answer] = {
    0: Answer.OK,
    22: Answer.ILLEGAL_GENERATION,
    25: Answer.UNKNOWN_MEMBER_ID,
    27: Answer.REBALANCE_IN_PROGRESS,
    82: Answer.FENCED_INSTANCE_ID,
}
_COORDINATOR_NOT_AVAILABLE = 15
_NOT_COORDINATOR = 16


def answer_of(error_code: int) -> Answer:
    """What an error code says about the membership of who asked."""
    return _ANSWERS.get(error_code, Answer.OTHER)


def coordinator_moved(error_code: int) -> bool:
    """Whether the group has another coordinator now."""
    return error_code in (_COORDINATOR_NOT_AVAILABLE, _NOT_COORDINATOR)
