"""What is supposed of members that announce nothing.

Members of a recorded history announced nothing to a strategy that they did not run, nor do members of another
release in a rolling upgrade. To see what a strategy would have done with them, say what they would have
announced. It is part of the rules, so all members have to suppose the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from kafka_assignors.group import Group
from kafka_assignors.member_facts import Facts, GroupFacts

__all__ = ["Supposed", "with_supposed"]


@dataclass(frozen=True, slots=True)
class Supposed:
    """Members whose instance id, or member id if they have none, is like `member` would announce `facts`.

    `member` is a pattern with `*`, `?` and `[…]`. A member id begins with the client id.
    """

    member: str
    facts: Facts


def with_supposed(group: Group, facts: GroupFacts, supposed: Sequence[Supposed]) -> GroupFacts:
    """The facts, those of silent members replaced by what is supposed of them first."""
    if not supposed:
        return facts
    members: dict[str, Facts] = {}
    for member_id, announced in facts.members.items():
        # Which rules a member runs it says always.
        silent = replace(announced, rules=None) == Facts()
        name = group.members[member_id].instance_id or member_id
        members[member_id] = replace(_first(name, supposed), rules=announced.rules) if silent else announced
    return GroupFacts(members, facts.findings)


def _first(name: str, supposed: Sequence[Supposed]) -> Facts:
    return next((each.facts for each in supposed if fnmatchcase(name, each.member)), Facts())
