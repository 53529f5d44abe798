"""The open commits of a member: of which partitions an offset may be sent, and when.

A commit never outlives the ownership of its partitions. The coordinator checks member and generation, not
ownership: an old offset sent again under a new generation can overwrite what the new owner committed. So
giving a partition up strikes it from every open commit. A commit that crossed a change of generation is sent
again for the partitions that were owned all the while, and is refused for the rest.

**One request at a time.** OffsetCommit has no sequence number, and a request that waits for the coordinator,
or for a connection, may be overtaken. So the machine hands out a request only at the moment at which it can
be written (`CommitsCanBeSent`), and the next one only when that was answered or its connection is closed. A
request has the newest offset of each partition: earlier open commits of a partition have the outcome of the
later one.

**Held.** Between the responses to JoinGroup and SyncGroup the coordinator accepts no commit.

`OpenCommits` knows partitions alone; `session_commits` has commits and their offsets, and `member` decides
*when* they may be sent. It is immutable: its methods return the next value."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from kafka_assignors.rebalance.events import Action, CommitRefused, Membership, Partitions, SendCommit

_NOTHING: Partitions = frozenset()


@dataclass(frozen=True, slots=True)
class OpenCommits:
    """The open commits of one member.

    Attributes:
        waiting: the partitions with an offset that is not in the request under way.
        is_under_way: a request is neither answered, nor is its connection closed.
        resendable: of the partitions in that request, those that may be sent again.
        met_rebalance: the last request was answered REBALANCE_IN_PROGRESS; a later SyncGroup settles it.
    """

    waiting: Partitions = _NOTHING
    is_under_way: bool = False
    resendable: Partitions = _NOTHING
    met_rebalance: bool = False

    def request(self, wanted: Partitions, committable: Partitions) -> CommitStep:
        """The user commits offsets of the `wanted` partitions."""
        after = replace(self, waiting=self.waiting | (wanted & committable))
        return after, _refused(wanted - committable)

    def send(self, fitting: Partitions, membership: Membership) -> CommitStep:
        """Send the offsets that wait, of partitions that fit into one request."""
        sent = self.waiting & fitting
        after = replace(self, waiting=self.waiting - sent, is_under_way=True, resendable=sent)
        return after, (SendCommit(membership, sent),)

    def answered(self, again: Partitions, *, met_rebalance: bool) -> OpenCommits:
        """The request under way is over; the offsets of the partitions `again` need another."""
        return OpenCommits(self.waiting | (self.resendable & again), met_rebalance=met_rebalance)

    def synced(self) -> OpenCommits:
        """A SyncGroup was answered."""
        return replace(self, met_rebalance=False)

    def without(self, abandoned: Partitions) -> OpenCommits:
        """The open commits when no caller waits any more for what waits of these partitions."""
        return replace(self, waiting=self.waiting - abandoned)

    def strike(self, partitions: Partitions) -> CommitStep:
        """Refuse all commits of partitions that were given up, unless the request under way succeeds."""
        after = replace(self, waiting=self.waiting - partitions, resendable=self.resendable - partitions)
        return after, _refused((self.waiting | self.resendable) & partitions)

    def strike_all(self) -> CommitStep:
        """Refuse all commits, because the membership was lost."""
        after = OpenCommits(is_under_way=self.is_under_way)
        return after, _refused(self.waiting | self.resendable)


def _refused(partitions: Partitions) -> tuple[Action, ...]:
    return (CommitRefused(partitions),) if partitions else ()


NO_COMMITS = OpenCommits()
CommitStep: TypeAlias = tuple[OpenCommits, tuple[Action, ...]]
