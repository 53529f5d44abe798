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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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


class PolicyError(UserError):
    """The policy is invalid: the message names the rule, the key, and the allowed values."""


METRICS = {each.name: each.adds_up for each in FIGURES.values() if each.judged} | {"failed": True}
"""The figures of a `Verdict` that a rule may be about, and whether a figure adds up over rebalances, so that
it can be taken per rebalance or per day."""

LEAST_OF = {name: f"least_{name}" for name in METRICS if f"least_{name}" in FIGURES}
"""The figure of a verdict that is the least possible value of a metric, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    groups: tuple[str, ...] = ("*",)
    mode: Mode = Mode.STEADY_STATE
    min: float | None = None
    max: float | None = None
    relative_to: str | None = None
    per: str | None = None
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
    top = _checked(table, _POLICY_KEYS, where)
    rules, share = table.get("rule"), top.get("max_not_replayed", 0.1)
    if not isinstance(rules, list) or not rules or not all(isinstance(each, Mapping) for each in rules):
        raise PolicyError(f"{where}: a policy has rules, each a table that begins with [[rule]]")
    read = tuple(_rule(each, number, where, share) for number, each in enumerate(rules, 1))
    names = [rule.name for rule in read]
    for name in names:
        if names.count(name) > 1:
            raise PolicyError(f"{where}: two rules are called {name!r}: a verdict must say which it is about")
    return Policy(read, top.get("require_truth", True))


def _rule(table: Mapping[str, Any], number: int, where: str, share: float) -> PolicyRule:
    name = f"rule {number}"
    named = table.get("name")
    where = f"{where}: {name} ({named!r})" if isinstance(named, str) else f"{where}: {name}"
    values = _checked(table, _RULE_KEYS, where, required=("metric", "strategy"))
    for key, kind in (("groups", tuple), ("mode", Mode)):
        if key in values:
            values[key] = kind(values[key])
    rule = PolicyRule(**{"name": name, "max_not_replayed": share, **values})
    low, high = rule.min, rule.max
    if low is None and high is None:
        raise PolicyError(f"{where}: give min, max or both")
    if low is not None and high is not None and low > high:
        raise PolicyError(f"{where}: min {low:g} is greater than max {high:g}")
    if rule.relative_to == LEAST and rule.metric not in LEAST_OF:
        known = ", ".join(LEAST_OF)
        raise PolicyError(f"{where}: relative_to: no least is known of {rule.metric!r}, only of {known}")
    if rule.relative_to == rule.strategy:
        raise PolicyError(f"{where}: relative_to is {rule.strategy!r} itself")
    if rule.per is not None and not METRICS[rule.metric]:
        known = ", ".join(name for name, adds_up in METRICS.items() if adds_up)
        raise PolicyError(f"{where}: per: {rule.metric!r} is no sum; these are: {known}")
    return rule


_Check = Callable[[str, Any], "str | None"]
"""What is wrong with the value of a key, in words; None if nothing is."""


def _expected(valid: Callable[[Any], bool], what: str) -> _Check:
    def check(key: str, value: Any) -> str | None:
        found = "and is missing" if value is None else f"found {reprlib.repr(value)}"
        return None if valid(value) else f"{key} {what}, {found}"

    return check


def _one_of(known: Collection[str]) -> _Check:
    return lambda key, value: None if value in known else f"there is no {key} {value!r}{_near(value, known)}"


def _strategy_or(*others: str) -> _Check:
    def check(key: str, name: str) -> str | None:
        if name not in others:
            try:
                load_strategy(name)
            except StrategyError as error:
                return f"{key}: {error} (or {', '.join(others)})"
        return None

    return check


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) and each for each in value)


def _share(key: str, value: float) -> str | None:
    return None if 0 <= value <= 1 else f"{key} is a share between 0 and 1, found {float(value)!r}"


def _puts_groups_in(key: str, patterns: list[str]) -> str | None:
    only_out = all(each.startswith("!") for each in patterns)
    return f"{key} takes groups out and puts none in: begin with '*'" if only_out else None


_text = _expected(lambda value: isinstance(value, str) and value != "", "has to be a text")
_number = _expected(
    # Not `isfinite`, which cannot take an integer that is too large for a float.
    lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max,
    "has to be a finite number",
)
_truth = _expected(lambda value: isinstance(value, bool), "has to be true or false")
_patterns = _expected(_are_texts, "has to be a list of group ids or patterns such as 'payments-*'")

_POLICY_KEYS: Mapping[str, Sequence[_Check]] = {
    "rule": (),
    "max_not_replayed": (_number, _share),
    "require_truth": (_truth,),
}
_RULE_KEYS: Mapping[str, Sequence[_Check]] = {
    "name": (_text,),
    "metric": (_text, _one_of(METRICS)),
    "strategy": (_text, _strategy_or(RECORDED)),
    "groups": (_patterns, _puts_groups_in),
    "mode": (_text, _one_of([each.value for each in Mode])),
    "min": (_number,),
    "max": (_number,),
    "relative_to": (_text, _strategy_or(RECORDED, LEAST)),
    "per": (_text, _one_of(("rebalance", "day"))),
    "max_not_replayed": (_number, _share),
}
"""The keys of a table, in the order in which an error lists them, each with its checks, of which the first
that fails is the error."""


def _checked(
    table: Mapping[str, Any],
    keys: Mapping[str, Sequence[_Check]],
    where: str,
    required: Collection[str] = (),
) -> dict[str, Any]:
    """The values of a TOML table; `where` is its place in the file. Other keys than `keys` are refused."""
    for key in table:
        if key not in keys:
            raise PolicyError(f"{where}: there is no key {key!r}{_near(key, keys)}")
    for key, checks in keys.items():
        if key in table or key in required:
            for check in checks:
                if (problem := check(key, table.get(key))) is not None:
                    raise PolicyError(f"{where}: {problem}")
    numbers = {key: float(value) for key, value in table.items() if keys[key] and type(value) is int}
    return {**table, **numbers}


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
    """A rule in one group: the `value`, its bounds, and the reason if it was not judged; as in the JSON
    form."""

    group: str
    verdict: RuleOutcome
    value: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class RuleJudgement:
    """A rule in all its groups. `reason` says why there is no group to judge."""

    rule: PolicyRule
    groups: tuple[GroupJudgement, ...]
    reason: str | None = None

    @property
    def verdict(self) -> RuleOutcome:
        outcomes = [each.verdict for each in self.groups]
        return _worst(outcomes if self.reason is None else [*outcomes, RuleOutcome.NOT_JUDGED])


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a policy, rule by rule."""

    rules: tuple[RuleJudgement, ...]

    @property
    def verdict(self) -> RuleOutcome:
        return _worst(rule.verdict for rule in self.rules)


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
    inclusive = [each for each in rule.groups if not each.startswith("!")]
    unmatched = [each for each in inclusive if not any(fnmatchcase(group, each) for group in report.groups)]
    groups = tuple(_group(rule, name, report) for name in sorted(report.groups) if _is_about(rule, name))
    if unmatched:
        return RuleJudgement(rule, groups, f"no group matches {', '.join(map(repr, unmatched))}")
    return RuleJudgement(rule, groups, None if groups else "no group is left after those taken out")


def _is_about(rule: PolicyRule, group: str) -> bool:
    last = next((each for each in reversed(rule.groups) if fnmatchcase(group, each.removeprefix("!"))), "!")
    return not last.startswith("!")


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
