"""Commits under way: the offsets and who waits for them. The machine decides what is sent, and when."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import aiokafka.errors as Errors
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from aiokafka.util import wait_for

from kafka_assignors.rebalance.commit_queue import CommitQueue
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
from kafka_assignors_aiokafka.cooperative import requests

__all__ = ["Commits"]


@dataclass(slots=True)
class _Open:
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ended: asyncio.Future[None]
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

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Commit, however often that has to be tried.

        Raises CommitFailedError if a partition was given up before the commit was accepted, the error of the
        coordinator if that says that trying again is of no use, and KafkaTimeoutError in a consumer that is
        being stopped: while a leader assigns no commit is accepted, and that may last.
        """
        if not offsets:
            return
        coordinator, number = self._coordinator, next(self._numbers)
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open[number] = _Open(offsets, ended)
        self._queue.add(number, frozenset(offsets), coordinator.committable)
        patience_s = coordinator._session_timeout_ms / 1000 if coordinator.is_closing else None
        try:
            self._request_next()
            await wait_for(ended, patience_s)
        except asyncio.TimeoutError:
            raise Errors.KafkaTimeoutError(f"not committed within {patience_s:g} s") from None
        finally:
            del self._open[number]
            is_known = ended.done() and not ended.cancelled() and ended.exception() is None
            if self._queue.end(number) and not is_known:
                # Its caller waits no longer; the machine does not mind if it knows.
                coordinator.handle(CommitAbandoned(number))
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
        if found is None or found.ended.done():
            return
        if found.failed:
            found.ended.set_exception(requests.commit_error(found.failed, self._coordinator.group_id))
            return
        if isinstance(outcome, CommitDone):
            found.ended.set_result(None)
            return
        refused = ", ".join(f"{topic}-{number}" for topic, number in sorted(outcome.partitions, key=str))
        found.ended.set_exception(Errors.CommitFailedError(f"not committed for {refused}: {outcome.reason}"))

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
            if coordinator.coordinator_id is None:
                # A consumer that is being stopped waits for its coordinator for so long only.
                await wait_for(coordinator.ensure_coordinator_known(), coordinator._session_timeout_ms / 1000)
            response = await coordinator._send_req(
                requests.offset_commit(
                    coordinator.group_id, sending.membership, coordinator._group_instance_id, offsets
                )
            )
        except (Errors.KafkaError, asyncio.TimeoutError) as error:
            if coordinator.is_closing or not getattr(error, "retriable", True):
                self._fail(sending.commit, error)
                return
        except Exception as error:  # Of the arguments: what cannot be encoded, for one.
            self._fail(sending.commit, error)
            return
        else:
            codes = {
                (topic, number): code for topic, partitions in response.topics for number, code in partitions
            }
            read = read_commit_response(sending.partitions, codes)
            if read.coordinator_moved:
                coordinator.coordinator_dead()
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
        if found is not None and not found.ended.done():
            if isinstance(error, asyncio.TimeoutError):
                error = Errors.GroupCoordinatorNotAvailableError()
            found.ended.set_exception(error)
