"""Strategies that modify everything that they can reach from their arguments."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

from kafka_assignors.criteria import PLAIN, Scale
from kafka_assignors.group import Assignment, Group
from kafka_assignors.strategies.sticky import CooperativeSticky
from kafka_assignors.strategy import MemberContext, Strategy


def ruin(value: Any, seen: set[int] | None = None) -> None:
    """Empty all mappings, lists and sets that a value leads to, and set all fields to empty values."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        for name in names:
            ruin(getattr(value, name), seen)
        for name in names:
            had = getattr(value, name)
            if not dataclasses.is_dataclass(had):
                object.__setattr__(value, name, "elsewhere" if had is None else type(had)())
    elif isinstance(value, (dict, list, set, tuple, frozenset)):
        for part in value.values() if isinstance(value, dict) else value:
            ruin(part, seen)
        if not isinstance(value, (tuple, frozenset)):
            value.clear()


class Ruining(Strategy):
    """Returns an assignment that it has emptied, so that every member is missing."""

    name = "hostile"

    def assign(self, group: Group) -> Assignment:
        answer = CooperativeSticky().assign(group)
        ruin([group, answer])
        return answer

    def member_data(self, member: MemberContext) -> bytes:
        ruin(member)
        return b"hostile"

    def findings(self, group: Group) -> Sequence[str]:
        ruin(group)
        return ()

    def balance_scale(self, group: Group) -> Scale:
        ruin(group)
        return PLAIN


class RuiningLater(Ruining):
    """Returns valid assignments; empties its arguments at once, and its earlier answers in later calls."""

    __slots__ = ("_answers",)

    def __init__(self) -> None:
        self._answers: list[Assignment] = []

    def assign(self, group: Group) -> Assignment:
        ruin(self._answers)
        answer = copy.deepcopy(CooperativeSticky().assign(group))
        ruin(group)
        self._answers = [answer]
        return answer

    def findings(self, group: Group) -> Sequence[str]:
        ruin(self._answers)
        return super().findings(group)

    def balance_scale(self, group: Group) -> Scale:
        ruin(self._answers)
        return super().balance_scale(group)


class _Mixed:
    """A method that a strategy inherits from a class that is not a strategy."""

    def assign(self, group: Group) -> Assignment:
        ruin(group)
        return Assignment({})


class RuiningByInheritance(_Mixed, CooperativeSticky):
    """One of our strategies with another class before it in the method resolution order."""

    __slots__ = ()

    name = "hostile"


HOSTILE: tuple[type[Strategy], ...] = (Ruining, RuiningLater, RuiningByInheritance)
