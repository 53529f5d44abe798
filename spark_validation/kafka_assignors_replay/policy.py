"""Policies: how they are read, and how a replay is checked against one.

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
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any

from kafka_assignors.arguments import UserError
from kafka_assignors.strategies.registry import StrategyError, load_strategy
from kafka_assignors_replay.history.measures import FIGURES, Mode, Verdict
from kafka_assignors_replay.result import RECORDED, GroupSummary, ReplayResult

LEAST = "least"
"""The value of `relative_to` for the least possible."""


class PolicyError(UserError):
    """The policy is invalid: the message names the rule, the key, and the allowed values."""


METRICS = (*(each.name for each in FIGURES.values() if each.judged), "failed")
"""The figures of a `Verdict` that a rule may be about."""

LEAST_OF = {name: f"least_{name}" for name in METRICS if f"least_{name}" in FIGURES}
"""The figure of a verdict that is the least possible value of a metric, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """In each of the groups, `metric` of `strategy` lies between `min` and `max`.

    With `relative_to` the bounds are multiples of the least possible, or of the same metric of another
    strategy (`recorded` is production). `groups` are glob patterns; one that begins with `!` excludes groups,
    and the last pattern that matches a group counts.
    """

    name: str
    metric: str
    strategy: str
    groups: tuple[str, ...] = ("*",)
    mode: Mode = Mode.STEADY_STATE
    min: float | None = None
    max: float | None = None
    relative_to: str | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules. `max_not_replayed` is the share of a group's rebalances that may be missing. With
    `require_truth` a replay whose accuracy check fails is not judged."""

    rules: tuple[PolicyRule, ...]
    max_not_replayed: float = 0.1
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
    _check(table, _POLICY_KEYS, where)
    rules = table.get("rule")
    if not isinstance(rules, list) or not rules or not all(isinstance(each, Mapping) for each in rules):
        raise PolicyError(f"{where}: a policy has rules, each a table that begins with [[rule]]")
    read = tuple(_rule(each, number, where) for number, each in enumerate(rules, 1))
    names = [rule.name for rule in read]
    for name in names:
        if names.count(name) > 1:
            raise PolicyError(f"{where}: two rules are called {name!r}: a verdict must say which it is about")
    return Policy(read, **{key: value for key, value in table.items() if key != "rule"})


def _rule(table: Mapping[str, Any], number: int, where: str) -> PolicyRule:
    name = f"rule {number}"
    named = table.get("name")
    where = f"{where}: {name} ({named!r})" if isinstance(named, str) else f"{where}: {name}"
    _check(table, _RULE_KEYS, where, required=("metric", "strategy"))
    kinds: dict[str, Callable[[Any], Any]] = {"groups": tuple, "mode": Mode, "min": float, "max": float}
    rule = PolicyRule(**{"name": name, **{key: kinds.get(key, str)(value) for key, value in table.items()}})
    for key, others in (("strategy", [RECORDED]), ("relative_to", [RECORDED, LEAST])):
        try:
            if key in table and table[key] not in others:
                load_strategy(table[key])
        except StrategyError as error:
            raise PolicyError(f"{where}: {key}: {error} (or {', '.join(others)})") from None
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
    return rule


_Expected = tuple[Callable[[Any], bool], str]
"""Whether a value is valid, and what it has to be, in words."""


def _one_of(known: Collection[str]) -> _Expected:
    return lambda value: isinstance(value, str) and value in known, f"one of {', '.join(known)}"


def _are_patterns(value: Any) -> bool:
    texts = isinstance(value, list) and all(isinstance(each, str) and each for each in value)
    return texts and not all(each.startswith("!") for each in value)


_TEXT: _Expected = (lambda value: isinstance(value, str) and value != "", "a text")
_NUMBER: _Expected = (
    # A multiple of a figure has to be finite too.
    lambda value: type(value) in (int, float) and abs(value) <= 1e15,
    "a number from -1e15 to 1e15",
)

_POLICY_KEYS: Mapping[str, _Expected] = {
    "rule": (lambda _: True, "rules"),
    "max_not_replayed": (
        lambda value: type(value) in (int, float) and 0 <= value <= 1,
        "a share between 0 and 1",
    ),
    "require_truth": (lambda value: isinstance(value, bool), "true or false"),
}
_RULE_KEYS: Mapping[str, _Expected] = {
    "name": _TEXT,
    "metric": _one_of(METRICS),
    "strategy": _TEXT,
    "groups": (_are_patterns, "a list of group ids or patterns such as 'payments-*', not all with '!'"),
    "mode": _one_of([each.value for each in Mode]),
    "min": _NUMBER,
    "max": _NUMBER,
    "relative_to": _TEXT,
}
"""The keys of a table, in the order in which an error lists them."""


def _check(
    table: Mapping[str, Any], keys: Mapping[str, _Expected], where: str, required: Collection[str] = ()
) -> None:
    """Refuse other keys than `keys`, and values that are not as expected; `where` is the table's place."""
    for key in table:
        if key not in keys:
            close = difflib.get_close_matches(key, keys, n=1)
            hint = f": did you mean {close[0]!r}?" if close else f"; known are {', '.join(keys)}"
            raise PolicyError(f"{where}: there is no key {key!r}{hint}")
    for key, (is_valid, what) in keys.items():
        if (key in table or key in required) and not is_valid(table.get(key)):
            found = f"found {reprlib.repr(table[key])}" if key in table else "and is missing"
            raise PolicyError(f"{where}: {key} has to be {what}, {found}")


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


