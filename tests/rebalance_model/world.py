"""One state of the model: members and their coordinator, with everything that is on the way between them.

Requests and responses are apart from each other and from what the user does, so each of them can be early,
late or lost. A member has at most one JoinGroup or SyncGroup, one heartbeat and one commit on the way, each
on a connection of its own. The present is always 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from kafka_assignors.rebalance.events import Membership, MembershipError, Partitions
from kafka_assignors.rebalance.member import MemberState
from kafka_assignors.rebalance.progress import Phase
from tests.rebalance_model.coordinator import (
    Claim,
    Coordinator,
    JoinReply,
    Replies,
    SyncReply,
    standing,
)

NOTHING: Partitions = frozenset()
NOW = 0

LETTERS, NAMES = "abcde", "ABCDE"
"""A process, and the first letter of all member ids that it ever has."""


class Violation(Exception):
    """A property does not hold; the message says which and where."""


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
    """With an answer that takes a part of it."""
    failed: Partitions = NOTHING


@dataclass(frozen=True, slots=True)
class Process:
    """A consumer, its requests and the responses to them. `member` is None while it does not run."""

    member: MemberState | None = None
    join: JoinSent | JoinAnswered | SyncSent | SyncAnswered | None = None
    heartbeat: Heartbeat | None = None
    commit: Commit | None = None
    leaving: tuple[str, ...] = ()
    """Member ids in LeaveGroup requests on the way."""
    overtaken: Partitions = NOTHING
    """Of the open commit: what a member of the present generation has installed since it was asked for."""


@dataclass(frozen=True, slots=True)
class World:
    coordinator: Coordinator
    processes: tuple[Process, ...]


class Removal(NamedTuple):
    """Members leave, expire, or have not rejoined in time."""

    member_ids: tuple[str, ...]


class Loading(NamedTuple):
    """A heartbeat that comes to a coordinator which has taken over and has not loaded the group yet."""

    membership: Membership


class TakenInPart(NamedTuple):
    """A commit whose partitions have errors of their own, at a coordinator that knows the member."""

    membership: Membership
    accepted: Partitions
    failed: Partitions


Request: TypeAlias = JoinSent | SyncSent | Heartbeat | Loading | Commit | TakenInPart | Removal
"""What comes to the coordinator."""


class Known(NamedTuple):
    """All that the steps of a process see of the coordinator before it answers."""

    index: int
    ids: tuple[tuple[str, bool], ...]
    """The member ids of the process that are in the group, and whether their session is over."""
    generation: int
    preparing: bool

    def knows(self, member_id: str) -> bool:
        return any(name == member_id for name, _ in self.ids)

    def answer(self, membership: Membership) -> MembershipError:
        """To a heartbeat."""
        return standing(
            self.knows(membership.member_id), membership.generation == self.generation, self.preparing
        )


class JavaMember(MemberState):
    """As Java's consumer in what others notice: it has no lease, and knows only loss that it is told of.

    It sends no heartbeats while it joins, commits nothing then, and never sends a commit again.
    """

    def has_lease(self, now: float) -> bool:
        return self.in_group


def may_send_heartbeat(member: MemberState) -> bool:
    return member.in_group and not (isinstance(member, JavaMember) and member.phase is Phase.JOINING)


def waits_for_sync(member: MemberState) -> bool:
    """Whether nothing but SyncGroup's answer brings the lease back, whose time is then all that counts."""
    longest = max(member.settings.session_timeout, member.settings.rebalance_timeout)
    return longest == 1 and member.lease.stable_at + longest <= NOW and not member.has_lease(NOW)


def received(process: Process, index: int, mail: Replies, installed: Partitions) -> Process:
    """A process after another one, or the coordinator, has done something."""
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
    if installed and _has_commit(process):
        process = replace(process, overtaken=process.overtaken | installed)
    return process


def member_ids(process: Process) -> Iterator[str]:
    """Every id that the process or a message of its still uses."""
    yield from process.leaving
    if process.member is not None:
        yield process.member.membership.member_id
    for message in (process.join, process.heartbeat, process.commit):
        if message is not None:
            membership = message.reply.membership if isinstance(message, JoinAnswered) else message.membership
            yield membership.member_id


def _has_commit(process: Process) -> bool:
    return process.commit is not None or (process.member is not None and bool(process.member.commits))
