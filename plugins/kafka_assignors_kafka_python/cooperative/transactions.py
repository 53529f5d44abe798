"""Commits that the user's thread begins without waiting, and joins that wait for a transaction.

`commit_async` begins a commit and returns. A transaction commits through the producer, with the membership
that `group_metadata` returns, so joins wait while the application may have a transaction open.

A coordinator refuses the offsets of a transaction with group metadata of an earlier generation, and the
generation changes when the last member has joined. kafka-python's own consumer joins only inside `poll`, so
its metadata are valid from one `poll` to the next. Here joins go on between polls. A call of `group_metadata`
means that a transaction may be open:

    - From then until the next `poll` begins, no JoinGroup is sent, unless a `commit` has met a rebalance and
      needs it. Without it the group gets no new generation, except if this member is expelled.
    - While a JoinGroup or SyncGroup is unanswered, `group_metadata` waits for the response, since earlier
      metadata would be refused. It does not wait if no record was ever returned: there is nothing to commit.

The wait ends. The response needs nothing from this thread: JoinGroup is sent already, a leader has a thread
for its strategy, the listener is called after the response, and an error of the join then does not wait for
the next `poll`. Members that hold back their JoinGroup wait for no other member. But a member that is polled
by this same thread cannot join before this call returns: hence `request_timeout_ms`, as for every call that
blocks.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka import errors as Errors
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from kafka_assignors.rebalance.session_commits import MOST_OPEN, SessionCommits

if TYPE_CHECKING:
    from kafka_assignors_kafka_python.cooperative.coordinator import CooperativeCoordinator

log = logging.getLogger("kafka_assignors_kafka_python")


class TooManyCommitsError(Errors.RetriableError):  # type: ignore[misc]  # kafka-python has no types
    """Too many commits are open: try again after a `poll`."""


class AsyncCommits:
    """The commits of one coordinator that `commit_async` has begun.

    Their callbacks are called in the order in which the commits were begun.
    """

    def __init__(self, coordinator: CooperativeCoordinator, commits: SessionCommits) -> None:
        self._coordinator = coordinator
        self._commits = commits
        self._begun: deque[_Begun] = deque()
        """The user's thread alone appends. The I/O thread alone takes, so each callback is called once."""

    def start(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], callback: Callable[..., Any]) -> Any:
        """Begin a commit on the user's thread: a future, and `callback(offsets, outcome)` in a later poll.

        The outcome is TooManyCommitsError if the user begins commits faster than the coordinator answers.
        """
        offsets = require_offsets(offsets)
        coordinator = self._coordinator
        completed = coordinator.completed_offset_commits
        if len(self._begun) >= MOST_OPEN:
            refused = TooManyCommitsError(
                f"group {coordinator.group_id!r}: {MOST_OPEN} commits are open; poll() until some have ended"
            )
            completed.append((callback, offsets, refused))
            return Future().failure(refused)
        self._begun.append(begun := _Begun(callback, offsets))
        return coordinator.start(self._commit, begun)

    async def _commit(self, begun: _Begun) -> None:
        timeout_s = self._coordinator.config["request_timeout_ms"] / 1000
        try:
            await self._commits.commit(begun.offsets, timeout_s)
            begun.outcome = None
        except BaseException as error:
            begun.outcome = error
            raise
        finally:
            while self._begun and (first := self._begun[0]).outcome is not _OPEN:
                self._begun.popleft()
                callback = first.callback, first.offsets, first.outcome
                self._coordinator.completed_offset_commits.append(callback)


_OPEN = object()
"""The outcome of a commit that has not ended."""


@dataclass(slots=True)
class _Begun:
    """A commit that `commit_async` has begun."""

    callback: Callable[..., Any]
    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    outcome: object = _OPEN


def require_offsets(
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """A copy, since the user may change the dict meanwhile; TypeError for offsets of other types."""
    if not isinstance(offsets, dict):
        raise TypeError(f"offsets must be a dict {{TopicPartition: OffsetAndMetadata}}, not {offsets!r}")
    copied = dict(offsets)
    for tp, offset in copied.items():
        if not isinstance(tp, TopicPartition) or not isinstance(offset, OffsetAndMetadata):
            raise TypeError(
                f"offsets must be {{TopicPartition: OffsetAndMetadata}}, not {{{tp!r}: {offset!r}}}"
            )
    return copied


class JoinHold:
    """Holds back the joins of one coordinator while a transaction may be open.

    Attributes:
        is_held: no JoinGroup may be sent.
        has_returned_records: whether the application ever got a record.
    """

    def __init__(self, coordinator: CooperativeCoordinator) -> None:
        self.is_held = False
        self.has_returned_records = False
        self._coordinator = coordinator

    def begin(self) -> None:
        """A transaction may be open from now on. Any thread may call this."""
        if self._coordinator.is_on_io_thread:
            self.is_held = True  # Called by a coroutine of the listener, in `poll`.
        else:
            self._coordinator.on_io_thread(self._begin)

    def end(self) -> None:
        """No transaction is open any more. Called on the user's thread."""
        if self.is_held:
            self.is_held = False
            self._coordinator.join_may_be_due()

    async def _begin(self) -> None:
        # Joins begin on the I/O thread, which runs this: none begins after the next line.
        self.is_held = True
        if not self.has_returned_records:
            return
        coordinator = self._coordinator
        deadline = time.monotonic() + coordinator.config["request_timeout_ms"] / 1000
        while (request := coordinator.join_under_way) is not None:
            try:
                await coordinator.wait_for(request, (deadline - time.monotonic()) * 1000)
            except Errors.KafkaTimeoutError:
                log.warning(
                    "group %r: group_metadata() waited for a rebalance for request_timeout_ms: the "
                    "coordinator may refuse the offsets of this transaction",
                    coordinator.group_id,
                )
                return
