"""The commits of a member, as their callers see them: the offsets, the requests and the outcome.

The machine decides of which partitions an offset may be sent (`commits`), and this file which offset: the
newest of each partition. All of this runs on the client's event loop.

**First the wait, then the decision.** `look` follows every event. If the machine has something to send, it
is told `CommitsCanBeSent` as soon as a request can be written, and its request is written in the same step.
So a commit that was superseded, refused or abandoned meanwhile is never written.

**Earlier commits of a partition** have the outcome of the later one that is written in their place. If that
one fails for good, or its caller waits no longer before it is written, they are sent themselves, but never
after a later one that the coordinator may have accepted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_assignors.rebalance import events, lease
from kafka_assignors.rebalance.client import Client, Outcome
from kafka_assignors.rebalance.error_codes import NOT_COORDINATOR, commit_error, read_commit_response
from kafka_assignors.rebalance.events import MembershipError, Partition, Partitions
from kafka_assignors.rebalance.observer import Observers

MOST_OPEN = 5000
"""The most open commits of one member, for a client whose callers do not wait themselves."""

MOST_PARTITIONS = 200
"""The most partitions of different commits in one request. A coordinator stores a request as one batch of at
most `max.message.bytes` (1 MiB), with metadata of at most `offset.metadata.max.bytes` (4 KiB) each."""

_GAVE_UP = (
    "the partitions were revoked or lost after the commit was requested, or never owned, or a later commit "
    "of them failed"
)

_MET_FAILED_JOINS = (
    "the group is rebalancing, and this member cannot join it: the call for records says why, after that "
    "commit again"
)


@dataclass(slots=True, eq=False)
class _Open:
    """A commit that its caller waits for; `failed` are the error codes of partitions that failed for good."""

    number: int
    offsets: Mapping[Any, Any]
    outcome: Outcome
    undecided: set[Partition]
    refused: set[Partition] = field(default_factory=set)
    failed: dict[Partition, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Line:
    """The open commits of one partition by number, in the order in which they were requested.

    Attributes:
        partition: as the client has it.
        waiting: those that are not in the request under way.
        sent: the others. The last one of them, `written`, is the one in the request.
        over: no commit up to this number is written any more.
    """

    partition: Any
    waiting: dict[int, _Open] = field(default_factory=dict)
    sent: dict[int, _Open] = field(default_factory=dict)
    written: int = -1
    over: int = -1

    @property
    def newest(self) -> _Open:
        return self.waiting[next(reversed(self.waiting))]


class SessionCommits:
    """The open commits of one member.

    Attributes:
        failed_joins: how many joins in a row have failed with an error for the user.
    """

    def __init__(self, client: Client, group_id: str, observers: Observers) -> None:
        self._observers = observers
        self._client = client
        self._group_id = group_id
        self.failed_joins = 0
        self._last = -1
        self._lines: dict[Partition, _Line] = {}
        """Those of the partitions with open commits. The one that was sent last comes last."""
        self._is_connecting = False
        self._is_backing_off = False

    async def commit(self, offsets: Mapping[Any, Any], timeout_s: float | None) -> None:
        """Commit, with retries.

        Raises the client's CommitFailedError if a partition was given up before the commit was accepted, the
        error of the coordinator if no retry helps, KafkaTimeoutError, and what the client raises for offsets
        that it cannot send.
        """
        if not offsets:
            return
        if not self._client.member.committable.isdisjoint(offsets):
            self._client.check_offsets(offsets)
        self._last += 1
        opened = _Open(self._last, offsets, Outcome(self._client), set(offsets))
        for partition in offsets:
            self._lines.setdefault(partition, _Line(partition)).waiting[opened.number] = opened
        try:
            self._client.handle(events.CommitRequested(frozenset(offsets)))
            await opened.outcome.wait(timeout_s)
        finally:
            self._abandon(opened)

    # ---- requests

    def look(self) -> None:
        """Send what the machine wants to send, as soon as it can be written. Call this after every event."""
        if self._is_backing_off or not self._client.member.can_commit:
            return
        if self._client.is_ready():
            self._client.handle(events.CommitsCanBeSent(self._fitting()))
        elif not self._is_connecting:
            self._is_connecting = True
            self._client.spawn(self._connect())

    def write(self, sending: events.SendCommit) -> None:
        """Write the request: nothing waits since the machine decided on it."""
        offsets = {}
        for partition in sorted(sending.partitions):
            line = self._lines[partition] = self._lines.pop(partition)
            newest = line.newest
            offsets[line.partition] = newest.offsets[partition]
            line.sent, line.waiting, line.written = line.waiting, {}, newest.number
        try:
            response = self._client.offset_commit(sending.membership, offsets)
        except Exception as error:
            response = _failed(error)
        self._client.spawn(self._settle(sending, response))

    async def _connect(self) -> None:
        """Wait until a request can be written, and look again."""
        client = self._client
        try:
            await client.connect(self._client.member.settings.session_timeout)
        except Exception as error:
            if self._may_retry(error):
                await client.back_off()
            else:
                waiting = self._client.member.commits.waiting
                self._fail(error, [self._lines[one].waiting for one in waiting])
        self._is_connecting = False
        self.look()

    def _fitting(self) -> Partitions:
        """The partitions whose offsets go into one request: whole commits, those that wait longest first."""
        waiting = self._client.member.commits.waiting
        if len(waiting) <= MOST_PARTITIONS:
            return waiting
        fitting: set[Partition] = set()
        for partition, line in self._lines.items():
            if partition in waiting and partition not in fitting:
                more = fitting | {one for one in line.newest.offsets if one in waiting}
                if fitting and len(more) > MOST_PARTITIONS:
                    break
                fitting = more
        return frozenset(fitting)

    async def _settle(self, sending: events.SendCommit, response: Awaitable[Mapping[Partition, int]]) -> None:
        """Tell the callers and the machine how the request ended."""
        client, sent_at = self._client, lease.clock()
        error, accepted, failed = MembershipError.OTHER, frozenset[Partition](), dict[Partition, int]()
        try:
            codes = await response
        except Exception as failure:
            if not self._may_retry(failure):
                self._fail_sent(failure, sending.partitions)
        else:
            seconds = lease.clock() - sent_at
            self._observers.tell("commit_answered", seconds=seconds, ok=not any(codes.values()))
            read = read_commit_response(sending.partitions, codes)
            if read.coordinator_moved:
                client.forget_coordinator(NOT_COORDINATOR)
            error, accepted, failed = read.error, read.accepted, dict(read.failed)
            if error is MembershipError.REBALANCE_IN_PROGRESS and self._joins_do_not_help:
                self._fail_sent(client.errors.CommitFailedError(_MET_FAILED_JOINS), sending.partitions)
        again = frozenset(one for one in sending.partitions if self._settled(one, accepted, failed))
        passes = error in (MembershipError.OTHER, MembershipError.REBALANCE_IN_PROGRESS)
        pause = passes and not again <= failed.keys()
        self._is_backing_off = pause
        self._client.handle(events.CommitAnswered(sending.membership, error, again))
        if pause:
            await client.back_off()
            self._is_backing_off = False
            self.look()

    def _settled(self, partition: Partition, accepted: Partitions, failed: Mapping[Partition, int]) -> bool:
        """Apply the answer to the commits of one partition; whether one of them still waits."""
        line = self._lines.get(partition)
        if line is None:
            return False
        sent, line.sent = line.sent, {}
        if partition in accepted:
            for one in sent.values():
                self._decide(one, partition)
        else:
            if partition not in failed:
                line.over = max(line.over, line.written - 1)
            elif (newest := sent.pop(line.written, None)) is not None:
                newest.failed[partition] = failed[partition]
                self._decide(newest, partition)
            sent.update(line.waiting)
            line.waiting = sent
        return self._tidied(partition, line)

    def _may_retry(self, error: Exception) -> bool:
        is_retriable = isinstance(error, self._client.errors.KafkaError) and getattr(
            error, "retriable", False
        )
        return is_retriable and self._client.retries_commits

    @property
    def _joins_do_not_help(self) -> bool:
        """Whether the end of a rebalance is not in sight: the member leaves, or the next join failed too."""
        member = self._client.member
        return self.failed_joins > (0 if member.closing or not member.topics else 1)

    # ---- outcomes

    def refuse(self, action: events.CommitRefused) -> None:
        """Tell the callers that their commits failed; those in the request under way wait for its end."""
        for partition in action.partitions:
            if (line := self._lines.get(partition)) is not None:
                line.over = self._last
                self._tidied(partition, line)

    def _fail_sent(self, error: Exception, partitions: Partitions) -> None:
        self._fail(error, [self._lines[one].sent for one in partitions if one in self._lines])

    def _fail(self, error: Exception, commits: Iterable[Mapping[int, _Open]]) -> None:
        for opened in {one.number: one for each in commits for one in each.values()}.values():
            opened.outcome.resolve(error)
            self._abandon(opened)

    def _abandon(self, opened: _Open) -> None:
        """No caller waits any more for the outcome, if that is still open."""
        undecided, opened.undecided = opened.undecided, set()
        gone = set()
        for partition in undecided:
            line = self._lines[partition]
            if line.waiting.pop(opened.number, None) is None:
                del line.sent[opened.number]
            if not self._tidied(partition, line):
                gone.add(partition)
        if abandoned := self._client.member.commits.waiting & gone:
            self._client.handle(events.CommitAbandoned(abandoned))

    def _tidied(self, partition: Partition, line: _Line) -> bool:
        """Refuse what is never written, and drop an empty line; whether something is left to write."""
        if line.waiting and line.newest.number <= line.over:
            refused, line.waiting = line.waiting, {}
            for one in refused.values():
                one.refused.add(partition)
                self._decide(one, partition)
        if not line.waiting and not line.sent:
            del self._lines[partition]
        return bool(line.waiting)

    def _decide(self, opened: _Open, partition: Partition) -> None:
        """The outcome for this partition is known; tell the caller if it was the last one."""
        opened.undecided.discard(partition)
        if opened.undecided:
            return
        errors = self._client.errors
        if opened.failed:
            opened.outcome.resolve(commit_error(opened.failed, self._group_id, errors))
        elif opened.refused:
            refused = ", ".join(f"{topic}-{number}" for topic, number in sorted(opened.refused, key=str))
            opened.outcome.resolve(errors.CommitFailedError(f"not committed for {refused}: {_GAVE_UP}"))
        else:
            opened.outcome.resolve()


async def _failed(error: Exception) -> Mapping[Partition, int]:
    raise error
