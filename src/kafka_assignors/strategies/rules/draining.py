"""`draining`: members that are about to leave have nothing any more.

A pod that is told to stop announces it, joins once more, and goes when it owns nothing. Under the cooperative
protocol its partitions are then handed over while it can still commit them, and no partition waits for a
session to expire. Who drains keeps a topic only as long as all of its subscribers drain: somebody has to read
it.

What a member that drains owned counts as free, and not as moved: whatever comes after this rule gives it to
those who stand lowest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafka_assignors.strategies.rules.base import Place
from kafka_assignors.strategies.rules.problem import Problem

__all__ = ["Draining"]


@dataclass(frozen=True, slots=True)
class Draining:
    """Who announces that it drains gets nothing of a topic to which a member that stays subscribes."""

    kind: ClassVar[str] = "draining"
    place: ClassVar[Place] = Place.RESTRICTION

    def restrict(self, problem: Problem) -> Problem:
        """The same without the members that drain, as far as others can take over."""
        members = problem.group.members
        leaving = sorted(member_id for member_id in members if problem.facts.members[member_id].draining)
        if not leaving:
            return problem
        staying = members.keys() - set(leaving)
        taken_over = frozenset[str]().union(*{members[member_id].topics for member_id in staying})
        left_alone = set[str]().union(*{members[member_id].topics for member_id in leaving}) - taken_over
        if abandoned := sorted(name for name in left_alone if name in problem.group.topics):
            problem = problem.with_findings(
                f"all subscribers of {abandoned[0]!r} drain ({len(abandoned)} such topics): they keep it "
                "until somebody else subscribes to it"
            )
        return problem.without({member_id: members[member_id].topics & taken_over for member_id in leaving})
