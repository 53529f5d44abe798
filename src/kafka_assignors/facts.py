"""What the members of a group announced of themselves.

The bytes come from other processes, some of which may run another release of this package or something else
altogether. A member whose bytes do not decode counts as one that announced nothing, and is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafka_assignors.group import Group, quoted
from kafka_assignors.wire.errors import ProtocolError
from kafka_assignors.wire.facts import Facts, decode_facts

__all__ = ["Announcement", "Facts", "GroupFacts", "facts_of"]


class Announcement:
    """What a member says of itself, where that changes while it runs: the strategy asks at each join.

    Any thread may change it, a signal handler as well.
    """

    def __init__(self, facts: Facts) -> None:
        self._facts = facts

    def __repr__(self) -> str:
        return f"Announcement({self._facts!r})"

    @property
    def facts(self) -> Facts:
        """What it says at the next join."""
        return self._facts

    def change(self, **facts: Any) -> None:
        """Say something else from the next join on; what is not named stays. Raises `InvalidFactError`."""
        self._facts = replace(self._facts, **facts)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The facts of every member by its id, and a sentence for each member whose data say nothing readable."""

    members: Mapping[str, Facts]
    findings: tuple[str, ...]

    @property
    def capacities(self) -> dict[str, int]:
        """The capacity of each member that announced one."""
        return {id: facts.capacity for id, facts in self.members.items() if facts.capacity is not None}


def facts_of(group: Group) -> GroupFacts:
    """What the members of the group announced; never fails because of one of them."""
    members: dict[str, Facts] = {}
    findings: list[str] = []
    for member_id in sorted(group.members):
        try:
            members[member_id] = decode_facts(group.members[member_id].data)
        except ProtocolError as error:
            members[member_id] = Facts()
            findings.append(
                f"member {quoted(member_id)} counts as one that announced nothing, its data do not decode: "
                f"{error}"
            )
    return GroupFacts(members, tuple(findings))
