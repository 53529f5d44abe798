"""The form of a rule and of a finding, and the words that findings share."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from kafka_assignors.group import some_of
from kafka_assignors.lint.members import LintFacts, MemberConfig, NotJudged


class Severity(enum.Enum):
    """The severity of a finding, the worst first."""

    ERROR = "error"
    """A member is refused or expelled, or the group runs another strategy than configured."""

    WARNING = "warning"
    """It works until an ordinary event: a restart, a slow listener, a leader of another client."""

    INFO = "info"
    """Good to know; no action is needed."""


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a rule for these members (their sources): what happens, and what to do in this case.

    If `severity` is None, the severity of the rule applies.
    """

    members: tuple[str, ...]
    what: str
    to_do: str
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A `Found` with its rule. `why` and `to_do` are empty if no action is needed."""

    rule: str
    severity: Severity
    members: tuple[str, ...]
    what: str
    why: str
    to_do: str


@dataclass(frozen=True, slots=True)
class LintRule:
    """A rule and its documentation: `happens`, `why` and `to_do` hold for every group.

    docs/lint.md is generated from them. `since` is the release of kafka-assignors that added the rule.
    """

    id: str
    severity: Severity
    happens: str
    why: str
    to_do: str
    check: Callable[[LintFacts], Iterable[Found | NotJudged]]
    since: str = "0.1.0"

    def judge(self, facts: LintFacts) -> Iterator[LintFinding | NotJudged]:
        for found in self.check(facts):
            if isinstance(found, NotJudged):
                yield found
            else:
                severity = found.severity or self.severity
                why = self.why if found.to_do else ""
                yield LintFinding(self.id, severity, found.members, found.what, why, found.to_do)


def rule(
    id: str, severity: Severity, *, happens: str, why: str, to_do: str
) -> Callable[[Callable[[LintFacts], Iterable[Found | NotJudged]]], LintRule]:
    """Decorate a function from the facts to what it finds as a rule."""

    def made(check: Callable[[LintFacts], Iterable[Found | NotJudged]]) -> LintRule:
        return LintRule(id, severity, happens, why, to_do, check)

    return made


# ---- the words of findings

_SHOWN = 3


def sources(members: Iterable[MemberConfig]) -> tuple[str, ...]:
    """The sources of the members, each once."""
    return tuple(dict.fromkeys(member.source for member in members))


def strategy_lists(offers: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Distinct lists: "[range] (a.toml), [sticky] (b.toml)"; "[range]" if all members have the same."""
    by_list: dict[str, dict[str, None]] = {}
    for source, names in offers:
        by_list.setdefault(f"[{', '.join(names)}]", {})[source] = None
    if len(by_list) == 1:
        return next(iter(by_list))
    return ", ".join(f"{names} ({enumerated(found)})" for names, found in by_list.items())


def enumerated(names: Iterable[str]) -> str:
    """The first names, and the number of the others."""
    return some_of(list(names), _SHOWN)


def seconds_text(ms: int) -> str:
    """Milliseconds in seconds: 45 s, 1.5 s."""
    return f"{ms / 1000:g} s"
