"""Policies: how they are read, and how a report is checked against one.

A policy is a table of rules (`[[rule]]`), each a bound on one metric of one strategy in some groups. An error
names the rule, the key, and the allowed values: a rule that is misread would pass the replays that it should
stop.

A rule *holds* if it holds in each of its groups, and is *violated* if it is violated in one. A rule that
lacks a fact is *not judged*, and does not count as holding: no group matches, too little of a group was
replayed, the strategy failed, a figure is unknown. The policy is violated if one of its rules is violated; it
is not judged if no rule is violated and one is not judged.
"""

from __future__ import annotations

import difflib
import enum
import reprlib
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from kafka_assignors.arguments import UserError
from kafka_assignors.strategies.registry import StrategyError, load_strategy
from kafka_assignors_replay.history.measures import FIGURES, Mode
from kafka_assignors_replay.report.as_json import ReplayReport, ReportedGroup
from kafka_assignors_replay.result import RECORDED

LEAST = "least"
"""The value of `relative_to` for the least possible."""

_PER = ("rebalance", "day")


class PolicyError(UserError):
    """The policy is invalid: the message names the rule, the key, and the allowed values."""


METRICS = {each.name: each.adds_up for each in FIGURES.values() if each.judged} | {"failed": True}
"""The figures of a `Verdict` that a rule may be about, and whether a figure adds up over rebalances, so that
it can be taken per rebalance or per day."""

LEAST_OF = {name: f"least_{name}" for name in METRICS if f"least_{name}" in FIGURES}
"""The figure of a verdict that is the least possible value of a metric, where that is known."""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """In each of the groups, `metric` of `strategy` lies between `min` and `max`.

    With `relative_to` the bounds are multiples of the least possible, or of the same metric of another
    strategy (`recorded` is production). `per` divides the metric by the rebalances or the days of
    the group. `groups` are glob patterns; one that begins with `!` excludes groups, and the last pattern that
    matches a group counts. `max_not_replayed` is the share of a group's rebalances that may be missing.
    """

    name: str
    metric: str
    strategy: str
    groups: tuple[str, ...]
    mode: Mode
    min: float | None
    max: float | None
    relative_to: str | None
    per: str | None
    max_not_replayed: float


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules. With `require_truth` a replay whose accuracy check fails is not judged."""

    rules: tuple[PolicyRule, ...]
    require_truth: bool = True

    @property
    def strategies(self) -> tuple[str, ...]:
        named = (name for rule in self.rules for name in (rule.strategy, rule.relative_to))
        return tuple(dict.fromkeys(name for name in named if name not in (None, LEAST, RECORDED)))

    @property
    def modes(self) -> tuple[Mode, ...]:
        return tuple(mode for mode in Mode if any(rule.mode is mode for rule in self.rules))


def read_policy(table: Mapping[str, Any], where: str = "policy") -> Policy:
    """The policy in a TOML table; `where` names its file in a `PolicyError`."""
    top = _Table(table, where)
    top.only("rule", "max_not_replayed", "require_truth")
    share = top.share("max_not_replayed", 0.1)
    rules = table.get("rule")
    if not isinstance(rules, list) or not rules or not all(isinstance(each, Mapping) for each in rules):
        raise PolicyError(f"{where}: a policy has rules, each a table that begins with [[rule]]")
    read = tuple(_rule(each, number, where, share) for number, each in enumerate(rules, 1))
    names = [rule.name for rule in read]
    for name in names:
        if names.count(name) > 1:
            raise PolicyError(f"{where}: two rules are called {name!r}: a verdict must say which it is about")
    return Policy(read, top.boolean("require_truth", True))


def _rule(table: Mapping[str, Any], number: int, where: str, share: float) -> PolicyRule:
    named = table.get("name")
    called = f"rule {number} ({named!r})" if isinstance(named, str) else f"rule {number}"
    rule = _Table(table, f"{where}: {called}")
    keys = ("name", "metric", "strategy", "groups", "mode", "min", "max", "relative_to", "per")
    rule.only(*keys, "max_not_replayed")
    metric = rule.one_of("metric", METRICS)
    strategy = rule.strategy("strategy", ())
    low, high = rule.number("min"), rule.number("max")
    if low is None and high is None:
        raise PolicyError(f"{rule.where}: give min, max or both")
    if low is not None and high is not None and low > high:
        raise PolicyError(f"{rule.where}: min {low:g} is greater than max {high:g}")
    relative_to = rule.strategy("relative_to", (LEAST,)) if "relative_to" in table else None
    if relative_to == LEAST and metric not in LEAST_OF:
        known = ", ".join(LEAST_OF)
        raise PolicyError(f"{rule.where}: relative_to: no least is known of {metric!r}, only of {known}")
    if relative_to == strategy:
        raise PolicyError(f"{rule.where}: relative_to is {strategy!r} itself")
    per = rule.one_of("per", _PER) if "per" in table else None
    if per is not None and not METRICS[metric]:
        known = ", ".join(name for name, adds_up in METRICS.items() if adds_up)
        raise PolicyError(f"{rule.where}: per: {metric!r} is no sum; these are: {known}")
    mode = Mode(rule.one_of("mode", [each.value for each in Mode])) if "mode" in table else Mode.STEADY_STATE
    return PolicyRule(
        name=rule.text("name") if "name" in table else f"rule {number}",
        metric=metric,
        strategy=strategy,
        groups=rule.patterns("groups"),
        mode=mode,
        min=low,
        max=high,
        relative_to=relative_to,
        per=per,
        max_not_replayed=rule.share("max_not_replayed", share),
    )


@dataclass(frozen=True, slots=True)
class _Table:
    """A TOML table with a method for each type of value; `where` is its place in the file."""

    values: Mapping[str, Any]
    where: str

    def only(self, *known: str) -> None:
        """Refuse all other keys."""
        for key in self.values:
            if key not in known:
                raise PolicyError(f"{self.where}: there is no key {key!r}{_near(key, known)}")

    def text(self, key: str) -> str:
        value = self.values.get(key)
        if not isinstance(value, str) or not value:
            raise PolicyError(f"{self.where}: {key} has to be a text, {_found(value)}")
        return value

    def one_of(self, key: str, known: Collection[str]) -> str:
        value = self.text(key)
        if value not in known:
            raise PolicyError(f"{self.where}: there is no {key} {value!r}{_near(value, known)}")
        return value

    def strategy(self, key: str, others: Collection[str]) -> str:
        name = self.text(key)
        if name not in (RECORDED, *others):
            try:
                load_strategy(name)
            except StrategyError as error:
                also = ", ".join((RECORDED, *others))
                raise PolicyError(f"{self.where}: {key}: {error} (or {also})") from None
        return name

    def number(self, key: str) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        # Not `isfinite`, which cannot take an integer that is too large for a float.
        if type(value) not in (int, float) or not abs(value) <= sys.float_info.max:
            raise PolicyError(f"{self.where}: {key} has to be a finite number, {_found(value)}")
        return float(value)

    def share(self, key: str, default: float) -> float:
        value = self.number(key)
        if value is None:
            return default
        if not 0 <= value <= 1:
            raise PolicyError(f"{self.where}: {key} is a share between 0 and 1, {_found(value)}")
        return value

    def boolean(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise PolicyError(f"{self.where}: {key} has to be true or false, {_found(value)}")
        return value

    def patterns(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, ["*"])
        if (
            not isinstance(value, list)
            or not value
            or not all(isinstance(each, str) and each for each in value)
        ):
            raise PolicyError(
                f"{self.where}: {key} has to be a list of group ids or patterns such as 'payments-*', "
                f"{_found(value)}"
            )
        if all(each.startswith("!") for each in value):
            raise PolicyError(f"{self.where}: {key} takes groups out and puts none in: begin with '*'")
        return tuple(value)


def _found(value: object) -> str:
    return "and is missing" if value is None else f"found {reprlib.repr(value)}"


def _near(word: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f": did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"


_ROUNDING = 1e-9
"""The relative tolerance: the last digits of sums and means depend on the order of Spark's additions."""


