"""`draining`: a member that is about to leave gets no partitions.

A pod that is told to stop announces it, joins once more, and goes when it owns nothing. Under the cooperative
protocol its partitions are then handed over while it can still commit them, and no partition waits for a
session to expire. A draining member keeps a topic only while all of its subscribers drain: some member has to
read it.

The partitions of a draining member count as free, and not as moved: the later rules give them to the members
with the least load.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka_assignors.strategies.rules.base import Restriction
from kafka_assignors.strategies.rules.problem import Problem

__all__ = ["Draining"]


@dataclass(frozen=True, slots=True)
class Draining(Restriction):
    """A draining member gets nothing of a topic to which a staying member subscribes."""

    kind = "draining"

    def restrict(self, problem: Problem) -> Problem:
        """The problem without the draining members, as far as others can take over."""
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
                "until another member subscribes to it"
            )
        return problem.without({member_id: members[member_id].topics & taken_over for member_id in leaving})
