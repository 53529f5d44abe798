"""Commits under way: the offsets and who waits for them. The machine decides what is sent, and when.

All of it but `start` runs on kafka-python's I/O thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafka import errors as Errors
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance.commit_queue import MOST_OPEN, CommitQueue
from kafka_assignors.rebalance.error_codes import read_commit_response
from kafka_assignors.rebalance.events import (
    CommitAbandoned,
    CommitAnswered,
    CommitDone,
    CommitRefused,
    MembershipError,
    Partition,
    Partitions,
    SendCommit,
)
from kafka_assignors_kafka_python.cooperative import requests
from kafka_assignors_kafka_python.cooperative.errors import TooManyCommitsError

__all__ = ["Commits", "require_offsets"]


@dataclass(slots=True)
class _Open:
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ended: Any
    refused_by_rebalance: bool = False
    failed: dict[Partition, int] = field(default_factory=dict)
    """The error codes of partitions that no retry helps."""


class Commits:
    """The open commits of one coordinator."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._numbers = itertools.count()
        self._open: dict[int, _Open] = {}
        self._queue = CommitQueue()
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
        committing = coordinator.start(self.commit, offsets, coordinator.config["request_timeout_ms"])

        def end(outcome: object) -> None:
            self._ended += 1
            completed.append((callback, offsets, outcome))

        return committing.add_both(end)

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: float | None
    ) -> None:
        """Commit, however often that has to be tried.

        Raises CommitFailedError if a partition was given up before the commit was accepted, the error of the
        coordinator if that says that trying again is of no use, and KafkaTimeoutError.
        """
        if not offsets:
            return
        number, ended = next(self._numbers), Future()
        self._open[number] = _Open(offsets, ended)
        self._queue.add(number, frozenset(offsets), self._coordinator.committable)
        try:
            self._request_next()
            await self._coordinator.wait_for(ended, timeout_ms)
        finally:
            del self._open[number]
            if self._queue.end(number) and not ended.succeeded():
                # Its caller waits no longer; the machine does not mind if it knows.
                self._coordinator.handle(CommitAbandoned(number))
            self._request_next()

    def _request_next(self) -> None:
        while (request := self._queue.next()) is not None:
            self._coordinator.handle(request)

    def installed(self, owned: Partitions) -> None:
        """The machine said `Install`."""
        self._queue.installed(owned)

    def finish(self, outcome: CommitDone | CommitRefused) -> None:
        """Tell who waits for a commit how it ended."""
        found = self._open.get(outcome.commit)
        if found is None or found.ended.is_done:
            return
        if found.failed:
            found.ended.failure(requests.commit_error(found.failed, self._coordinator.group_id))
            return
        if isinstance(outcome, CommitDone):
            found.ended.success(None)
            return
        refused = ", ".join(f"{topic}-{number}" for topic, number in sorted(outcome.partitions, key=str))
        found.ended.failure(Errors.CommitFailedError(f"not committed for {refused}: {outcome.reason}"))

    async def send(self, sending: SendCommit) -> None:
        """Send one request of a commit."""
        coordinator = self._coordinator
        found = self._open.get(sending.commit)
        if found is None:
            return
        if found.refused_by_rebalance:
            await coordinator.back_off()
        offsets = {tp: offset for tp, offset in found.offsets.items() if tp in sending.partitions}
        answered = CommitAnswered(sending.commit, sending.membership, MembershipError.OTHER)
        try:
            await coordinator.ensure_coordinator_ready_async()
            response = await coordinator.send(
                requests.offset_commit(
                    coordinator.group_id, sending.membership, coordinator.group_instance_id, offsets
                )
            )
        except Errors.KafkaError as error:
            if not error.retriable:
                self._fail(sending.commit, error)
                return
        except Exception as error:  # Of the arguments: what cannot be encoded, for one.
            self._fail(sending.commit, error)
            return
        else:
            codes = {
                (topic.name, partition.partition_index): partition.error_code
                for topic in response.topics
                for partition in topic.partitions
            }
            read = read_commit_response(sending.partitions, codes)
            if read.coordinator_moved:
                coordinator.coordinator_dead(Errors.NotCoordinatorError(coordinator.group_id))
            found.failed.update(read.failed)
            answered = replace(
                answered, error=read.error, accepted=read.accepted, failed=frozenset(read.failed)
            )
        if (
            not sending.partitions <= answered.accepted | answered.failed
            and answered.error is MembershipError.OTHER
        ):
            await coordinator.back_off()
        found.refused_by_rebalance = answered.error is MembershipError.REBALANCE_IN_PROGRESS
        coordinator.handle(answered)

    def _fail(self, number: int, error: Exception) -> None:
        found = self._open.get(number)
        if found is not None and not found.ended.is_done:
            found.ended.failure(error)


def require_offsets(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """TypeError for offsets of other types, as kafka-python says it."""
    if not isinstance(offsets, dict):
        raise TypeError(f"offsets must be a dict {{TopicPartition: OffsetAndMetadata}}, not {offsets!r}")
    for tp, offset in offsets.items():
        if not isinstance(tp, TopicPartition) or not isinstance(offset, OffsetAndMetadata):
            raise TypeError(
                f"offsets must be {{TopicPartition: OffsetAndMetadata}}, not {{{tp!r}: {offset!r}}}"
            )
