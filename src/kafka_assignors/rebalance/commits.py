"""The open commits of a member: which partitions of each may still be sent, and how it ends.

A commit never outlives the ownership of its partitions. The coordinator checks member and generation, not
ownership: an old offset sent again under a new generation can overwrite what the new owner committed. So
giving a partition up strikes it from every open commit. A commit that crossed a change of generation is sent
again for the partitions that were owned all the while, and is refused for the rest. Between the responses to
JoinGroup and SyncGroup the coordinator accepts no commit, so it is held. A retry never follows a later commit
of the same partition: the earlier commit then has the outcome of the later one. A response that accepts some
partitions of a commit settles them: only partitions that were neither accepted nor failed for good are tried
again.

`kafka_assignors.rebalance.member` decides *when* a commit may be sent. `OpenCommits` is immutable; its
methods return the next value, and the actions to carry out. The number of commits is small: `CommitQueue`
keeps the others back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from kafka_assignors.rebalance.events import (
    Action,
    CommitDone,
    CommitRefused,
    Membership,
    Partitions,
    SendCommit,
)

_NOTHING: Partitions = frozenset()

_GAVE_UP = (
    "the partitions were revoked or lost after the commit was requested, or never owned, or a later commit "
    "of them failed"
)


@dataclass(frozen=True, slots=True)
class Commit:
    """An open commit.

    Attributes:
        resendable: the partitions that may be sent again.
        refused: the partitions that are never sent again.
        sent: the partitions in the request under way; empty while the commit is held.
        superseded: the partitions that a later commit carries: its outcome is their outcome too.
    """

    number: int
    resendable: Partitions
    refused: Partitions = _NOTHING
    sent: Partitions = _NOTHING
    superseded: Partitions = _NOTHING

    @property
    def undecided(self) -> Partitions:
        """The partitions whose outcome is open, in this commit or in a later one."""
        return self.resendable | self.superseded

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to send or to wait for."""
        return not (self.sent or self.resendable or self.superseded)

    @property
    def outcome(self) -> CommitDone | CommitRefused:
        """What to tell the caller of a commit that is over."""
        if self.refused:
            return CommitRefused(self.number, self.refused, _GAVE_UP)
        return CommitDone(self.number)

    def without(self, partitions: Partitions) -> Commit:
        """The commit with these partitions refused."""
        struck = self.undecided & partitions
        if not struck:
            return self
        return replace(
            self,
            resendable=self.resendable - struck,
            superseded=self.superseded - struck,
            refused=self.refused | struck,
        )


@dataclass(frozen=True, slots=True)
class OpenCommits:
    """The open commits of one member, in the order in which they were requested."""

    commits: tuple[Commit, ...] = ()

    def __len__(self) -> int:
        return len(self.commits)

    def __iter__(self) -> Iterator[Commit]:
        return iter(self.commits)

    def find(self, number: int) -> Commit | None:
        """The commit of this number, if it is open."""
        return next((commit for commit in self.commits if commit.number == number), None)

    def add(self, added: Commit) -> OpenCommits:
        """Add a commit, which supersedes earlier ones: no retry of theirs may come after it."""
        earlier = (
            replace(one, resendable=one.resendable - taken, superseded=one.superseded | taken)
            if (taken := one.resendable & added.resendable)
            else one
            for one in self.commits
        )
        return OpenCommits((*earlier, added))

    def send(self, commit: Commit, membership: Membership) -> CommitStep:
        """Send the partitions of a commit that may still be sent, or end it if there are none."""
        if not commit.resendable:
            return self.finish()
        sent = replace(commit, sent=commit.resendable)
        commits = tuple(sent if one.number == sent.number else one for one in self.commits)
        return OpenCommits(commits), (SendCommit(sent.number, membership, sent.sent),)

    def send_held(self, membership: Membership) -> CommitStep:
        """Send the commits of which no request is under way."""
        commits, actions = self, _NO_ACTIONS
        for commit in self.commits:
            if not commit.sent:
                commits, more = commits.send(commit, membership)
                actions += more
        return commits, actions

    def strike(self, partitions: Partitions) -> CommitStep:
        """Refuse all commits of partitions that were given up."""
        return OpenCommits(tuple(one.without(partitions) for one in self.commits)).finish()

    def strike_all(self) -> CommitStep:
        """Refuse all commits, because the membership was lost."""
        return OpenCommits(tuple(one.without(one.undecided) for one in self.commits)).finish()

    def settle(self, answered: Commit, accepted: Partitions, failed: Partitions) -> CommitStep:
        """Apply the answer to the request of one commit.

        An accepted partition is committed, even if the member has given it up since; the same holds in
        earlier commits that waited for it. A partition that failed for good is not sent again, and is refused
        in earlier commits.
        """
        before = self.commits.index(answered)
        settled = accepted | failed
        changed = replace(
            answered,
            resendable=answered.resendable - settled,
            superseded=answered.superseded - settled,
            refused=answered.refused - accepted,
            sent=_NOTHING,
        )
        earlier = (
            replace(one, superseded=one.superseded - accepted) if one.superseded & accepted else one
            for one in self.commits[:before]
        )
        after = OpenCommits((*earlier, changed, *self.commits[before + 1 :]))
        return (after._without_orphans() if failed else after).finish()

    def remove(self, number: int) -> CommitStep:
        """Remove a commit whose outcome stays unknown, and refuse the partitions that it superseded."""
        left = OpenCommits(tuple(one for one in self.commits if one.number != number))
        return left._without_orphans().finish()

    def finish(self) -> CommitStep:
        """End the commits that are over; returns the others, and an action for each that has ended."""
        open_ones = tuple(one for one in self.commits if not one.is_over)
        if len(open_ones) == len(self.commits):
            return self, ()
        return OpenCommits(open_ones), tuple(one.outcome for one in self.commits if one.is_over)

    def _without_orphans(self) -> OpenCommits:
        """Refuse superseded partitions that no later commit carries any more."""
        return OpenCommits(tuple(self._latest_first())[::-1])

    def _latest_first(self) -> Iterator[Commit]:
        carried = _NOTHING
        for commit in reversed(self.commits):
            kept = commit.without(commit.superseded - carried)
            carried |= kept.undecided
            yield kept


NO_COMMITS = OpenCommits()
_NO_ACTIONS: tuple[Action, ...] = ()
CommitStep: TypeAlias = tuple[OpenCommits, tuple[Action, ...]]