def judge(policy: Policy, result: ReplayResult) -> Judgement:
    if policy.require_truth and not result.truth.holds:
        reason = "the accuracy check fails: the replay does not repeat the recorded assignments"
        return Judgement(tuple(RuleJudgement(rule, (), reason) for rule in policy.rules))
    return Judgement(tuple(_judged_rule(rule, policy, result) for rule in policy.rules))


def _judged_rule(rule: PolicyRule, policy: Policy, result: ReplayResult) -> RuleJudgement:
    for name in (rule.strategy, rule.relative_to):
        if name not in (None, LEAST, RECORDED, *result.options.strategies):
            return RuleJudgement(rule, (), f"{name} was not replayed")
    if rule.mode not in result.options.modes:
        return RuleJudgement(rule, (), f"no {rule.mode.value} replay was asked for")
    verdicts = {(each.group, each.strategy): each for each in result.verdicts if each.mode is rule.mode}
    about = sorted((each for each in result.groups if _is_about(rule, each.group)), key=attrgetter("group"))
    groups = tuple(_group(rule, each, verdicts, policy.max_not_replayed) for each in about)
    names = [each.group for each in result.groups]
    inclusive = [each for each in rule.groups if not each.startswith("!")]
    if unmatched := [each for each in inclusive if not any(fnmatchcase(name, each) for name in names)]:
        return RuleJudgement(rule, groups, f"no group matches {', '.join(map(repr, unmatched))}")
    return RuleJudgement(rule, groups, None if groups else "no group is left after those taken out")


def _is_about(rule: PolicyRule, group: str) -> bool:
    last = next((each for each in reversed(rule.groups) if fnmatchcase(group, each.removeprefix("!"))), "!")
    return not last.startswith("!")


def _group(
    rule: PolicyRule,
    group: GroupSummary,
    verdicts: Mapping[tuple[str, str], Verdict],
    may_be_missing: float,
) -> GroupJudgement:
    def figure(strategy: str, key: str) -> float:
        verdict = verdicts.get((group.group, strategy))
        if verdict is None:
            raise _Missing(f"there are no figures of {strategy}")
        if verdict.failed and key != "failed":
            raise _Missing(f"{strategy} failed in {verdict.failed} of its rebalances, which no figure covers")
        if (value := getattr(verdict, key)) is None:
            raise _Missing(f"{key} of {strategy} is unknown")
        return float(value)

    factor = 1.0
    try:
        if not group.replayed_rebalances:
            raise _Missing("nothing of it was replayed")
        missing = 1 - group.replayed_rebalances / group.rebalances
        if missing > may_be_missing + _ROUNDING:
            limit = f"max_not_replayed allows {may_be_missing:.0%}"
            raise _Missing(f"{missing:.0%} of its rebalances were not replayed, and {limit}")
        value = figure(rule.strategy, rule.metric)
        if rule.relative_to == LEAST:
            factor = figure(rule.strategy, LEAST_OF[rule.metric])
        elif rule.relative_to is not None:
            factor = figure(rule.relative_to, rule.metric)
    except _Missing as missing_fact:
        return GroupJudgement(group.group, RuleOutcome.NOT_JUDGED, reason=str(missing_fact))
    low = None if rule.min is None else rule.min * factor
    high = None if rule.max is None else rule.max * factor
    too_low = low is not None and value < low - _ROUNDING * max(1.0, abs(low))
    too_high = high is not None and value > high + _ROUNDING * max(1.0, abs(high))
    outcome = RuleOutcome.VIOLATED if too_low or too_high else RuleOutcome.HOLDS
    return GroupJudgement(group.group, outcome, value, low, high)


def _worst(outcomes: Iterable[RuleOutcome]) -> RuleOutcome:
    severity = [RuleOutcome.HOLDS, RuleOutcome.NOT_JUDGED, RuleOutcome.VIOLATED]
    return max(outcomes, key=severity.index, default=RuleOutcome.HOLDS)
