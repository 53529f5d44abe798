"""The vote by which a coordinator chooses the strategy of a group.

The source is `ClassicGroup.selectProtocol` in group-coordinator of apache/kafka. Candidates are the
strategies that every member lists. Each member votes for the first candidate in its own list, and the most
votes win. The coordinator refuses a member that shares no strategy with all members of the group
(INCONSISTENT_GROUP_PROTOCOL).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from kafka_assignors.lint.members import MemberConfig

__all__ = ["candidates", "count_votes", "voters", "winners"]


def voters(members: Iterable[MemberConfig]) -> tuple[MemberConfig, ...]:
    """The members that vote and whose vote is known: those of the classic protocol with a list."""
    return tuple(member for member in members if member.classic and member.strategies)


def candidates(members: Iterable[MemberConfig]) -> tuple[str, ...]:
    """The strategies that all voters list, in the order of the first one's list."""
    first, *others = voters(members) or (None,)
    if first is None:
        return ()
    return tuple(name for name in first.names if all(name in other.names for other in others))


def count_votes(members: Sequence[MemberConfig]) -> Counter[str]:
    """The number of votes for each candidate that has any."""
    common = set(candidates(members))
    votes: Counter[str] = Counter()
    for member in voters(members):
        choice = next((name for name in member.names if name in common), None)
        if choice is not None:
            votes[choice] += member.members
    return votes


def winners(members: Sequence[MemberConfig]) -> tuple[str, ...]:
    """The strategy with the most votes; several in a tie, none without a candidate."""
    votes = count_votes(members)
    most = max(votes.values(), default=0)
    return tuple(sorted(name for name, count in votes.items() if count == most))
