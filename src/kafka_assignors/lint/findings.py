"""What a rule is, and what it finds."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kafka_assignors.lint.members import Facts, NotJudged

__all__ = ["Finding", "Found", "Rule", "Severity", "rule"]


class Severity(enum.Enum):
    """How bad a finding is; the worst first."""

    ERROR = "error"
    """A member is refused or expelled, or the group does not run what it was told to run."""

    WARNING = "warning"
    """It works until something ordinary happens: a restart, a slow listener, a leader of another client."""

    INFO = "info"
    """Good to know; nothing has to be done."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule says of these members (their sources): what happens, and what to do in this very case.

    `severity` is the rule's own if None.
    """

    members: tuple[str, ...]
    what: str
    to_do: str
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """`Found` together with the rule that did. `why` and `to_do` are empty where nothing is to be done."""

    rule: str
    severity: Severity
    members: tuple[str, ...]
    what: str
    why: str
    to_do: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and its documentation: `happens`, `why` and `to_do` in general, whatever group it is.

    `since` is the release of kafka-assignors that brought it.
    """

    id: str
    severity: Severity
    happens: str
    why: str
    to_do: str
    check: Callable[[Facts], Iterable[Found | NotJudged]]
    since: str = "0.1.0"

    def judge(self, facts: Facts) -> Iterator[Finding | NotJudged]:
        for found in self.check(facts):
            if isinstance(found, NotJudged):
                yield found
            else:
                severity = found.severity or self.severity
                why = self.why if found.to_do else ""
                yield Finding(self.id, severity, found.members, found.what, why, found.to_do)


def rule(
    id: str, severity: Severity, *, happens: str, why: str, to_do: str
) -> Callable[[Callable[[Facts], Iterable[Found | NotJudged]]], Rule]:
    """Make a rule of a function that looks at the facts and yields what it finds."""

    def made(check: Callable[[Facts], Iterable[Found | NotJudged]]) -> Rule:
        return Rule(id, severity, happens, why, to_do, check)

    return made
