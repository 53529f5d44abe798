"""All rules, and what they say together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from kafka_assignors.lint import (
    rules_clients,
    rules_kip848,
    rules_live,
    rules_static,
    rules_timeouts,
    rules_vote,
)
from kafka_assignors.lint.findings import Finding, Rule, Severity
from kafka_assignors.lint.members import Facts, NotJudged
from kafka_assignors.livegroup import CONSUMER

__all__ = ["RULES", "Report", "lint"]

RULES: dict[str, Rule] = {
    rule.id: rule
    for module in (rules_vote, rules_clients, rules_timeouts, rules_static, rules_kip848, rules_live)
    for rule in module.RULES
}
"""Every rule by its id, in the order of the documentation."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the rules found, the worst first, and what none of them could judge."""

    findings: tuple[Finding, ...]
    not_judged: tuple[NotJudged, ...]

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is severity)


def lint(facts: Facts, ignored: Collection[str] = ()) -> Report:
    """Hold the facts against every rule whose id is not in `ignored`."""
    without_lists = _without_lists(facts)
    members: dict[Finding, dict[str, None]] = {}
    not_judged = list(facts.not_judged)
    for rule in RULES.values():
        if rule.id in ignored:
            continue
        for said in rule.judge(facts if rule is rules_kip848.kip848_group else without_lists):
            if isinstance(said, NotJudged):
                not_judged.append(said)
            else:
                # What is true of a hundred members in the same words is said once.
                members.setdefault(replace(said, members=()), {}).update(dict.fromkeys(said.members))
    findings = [replace(finding, members=tuple(found)) for finding, found in members.items()]
    by_severity = list(Severity)
    findings.sort(key=lambda finding: by_severity.index(finding.severity))
    return Report(tuple(findings), tuple(dict.fromkeys(not_judged)))


def _without_lists(facts: Facts) -> Facts:
    """The facts without anybody's strategies, if the live group's broker assigns: nobody votes there."""
    if facts.live is None or facts.live.group_type != CONSUMER:
        return facts
    return replace(
        facts,
        before=tuple(replace(member, strategies=None) for member in facts.before),
        after=tuple(replace(member, strategies=None) for member in facts.after),
    )