class RuleOutcome(str, enum.Enum):
    """The outcome of a rule, from good to bad to unknown."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class GroupJudgement:
    """A rule in one group: the `value`, its bounds, and the reason if it was not judged."""

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
    if policy.require_truth and not report.truth_holds:
        reason = "the accuracy check fails: the replay does not repeat the recorded assignments"
        return Judgement(tuple(RuleJudgement(rule, (), reason) for rule in policy.rules))
    return Judgement(tuple(_judged_rule(rule, report) for rule in policy.rules))


def _judged_rule(rule: PolicyRule, report: ReplayReport) -> RuleJudgement:
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
        matching = [each for each in rule.groups if fnmatchcase(group, each.removeprefix("!"))]
        if matching and not matching[-1].startswith("!"):
            yield group


def _group(rule: PolicyRule, name: str, report: ReplayReport) -> GroupJudgement:
    factor = 1.0
    try:
        _require_replayed(rule, report.groups[name])
        value = _figure(rule, name, rule.strategy, rule.metric, report)
        if rule.relative_to == LEAST:
            factor = _figure(rule, name, rule.strategy, LEAST_OF[rule.metric], report)
        elif rule.relative_to is not None:
            factor = _figure(rule, name, rule.relative_to, rule.metric, report)
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


def _figure(rule: PolicyRule, group: str, strategy: str, key: str, report: ReplayReport) -> float:
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
    severity = [RuleOutcome.HOLDS, RuleOutcome.NOT_JUDGED, RuleOutcome.VIOLATED]
    return max(outcomes, key=severity.index, default=RuleOutcome.HOLDS)
