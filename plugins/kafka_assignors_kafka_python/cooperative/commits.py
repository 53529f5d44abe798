"""`commit_async`: commits that the user's thread begins and does not wait for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance.session_commits import MOST_OPEN, SessionCommits
from kafka_assignors_kafka_python.cooperative.user_errors import TooManyCommitsError

__all__ = ["AsyncCommits", "require_offsets"]


class _Coordinator(Protocol):
    """The part of the coordinator that these commits use."""

    group_id: str
    config: Mapping[str, Any]
    completed_offset_commits: Any

    def start(self, function: Callable[..., Any], *arguments: Any) -> Any: ...


class AsyncCommits:
    """The commits of one coordinator that `commit_async` has begun."""

    def __init__(self, coordinator: _Coordinator, commits: SessionCommits) -> None:
        self._coordinator = coordinator
        self._commits = commits
        self._started = self._ended = 0

    def start(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Callable[..., Any]) -> Any:
        """Commit, on the user's thread, without waiting: a future, and `callback(offsets, outcome)` later.

        With TooManyCommitsError if the user starts them faster than the coordinator takes them.
        """
        require_offsets(offsets)
        coordinator = self._coordinator
        completed = coordinator.completed_offset_commits
        if self._started - self._ended >= MOST_OPEN:
            refused = TooManyCommitsError(
                f"group {coordinator.group_id!r}: {MOST_OPEN} commits are open; poll() until some have ended"
            )
            completed.append((callback, offsets, refused))
            return Future().failure(refused)
        self._started += 1  # By the user's thread alone; `_ended` is changed by the I/O thread alone.
        timeout_s = coordinator.config["request_timeout_ms"] / 1000
        committing = coordinator.start(self._commits.commit, offsets, timeout_s)

        def end(outcome: object) -> None:
            self._ended += 1
            completed.append((callback, offsets, outcome))

        return committing.add_both(end)


def require_offsets(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """TypeError for offsets of other types, as kafka-python says it."""
    if not isinstance(offsets, dict):
        raise TypeError(f"offsets must be a dict {{TopicPartition: OffsetAndMetadata}}, not {offsets!r}")
    for tp, offset in offsets.items():
        if not isinstance(tp, TopicPartition) or not isinstance(offset, OffsetAndMetadata):
            raise TypeError(
                f"offsets must be {{TopicPartition: OffsetAndMetadata}}, not {{{tp!r}: {offset!r}}}"
            )
