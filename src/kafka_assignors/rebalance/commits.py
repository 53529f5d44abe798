"""The open commits of a member, as values: what of each may still be sent, and what becomes of it.

The rules are in `kafka_assignors.rebalance.member`, which decides when a commit is sent. Commits are in the
order in which they were requested. Their number is small: `CommitQueue` keeps the others back.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from kafka_assignors.rebalance.values import Action, CommitDone, CommitRefused, Partitions

__all__ = [
    "Commit",
    "Commits",
    "find",
    "finish",
    "outcome",
    "put",
    "remove",
    "settle",
    "strike",
    "strike_all",
    "supersede",
]

_NOTHING: Partitions = frozenset()

_GAVE_UP = (
    "the partitions were revoked or lost after the commit was requested, or not owned at all, "
    "or a later commit of them came to nothing"
)


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit that has not come to its end.

    `resendable` may go out once more; `refused` never again. `superseded` is what a later commit carries now:
    what becomes of that becomes of this. `sent` is what the request under way carries, empty while the commit
    is held.
    """

    number: int
    resendable: Partitions
    refused: Partitions = _NOTHING
    sent: Partitions = _NOTHING
    superseded: Partitions = _NOTHING

    @property
    def undecided(self) -> Partitions:
        return self.resendable | self.superseded

    @property
    def is_over(self) -> bool:
        return not (self.sent or self.resendable or self.superseded)

    def without(self, partitions: Partitions) -> Commit:
        """The commit, refused for these of its partitions."""
        struck = self.undecided & partitions
        if not struck:
            return self
        return replace(
            self,
            resendable=self.resendable - struck,
            superseded=self.superseded - struck,
            refused=self.refused | struck,
        )


Commits: TypeAlias = tuple[Commit, ...]


def find(commits: Commits, number: int) -> Commit | None:
    """The commit of this number, if it is open."""
    return next((commit for commit in commits if commit.number == number), None)


def put(commits: Commits, changed: Commit) -> Commits:
    """The commits with one of them changed."""
    return tuple(changed if one.number == changed.number else one for one in commits)


def supersede(commits: Commits, later: Partitions) -> Commits:
    """The commits before a later one of these partitions is added."""
    return tuple(
        replace(one, resendable=one.resendable - taken, superseded=one.superseded | taken)
        if (taken := one.resendable & later)
        else one
        for one in commits
    )


def strike(commits: Commits, partitions: Partitions) -> Commits:
    """The commits after these partitions were given up."""
    return tuple(one.without(partitions) for one in commits)


def strike_all(commits: Commits) -> Commits:
    """The commits after the membership was lost."""
    return tuple(one.without(one.undecided) for one in commits)


def settle(commits: Commits, answered: Commit, accepted: Partitions, failed: Partitions) -> Commits:
    """The commits after the request of one of them was answered.

    What was accepted is committed, also if the member has given the partition up since; earlier commits that
    waited for it are done with it. What failed for good is done with too, and refused in earlier commits.
    """
    before = commits.index(answered)
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
        for one in commits[:before]
    )
    after = (*earlier, changed, *commits[before + 1 :])
    return _without_orphans(after) if failed else after


def remove(commits: Commits, number: int) -> Commits:
    """The commits without one whose end will not be known: nor is it then of what it had taken over."""
    return _without_orphans(tuple(one for one in commits if one.number != number))


def finish(commits: Commits) -> tuple[Commits, tuple[Action, ...]]:
    """The commits that are not over, and the outcome of those that are."""
    open_ones = tuple(one for one in commits if not one.is_over)
    if len(open_ones) == len(commits):
        return commits, ()
    return open_ones, tuple(outcome(one) for one in commits if one.is_over)


def outcome(commit: Commit) -> Action:
    """What to tell who requested a commit that is over."""
    if commit.refused:
        return CommitRefused(commit.number, commit.refused, _GAVE_UP)
    return CommitDone(commit.number)


def _without_orphans(commits: Commits) -> Commits:
    """Refuse what a commit waits for and no later one carries any more."""
    return tuple(_latest_first(commits))[::-1]


def _latest_first(commits: Commits) -> Iterator[Commit]:
    carried = _NOTHING
    for commit in reversed(commits):
        kept = commit.without(commit.superseded - carried)
        carried |= kept.undecided
        yield kept
