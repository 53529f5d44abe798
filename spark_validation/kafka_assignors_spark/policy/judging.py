"""Checks a report against a policy.

A rule *holds* if it holds in each of its groups, and is *violated* if it is violated in one. A rule that
lacks a fact is *not judged*, and does not count as holding: no group matches, too little of a group was
replayed, the strategy failed, a figure is unknown. The policy is violated if one of its rules is violated; it
is not judged if no rule is violated and one is not judged.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kafka_assignors_spark.policy.replay_report import ReplayReport, ReportedGroup
from kafka_assignors_spark.policy.rules import LEAST, METRICS, Policy, PolicyRule

__all__ = ["GroupJudgement", "Judgement", "RuleJudgement", "RuleOutcome", "judge"]

_ROUNDING = 1e-9
"""The relative tolerance: the last digits of sums and means depend on the order of Spark's additions."""


class RuleOutcome(str, enum.Enum):
    """The outcome of a rule, from good to bad to unknown."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class GroupJudgement:
    """A rule in one group: its `value`, the bounds of it, and the reason if it was not judged."""

    group: str
    outcome: RuleOutcome
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RuleJudgement:
    """A rule in all its groups. `reason` says why there is no group to judge."""

    rule: PolicyRule
    groups: tuple[GroupJudgement, ...]
    reason: str | None = None

    @property
    def outcome(self) -> RuleOutcome:
        outcomes = [each.outcome for each in self.groups]
        return _worst(outcomes if self.reason is None else [*outcomes, RuleOutcome.NOT_JUDGED])


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a policy, rule by rule."""

    rules: tuple[RuleJudgement, ...]

    @property
    def outcome(self) -> RuleOutcome:
        return _worst(rule.outcome for rule in self.rules)


class _Missing(Exception):
    """A missing fact, without which the rule cannot be judged; the message names it."""


def judge(policy: Policy, report: ReplayReport) -> Judgement:
    """The judgement of each rule of the policy, in its order."""
    truth = None
    if policy.require_truth and not report.truth_holds:
        truth = "the accuracy check fails: the replay does not repeat the recorded assignments"
    return Judgement(tuple(_rule(rule, report, truth) for rule in policy.rules))


def _rule(rule: PolicyRule, report: ReplayReport, truth: str | None) -> RuleJudgement:
    if truth is not None:
        return RuleJudgement(rule, (), truth)
    for name in (rule.strategy, rule.relative_to):
        if name not in (None, LEAST) and name not in report.strategies:
            return RuleJudgement(rule, (), f"{name} was not replayed")
    if rule.mode not in report.modes:
        return RuleJudgement(rule, (), f"no {rule.mode.value} replay was asked for")
    unmatched = [
        pattern
        for pattern in rule.groups
        if not pattern.startswith("!") and not any(fnmatchcase(group, pattern) for group in report.groups)
    ]
    groups = tuple(_group(rule, name, report) for name in sorted(_matching(rule, report)))
    if unmatched:
        return RuleJudgement(rule, groups, f"no group matches {', '.join(map(repr, unmatched))}")
    return RuleJudgement(rule, groups, None if groups else "no group is left after those taken out")


def _matching(rule: PolicyRule, report: ReplayReport) -> Iterator[str]:
    for group in report.groups:
        matches = False
        for pattern in rule.groups:
            if fnmatchcase(group, pattern.removeprefix("!")):
                matches = not pattern.startswith("!")
        if matches:
            yield group


def _group(rule: PolicyRule, name: str, report: ReplayReport) -> GroupJudgement:
    try:
        _require_replayed(rule, report.groups[name])
        value = _figure(rule, name, rule.strategy, rule.metric, report)
        factor = 1.0 if rule.relative_to is None else _reference(rule, name, report)
    except _Missing as missing:
        return GroupJudgement(name, RuleOutcome.NOT_JUDGED, reason=str(missing))
    low = None if rule.min is None else rule.min * factor
    high = None if rule.max is None else rule.max * factor
    return GroupJudgement(name, _between(low, value, high), value, low, high)


def _require_replayed(rule: PolicyRule, group: ReportedGroup) -> None:
    if not group.replayed:
        raise _Missing("nothing of it was replayed")
    missing = 1 - group.replayed / group.rebalances
    if missing > rule.max_not_replayed + _ROUNDING:
        raise _Missing(
            f"{missing:.0%} of its rebalances were not replayed, and max_not_replayed allows "
            f"{rule.max_not_replayed:.0%}"
        )


def _reference(rule: PolicyRule, group: str, report: ReplayReport) -> float:
    if rule.relative_to == LEAST:
        least = METRICS[rule.metric].least
        assert least is not None
        return _figure(rule, group, rule.strategy, least, report)
    assert rule.relative_to is not None
    return _figure(rule, group, rule.relative_to, rule.metric, report)


def _figure(rule: PolicyRule, group: str, strategy: str, key: str, report: ReplayReport) -> float:
    """A finite number, per rebalance or day if the rule says so, or `_Missing`."""
    verdict = report.verdicts.get((group, strategy, rule.mode))
    if verdict is None:
        raise _Missing(f"there are no figures of {strategy}")
    failed = verdict["failed"]
    if failed and key != "failed":
        raise _Missing(f"{strategy} failed in {failed} of its rebalances, which no figure covers")
    value = verdict.get(key)
    if value is None:
        raise _Missing(f"{key} of {strategy} is unknown")
    if rule.per is None:
        return float(value)
    divisor = verdict["rebalances"] if rule.per == "rebalance" else report.groups[group].days
    if not divisor:
        raise _Missing(f"its records span no {rule.per}")
    return float(value / divisor)


def _between(low: float | None, value: float, high: float | None) -> RuleOutcome:
    too_low = low is not None and value < low - _ROUNDING * max(1.0, abs(low))
    too_high = high is not None and value > high + _ROUNDING * max(1.0, abs(high))
    return RuleOutcome.VIOLATED if too_low or too_high else RuleOutcome.HOLDS


def _worst(outcomes: Iterable[RuleOutcome]) -> RuleOutcome:
    found = set(outcomes)
    return next(
        (outcome for outcome in (RuleOutcome.VIOLATED, RuleOutcome.NOT_JUDGED) if outcome in found),
        RuleOutcome.HOLDS,
    )
