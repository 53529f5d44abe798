"""One state of the model: the processes, their coordinator, and all messages on the way between them.

Requests and responses are separate from each other and from the user's actions, so each of them can be early,
late or lost. A member has at most one JoinGroup or SyncGroup, one heartbeat and one commit on the way, each
on its own connection. The current time is always 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from kafka_assignors.rebalance.events import Membership, MembershipError, Partitions
from kafka_assignors.rebalance.member import MemberState
from kafka_assignors.rebalance.progress import Phase
from kafka_assignors.rebalance.warming import Warming
from tests.rebalance_model.coordinator import Claim, Coordinator, JoinReply, Replies, SyncReply, standing

NOTHING: Partitions = frozenset()
NOW = 0

LETTERS, NAMES = "abcde", "ABCDE"
"""The first letter of all member ids of a process, and the name of the process."""


class Violation(Exception):
    """A property is violated; the message says which one, and where."""


class JoinSent(NamedTuple):
    attempt: int
    membership: Membership
    claim: Claim
    arrived: bool


class JoinAnswered(NamedTuple):
    attempt: int
    reply: JoinReply


class SyncSent(NamedTuple):
    membership: Membership
    sent_at: float
    arrived: bool


class SyncAnswered(NamedTuple):
    membership: Membership
    sent_at: float
    reply: SyncReply


class Heartbeat(NamedTuple):
    membership: Membership
    sent_at: float
    answer: MembershipError | None


class Commit(NamedTuple):
    membership: Membership
    partitions: Partitions
    answer: MembershipError | None
    accepted: Partitions = NOTHING
    """Partitions that a partial answer accepts."""
    failed: Partitions = NOTHING
    overtaken: Partitions = NOTHING
    """Partitions that a current member installed after their commit was requested."""
    abandoned: bool = False
    """Its callers wait no longer."""


COLD = Warming()


@dataclass(frozen=True, slots=True)
class Process:
    """A consumer, its requests and the responses to them. `member` is None while it does not run."""

    member: MemberState | None = None
    join: JoinSent | JoinAnswered | SyncSent | SyncAnswered | None = None
    heartbeat: Heartbeat | None = None
    commit: Commit | None = None
    leaving: tuple[str, ...] = ()
    """Member ids in LeaveGroup requests on the way."""
    wanted: Partitions = NOTHING
    """Partitions with an open commit that is not in the request under way: it waits to be written."""
    overtaken: Partitions = NOTHING
    """Those of them that a current member installed after the commit was requested."""
    warm: Warming = COLD


@dataclass(frozen=True, slots=True)
class World:
    coordinator: Coordinator
    processes: tuple[Process, ...]


class Removal(NamedTuple):
    """Members that leave, expire or do not rejoin in time."""

    member_ids: tuple[str, ...]


class Loading(NamedTuple):
    """A heartbeat at a coordinator that has taken over the group and has not loaded it yet."""

    membership: Membership


class TakenInPart(NamedTuple):
    """A commit with an error code for each partition, at a coordinator that knows the member."""

    membership: Membership
    accepted: Partitions
    failed: Partitions


Request: TypeAlias = JoinSent | SyncSent | Heartbeat | Loading | Commit | TakenInPart | Removal
"""What arrives at the coordinator."""


class Known(NamedTuple):
    """All that a process's steps see of the coordinator before it responds."""

    index: int
    ids: tuple[tuple[str, bool], ...]
    """The process's member ids in the group, and whether the session of each has expired."""
    generation: int
    preparing: bool

    def knows(self, member_id: str) -> bool:
        return any(name == member_id for name, _ in self.ids)

    def answer(self, membership: Membership) -> MembershipError:
        """The response to a heartbeat."""
        return standing(
            self.knows(membership.member_id), membership.generation == self.generation, self.preparing
        )


class JavaMember(MemberState):
    """A member that looks like Java's consumer to other members.

    It has no lease, and detects only a loss that it is told of. It sends no heartbeats and no commits while
    it joins, and never resends a commit.
    """

    def has_lease(self, now: float) -> bool:
        return self.in_group


def may_send_heartbeat(member: MemberState) -> bool:
    return member.in_group and not (isinstance(member, JavaMember) and member.phase is Phase.JOINING)


def waits_for_sync(member: MemberState) -> bool:
    """Whether only the SyncGroup response can renew the lease, so that its time alone counts."""
    longest = max(member.settings.session_timeout, member.settings.rebalance_timeout)
    return longest == 1 and member.lease.stable_at + longest <= NOW and not member.has_lease(NOW)


def waits_to_call(member: MemberState) -> bool:
    """Whether a call of the listener waits for the coordinator's word."""
    return member.call is not None and not member.call.is_running and not member.may_call(NOW)


def received(process: Process, index: int, mail: Replies, installed: Partitions) -> Process:
    """The process after another process, or the coordinator, has taken a step."""
    for member_id, reply in mail:
        waiting = process.join
        if member_id[0] != LETTERS[index] or not isinstance(waiting, (JoinSent, SyncSent)):
            continue
        if not waiting.arrived or waiting.membership.member_id != member_id:
            continue
        if isinstance(waiting, JoinSent) and isinstance(reply, JoinReply):
            process = replace(process, join=JoinAnswered(waiting.attempt, reply))
        elif isinstance(waiting, SyncSent) and isinstance(reply, SyncReply):
            process = replace(process, join=SyncAnswered(waiting.membership, waiting.sent_at, reply))
    if installed & process.wanted:
        process = replace(process, overtaken=process.overtaken | (installed & process.wanted))
    if process.commit is not None and installed & process.commit.partitions:
        commit = process.commit
        overtaken = commit.overtaken | (installed & commit.partitions)
        process = replace(process, commit=commit._replace(overtaken=overtaken))
    return process


def member_ids(process: Process) -> Iterator[str]:
    """Every member id that the process or one of its messages still uses."""
    yield from process.leaving
    if process.member is not None:
        yield process.member.membership.member_id
    for message in (process.join, process.heartbeat, process.commit):
        if message is not None:
            membership = message.reply.membership if isinstance(message, JoinAnswered) else message.membership
            yield membership.member_id


def parts_of(sent: Commit) -> Iterator[tuple[str, TakenInPart]]:
    """Every partial answer of a coordinator that knows the member: all except accepting the whole commit."""
    partitions = sorted(sent.partitions)
    for fates in itertools.product(("accepted", "failed", "again"), repeat=len(partitions)):
        fate_of = dict(zip(partitions, fates, strict=True))
        accepted, failed, again = (
            frozenset(partition for partition in partitions if fate_of[partition] == fate)
            for fate in ("accepted", "failed", "again")
        )
        if accepted != sent.partitions:
            label = f"{names_of(failed)} fails, {names_of(again)} may be tried again"
            yield label, TakenInPart(sent.membership, accepted, failed)


def names_of(partitions: Partitions) -> str:
    return "+".join(topic for topic, _ in sorted(partitions)) or "nothing"
