"""The commits of a member, as their callers see them: the offsets, the requests and the outcome.

The machine decides what is sent, and when. All of this runs on the client's event loop.

**The queue.** The cost of an event in the machine grows with the number of its commits, so many commits at
once would cost the square of their number. The machine gets a few at a time, and the others wait here, in the
order in which they were requested: so each commit costs the same. A commit that waits must not outlive the
ownership of its partitions either (`member`). A partition that leaves a member is missing from an `Install`
before it can come back: partitions that an `Install` does not name are struck from the commits that wait, and
the machine refuses them when their turn has come.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafka_assignors.rebalance.error_codes import NOT_COORDINATOR, commit_error, read_commit_response
from kafka_assignors.rebalance.events import (
    CommitAbandoned,
    CommitAnswered,
    CommitDone,
    CommitRefused,
    CommitRequested,
    MembershipError,
    Partition,
    Partitions,
    SendCommit,
)
from kafka_assignors.rebalance.observer import Observers
from kafka_assignors.rebalance.transport import Consumer, Outcome, Transport

MOST_IN_MACHINE = 32
"""The most commits of one member in the machine at a time, each with at most one request under way."""

MOST_OPEN = 5000
"""The most open commits of one member, for a client whose callers do not wait themselves."""


class CommitQueue:
    """The open commits of one member: those in the machine, and behind them those that wait.

    Every operation except `installed` takes constant time.
    """

    def __init__(self, most_in_machine: int = MOST_IN_MACHINE) -> None:
        self._most_in_machine = most_in_machine
        self._in_machine: set[int] = set()
        self._waiting: OrderedDict[int, tuple[Partitions, Partitions]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._in_machine) + len(self._waiting)

    def add(self, commit: int, partitions: Partitions, committable: Partitions) -> None:
        """A commit was requested. `committable` is `MemberState.committable` at this moment."""
        self._waiting[commit] = (partitions, partitions - committable)

    def next(self) -> CommitRequested | None:
        """The event for the commit whose turn it is; None while the machine has enough, or none waits."""
        if not self._waiting or len(self._in_machine) >= self._most_in_machine:
            return None
        commit, (partitions, given_up) = self._waiting.popitem(last=False)
        self._in_machine.add(commit)
        return CommitRequested(commit, partitions, given_up)

    def installed(self, owned: Partitions) -> None:
        """Apply an `Install`: commits that wait may carry no other partitions."""
        for commit, (partitions, given_up) in self._waiting.items():
            if not partitions <= owned | given_up:
                self._waiting[commit] = (partitions, given_up | (partitions - owned))

    def end(self, commit: int) -> bool:
        """A commit has come to its end, or its caller waits no longer; whether the machine had it."""
        if commit in self._in_machine:
            self._in_machine.remove(commit)
            return True
        self._waiting.pop(commit, None)
        return False


@dataclass(slots=True)
class _Open:
    """A commit that its caller waits for; `failed` are the error codes of partitions that failed for good."""

    offsets: Mapping[Any, Any]
    outcome: Outcome
    is_done: bool = False
    is_refused_by_rebalance: bool = False
    failed: dict[Partition, int] = field(default_factory=dict)


class SessionCommits:
    """The open commits of one member."""

    def __init__(
        self, consumer: Consumer, transport: Transport, group_id: str, observers: Observers | None = None
    ) -> None:
        self._observers = observers
        self._consumer = consumer
        self._transport = transport
        self._group_id = group_id
        self._numbers = itertools.count()
        self._open: dict[int, _Open] = {}
        self._queue = CommitQueue()

    def __len__(self) -> int:
        return len(self._open)

    async def commit(self, offsets: Mapping[Any, Any], timeout_s: float | None) -> None:
        """Commit, with retries.

        Raises the client's CommitFailedError if a partition was given up before the commit was accepted, the
        error of the coordinator if no retry helps, and KafkaTimeoutError.
        """
        if not offsets:
            return
        number = next(self._numbers)
        opened = self._open[number] = _Open(offsets, self._transport.outcome())
        self._queue.add(number, frozenset(offsets), self._consumer.member.committable)
        try:
            self._request_next()
            await opened.outcome.wait(timeout_s)
        finally:
            del self._open[number]
            if self._queue.end(number) and not opened.is_done:
                # Its caller waits no longer. The machine ignores the event if the commit is over.
                self._consumer.handle(CommitAbandoned(number))
            self._request_next()

    def _request_next(self) -> None:
        while (request := self._queue.next()) is not None:
            self._consumer.handle(request)

    def installed(self, owned: Partitions) -> None:
        """Apply an `Install` to the commits that wait."""
        self._queue.installed(owned)

    def finish(self, action: CommitDone | CommitRefused) -> None:
        """Tell the caller of a commit how it ended."""
        found = self._open.get(action.commit)
        if found is None:
            return
        errors = self._transport.errors
        if found.failed:
            found.outcome.resolve(commit_error(found.failed, self._group_id, errors))
        elif isinstance(action, CommitRefused):
            refused = ", ".join(f"{topic}-{number}" for topic, number in sorted(action.partitions, key=str))
            found.outcome.resolve(errors.CommitFailedError(f"not committed for {refused}: {action.reason}"))
        else:
            found.is_done = True
            found.outcome.resolve()

    async def send(self, sending: SendCommit) -> None:
        transport, consumer = self._transport, self._consumer
        found = self._open.get(sending.commit)
        if found is None:
            return
        if found.is_refused_by_rebalance:
            await transport.back_off()
        offsets = {tp: offset for tp, offset in found.offsets.items() if tp in sending.partitions}
        answered = CommitAnswered(sending.commit, sending.membership, MembershipError.OTHER)
        try:
            await transport.find_coordinator(consumer.member.settings.session_timeout)
            sent_at = transport.now()
            codes = await transport.offset_commit(sending.membership, offsets)
        except transport.errors.KafkaError as error:
            if not consumer.retries_commits or not getattr(error, "retriable", False):
                found.outcome.resolve(error)
                return
        except Exception as error:  # A wrong argument, such as metadata that cannot be encoded.
            found.outcome.resolve(error)
            return
        else:
            if self._observers is not None:
                seconds = transport.now() - sent_at
                self._observers.tell("commit_answered", seconds=seconds, ok=not any(codes.values()))
            read = read_commit_response(sending.partitions, codes)
            if read.coordinator_moved:
                transport.forget_coordinator(NOT_COORDINATOR)
            found.failed.update(read.failed)
            answered = replace(
                answered, error=read.error, accepted=read.accepted, failed=frozenset(read.failed)
            )
        is_settled = sending.partitions <= answered.accepted | answered.failed
        if answered.error is MembershipError.OTHER and not is_settled:
            await transport.back_off()
        found.is_refused_by_rebalance = answered.error is MembershipError.REBALANCE_IN_PROGRESS
        consumer.handle(answered)
