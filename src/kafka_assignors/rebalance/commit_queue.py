"""The commits that a client has not handed to the machine yet, in the order in which they were requested.

What an event costs the machine grows with the number of commits in it, so that the cost of many at once would
grow with its square. The machine is given a few at a time, and the others wait here: each costs the same,
however many there are.

A commit that waits must not outlive its ownership either (`kafka_assignors.rebalance.member`). A partition
that leaves a member is missing from an `Install` before it can come back: what an `Install` does not name is
struck from the commits that wait, and the machine refuses it when their turn has come.
"""

from __future__ import annotations

from collections import OrderedDict

from kafka_assignors.rebalance.events import CommitRequested, Partitions

__all__ = ["MOST_IN_MACHINE", "MOST_OPEN", "CommitQueue"]

MOST_IN_MACHINE = 32
"""Commits of one member that the machine knows at a time, each with one request at most on the way."""

MOST_OPEN = 5000
"""Commits of one member that are open at a time, for a client whose callers do not wait themselves."""


class CommitQueue:
    """The open commits of one member: those in the machine, and behind them those that wait.

    Every operation takes constant time, but for `installed`.
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
        """The machine said `Install`: no other partitions may be committed by what waits."""
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
