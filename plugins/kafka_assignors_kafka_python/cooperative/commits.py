"""Commits under way: the offsets and who waits for them. The machine decides what is sent, and when.

All of it runs on kafka-python's I/O thread.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka import errors as Errors
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance.answers import answer_of
from kafka_assignors.rebalance.values import (
    Answer,
    CommitAbandoned,
    CommitAnswered,
    CommitDone,
    CommitRefused,
    CommitRequested,
    SendCommit,
)
from kafka_assignors_kafka_python.cooperative import requests

__all__ = ["Commits"]


@dataclass(slots=True)
class _Open:
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ended: Any
    refused_by_rebalance: bool = False


class Commits:
    """The open commits of one coordinator."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._numbers = itertools.count()
        self._open: dict[int, _Open] = {}

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
        self._coordinator.handle(CommitRequested(number, frozenset(offsets)))
        try:
            await self._coordinator.wait_for(ended, timeout_ms)
        finally:
            del self._open[number]
            if not ended.succeeded():
                # Nobody waits for it any more; the machine does not mind if it knows.
                self._coordinator.handle(CommitAbandoned(number))

    def finish(self, outcome: CommitDone | CommitRefused) -> None:
        """Tell who waits for a commit how it ended."""
        found = self._open.get(outcome.commit)
        if found is None or found.ended.is_done:
            return
        if isinstance(outcome, CommitDone):
            found.ended.success(None)
            return
        refused = ", ".join(f"{topic}-{number}" for topic, number in sorted(outcome.partitions))
        found.ended.failure(Errors.CommitFailedError(f"not committed for {refused}: {outcome.reason}"))

    async def send(self, sending: SendCommit) -> None:
        """Send one request of a commit."""
        coordinator = self._coordinator
        found = self._open.get(sending.commit)
        if found is None:
            return
        if found.refused_by_rebalance:
            await coordinator.back_off()
        answer = Answer.OTHER
        offsets = {tp: offset for tp, offset in found.offsets.items() if tp in sending.partitions}
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
        else:
            code = _first_error(response)
            answer = coordinator.settle(code)
            if answer is Answer.OTHER and not requests.is_transient(code):
                self._fail(sending.commit, requests.error_of(code, coordinator.group_id))
                return
        if answer is Answer.OTHER:
            await coordinator.back_off()
        found.refused_by_rebalance = answer is Answer.REBALANCE_IN_PROGRESS
        coordinator.handle(CommitAnswered(sending.commit, sending.membership, answer))

    def _fail(self, number: int, error: Errors.KafkaError) -> None:
        found = self._open.get(number)
        if found is not None and not found.ended.is_done:
            found.ended.failure(error)


def _first_error(response: Any) -> int:
    """The error of the partitions: those about the membership are the same for all of them."""
    codes = [
        partition.error_code
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code
    ]
    return next((code for code in codes if answer_of(code) is not Answer.OTHER), min(codes, default=0))
