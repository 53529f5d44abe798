"""Is this change of strategy safe to roll out, and do these members fit into one group?

`lint(facts)` runs all rules on what is known about a group. A rule is a function from facts to findings, with
its documentation beside it; docs/lint.md is generated from that documentation.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from kafka_assignors_ops.lint import rules_settings, rules_strategies
from kafka_assignors_ops.lint.rules import LintFacts, LintFinding, LintRule, NotJudged, Severity
from kafka_assignors_ops.live_group import CONSUMER

RULES: dict[str, LintRule] = {
    rule.id: rule
    for module in (rules_strategies, rules_settings)
    for rule in vars(module).values()
    if isinstance(rule, LintRule)
}
"""Every rule by its id, in the order of the documentation."""


@dataclass(frozen=True, slots=True)
class LintReport:
    """The findings, the worst first, and the questions that the rules leave open."""

    findings: tuple[LintFinding, ...]
    not_judged: tuple[NotJudged, ...]

    def of(self, severity: Severity) -> tuple[LintFinding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is severity)


def lint(facts: LintFacts, ignored: Collection[str] = ()) -> LintReport:
    """Run every rule whose id is not in `ignored`."""
    without_lists = facts
    if facts.live is not None and facts.live.group_type == CONSUMER:
        # The broker assigns, so the rules on the members' strategies have nothing to judge.
        without_lists = replace(
            facts,
            before=tuple(replace(member, strategies=None) for member in facts.before),
            after=tuple(replace(member, strategies=None) for member in facts.after),
        )
    members: dict[LintFinding, dict[str, None]] = {}
    not_judged = list(facts.not_judged)
    for rule in RULES.values():
        if rule.id in ignored:
            continue
        for said in rule.judge(facts if rule is rules_settings.kip848_group else without_lists):
            if isinstance(said, NotJudged):
                not_judged.append(said)
            else:
                # The same finding for many members is reported once.
                members.setdefault(replace(said, members=()), {}).update(dict.fromkeys(said.members))
    findings = [replace(finding, members=tuple(found)) for finding, found in members.items()]
    findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    return LintReport(tuple(findings), tuple(dict.fromkeys(not_judged)))
