"""The judgement on a policy: tables for the terminal, and an object for JSON."""

from __future__ import annotations

from typing import Any

from rich.console import RenderableType
from rich.text import Text

from kafka_assignors_cli.ci_formats import Outcome, Verdict
from kafka_assignors_cli.console import Column, ColumnKind, FittedTable, emit_renderable, printable
from kafka_assignors_spark.policy import GroupJudgement, Judgement, PolicyRule, RuleJudgement, RuleOutcome
from kafka_assignors_spark.report.as_json import ReplayReport

_FORMAT = 1
"""The version of the JSON form, which docs/validate.md describes. New keys may be added to it; every other
change needs a new number.
"""

_SHOWN_GROUPS = 5

_COLUMNS = (
    Column("rule", ColumnKind.WORDS),
    Column("what has to hold", ColumnKind.WORDS),
    Column("groups"),
    Column("verdict", ColumnKind.TOKEN),
)

_STYLES = {RuleOutcome.HOLDS: "", RuleOutcome.VIOLATED: "bold red", RuleOutcome.NOT_JUDGED: "bold yellow"}


def print_judgement(judgement: Judgement, report: ReplayReport) -> None:
    """Print a line for each rule, the groups that violate it, and the verdict."""
    emit_renderable(*judgement_renderables(judgement, report))


def judgement_renderables(judgement: Judgement, report: ReplayReport) -> list[RenderableType]:
    table = FittedTable(_COLUMNS, "Rules")
    lines: list[Text] = []
    for each in judgement.rules:
        table.add(
            [
                printable(each.rule.name),
                printable(_words(each.rule)),
                str(len(each.groups)),
                Text(each.outcome.value, style=_STYLES[each.outcome]),
            ]
        )
        lines += _lines(each)
    return [table, *lines, Text(_verdict(judgement, report), style="bold")]


def _lines(judged: RuleJudgement) -> list[Text]:
    name = printable(judged.rule.name)
    lines = [] if judged.reason is None else [Text(f"{name}: not judged: {printable(judged.reason)}")]
    not_holding = [each for each in judged.groups if each.outcome is not RuleOutcome.HOLDS]
    # Violations first.
    not_holding.sort(key=lambda each: each.outcome is RuleOutcome.NOT_JUDGED)
    lines += [
        Text(f"{name}: {printable(each.group)}: {printable(_found(each))}")
        for each in not_holding[:_SHOWN_GROUPS]
    ]
    if len(not_holding) > _SHOWN_GROUPS:
        lines.append(Text(f"{name}: and {len(not_holding) - _SHOWN_GROUPS} more groups"))
    return lines


def _found(judged: GroupJudgement) -> str:
    if judged.value is None:
        return f"not judged: {judged.reason}"
    bounds = [f"at least {_number(judged.low)}"] if judged.low is not None else []
    bounds += [f"at most {_number(judged.high)}"] if judged.high is not None else []
    return f"{_number(judged.value)}, and has to be {' and '.join(bounds)}"


def _words(rule: PolicyRule) -> str:
    bounds = [f"≥ {_number(rule.min)}"] if rule.min is not None else []
    bounds += [f"≤ {_number(rule.max)}"] if rule.max is not None else []
    times = {None: "", "least": " × the least possible"}.get(rule.relative_to, f" × {rule.relative_to}")
    per = f" per {rule.per}" if rule.per else ""
    return f"{rule.metric}{per} of {rule.strategy} {' and '.join(bounds)}{times} ({rule.mode.value})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _verdict(judgement: Judgement, report: ReplayReport) -> str:
    counts = {outcome: sum(rule.outcome is outcome for rule in judgement.rules) for outcome in RuleOutcome}
    said = f"{counts.pop(RuleOutcome.HOLDS)} of {len(judgement.rules)} rules hold"
    said += "".join(f", {count} {outcome.value}" for outcome, count in counts.items() if count)
    word = {
        RuleOutcome.HOLDS: "The policy holds",
        RuleOutcome.VIOLATED: "The policy is violated",
        RuleOutcome.NOT_JUDGED: "The policy could not be judged",
    }[judgement.outcome]
    return f"{word} on {printable(report.source)}: {said}."


_OUTCOMES = {
    RuleOutcome.HOLDS: Outcome.PASSED,
    RuleOutcome.VIOLATED: Outcome.FAILED,
    RuleOutcome.NOT_JUDGED: Outcome.NOT_JUDGED,
}


def verdicts(judgement: Judgement, policy: str) -> list[Verdict]:
    """A verdict on each group of each rule; on the rule itself if it has no groups or a reason of its own."""
    found = []
    for each in judgement.rules:
        name = each.rule.name
        if each.reason is not None or not each.groups:
            found.append(Verdict(policy, name, _OUTCOMES[each.outcome], each.reason or "", policy))
        found += [
            Verdict(name, group.group, _OUTCOMES[group.outcome], _found(group), policy)
            for group in each.groups
        ]
    return found


def judgement_to_json(judgement: Judgement, report: ReplayReport, policy: str) -> dict[str, Any]:
    """The verdict as a JSON object; `policy` names the file of the policy."""
    return {
        "format": _FORMAT,
        "verdict": judgement.outcome.value,
        "policy": policy,
        "source": report.source,
        "rules": [_rule_to_json(each) for each in judgement.rules],
    }


def _rule_to_json(judged: RuleJudgement) -> dict[str, Any]:
    rule = judged.rule
    return {
        "name": rule.name,
        "verdict": judged.outcome.value,
        "reason": judged.reason,
        "metric": rule.metric,
        "strategy": rule.strategy,
        "mode": rule.mode.value,
        "min": rule.min,
        "max": rule.max,
        "relative_to": rule.relative_to,
        "per": rule.per,
        "groups": [
            {
                "group": each.group,
                "verdict": each.outcome.value,
                "value": each.value,
                "at_least": each.low,
                "at_most": each.high,
                "reason": each.reason,
            }
            for each in judged.groups
        ],
    }
