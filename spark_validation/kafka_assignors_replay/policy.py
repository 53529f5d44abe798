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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from kafka_assignors.arguments import UserError
from kafka_assignors.strategies.registry import StrategyError, load_strategy
from kafka_assignors_replay.history.measures import FIGURES, Mode, Verdict
from kafka_assignors_replay.result import RECORDED, GroupSummary, ReplayResult

LEAST = "least"
"""The value of `relative_to` for the least possible."""

METRICS = (*(each.name for each in FIGURES.values() if each.judged), "failed")
"""The figures of a `Verdict` that a rule may be about."""

LEAST_OF = {name: f"least_{name}" for name in METRICS if f"least_{name}" in FIGURES}
"""The figure of a verdict that is the least possible value of a metric, where that is known."""


class _Value(NamedTuple):
    """What the value of a key has to be, in `words`, and how a valid one is read."""

    words: str
    is_valid: Callable[[Any], bool]
    read: Callable[[Any], Any] = lambda given: given


def _number_from(least: float, most: float) -> _Value:
    words = f"a number from {least:g} to {most:g}"
    return _Value(words, lambda given: type(given) in (int, float) and least <= given <= most, float)


def _are_patterns(given: Any) -> bool:
    texts = isinstance(given, list) and all(isinstance(each, str) and each for each in given)
    return texts and not all(each.startswith("!") for each in given)


def _are_tables(given: Any) -> bool:
    return isinstance(given, list) and given != [] and all(isinstance(each, Mapping) for each in given)


_TEXT = _Value("a text", lambda given: isinstance(given, str) and given != "")
_BOUND = _number_from(-1e15, 1e15)  # A multiple of a figure has to be finite too.
_METRIC = _Value(f"one of {', '.join(METRICS)}", METRICS.__contains__)
_MODE = _Value(f"one of {', '.join(Mode)}", [*Mode].__contains__, Mode)
_PATTERNS = "a list of group ids or patterns such as 'payments-*', not all with '!'"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRule:
    """In each of the groups, `metric` of `strategy` lies between `min` and `max`.

    With `relative_to` the bounds are multiples of the least possible, or of the same metric of another
    strategy (`recorded` is production). `groups` are glob patterns; one that begins with `!` excludes groups,
    and the last pattern that matches a group counts.
    """

    name: Annotated[str, _TEXT]
    metric: Annotated[str, _METRIC]
    strategy: Annotated[str, _TEXT]
    groups: Annotated[tuple[str, ...], _Value(_PATTERNS, _are_patterns, tuple)] = ("*",)
    mode: Annotated[Mode, _MODE] = Mode.STEADY_STATE
    min: Annotated[float | None, _BOUND] = None
    max: Annotated[float | None, _BOUND] = None
    relative_to: Annotated[str | None, _TEXT] = None


@dataclass(frozen=True, slots=True)
class Policy:
    """What the keys of the file say. `max_not_replayed` is the share of a group's rebalances that may be
    missing. With `require_truth` a replay whose accuracy check fails is not judged."""

    rule: Annotated[tuple[PolicyRule, ...], _Value("tables that begin with [[rule]]", _are_tables)]
    max_not_replayed: Annotated[float, _number_from(0, 1)] = 0.1
    require_truth: Annotated[bool, _Value("true or false", lambda given: isinstance(given, bool))] = True

    @property
    def strategies(self) -> tuple[str, ...]:
        named = (name for rule in self.rule for name in (rule.strategy, rule.relative_to))
        return tuple(dict.fromkeys(name for name in named if name not in (None, LEAST, RECORDED)))


def read_policy(table: Mapping[str, Any], where: str = "policy") -> Policy:
    """The policy in a TOML table; `where` names its file in a `UserError`."""
    values = _read(Policy, table, where)
    rules = tuple(_rule(each, number, where) for number, each in enumerate(values["rule"], 1))
    names = [rule.name for rule in rules]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{where}: two rules are called {twice[0]!r}: a verdict must say which it is about")
    return Policy(**{**values, "rule": rules})


def _rule(table: Mapping[str, Any], number: int, where: str) -> PolicyRule:
    name = table.get("name")
    where = f"{where}: rule {number}" + (f" ({name!r})" if isinstance(name, str) else "")
    rule = PolicyRule(**_read(PolicyRule, {"name": f"rule {number}", **table}, where))
    for key, others in (("strategy", [RECORDED]), ("relative_to", [RECORDED, LEAST])):
        try:
            if key in table and table[key] not in others:
                load_strategy(table[key])
        except StrategyError as error:
            raise UserError(f"{where}: {key}: {error} (or {', '.join(others)})") from None
    low, high = rule.min, rule.max
    if low is None and high is None:
        raise UserError(f"{where}: give min, max or both")
    if low is not None and high is not None and low > high:
        raise UserError(f"{where}: min {low:g} is greater than max {high:g}")
    if rule.relative_to == LEAST and rule.metric not in LEAST_OF:
        known = ", ".join(LEAST_OF)
        raise UserError(f"{where}: relative_to: no least is known of {rule.metric!r}, only of {known}")
    if rule.relative_to == rule.strategy:
        raise UserError(f"{where}: relative_to is {rule.strategy!r} itself")
    return rule


def _read(kind: type, table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values of the fields of `kind`, which are the keys of `table`; `where` is the table's place."""
    keys = {key: get_args(hint)[1] for key, hint in get_type_hints(kind, include_extras=True).items()}
    for key in table:
        if key not in keys:
            close = difflib.get_close_matches(key, keys, n=1)
            hint = f": did you mean {close[0]!r}?" if close else f"; known are {', '.join(keys)}"
            raise UserError(f"{where}: there is no key {key!r}{hint}")
    given = [each.name for each in fields(kind) if each.name in table or each.default is MISSING]
    for key in given:
        if not keys[key].is_valid(table.get(key)):
            found = f"found {reprlib.repr(table[key])}" if key in table else "and is missing"
            raise UserError(f"{where}: {key} has to be {keys[key].words}, {found}")
    return {key: keys[key].read(table[key]) for key in given}


_ROUNDING = 1e-9
"""The relative tolerance: the last digits of sums and means depend on the order of Spark's additions."""


class RuleOutcome(str, enum.Enum):
    """The outcome of a rule, from good to bad to unknown."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class GroupJudgement:
    """A rule in one group, as in the JSON form: the `value` and its bounds, or why it was not judged."""

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
        own = [] if self.reason is None else [RuleOutcome.NOT_JUDGED]
        return _worst([*own, *(each.verdict for each in self.groups)])


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a policy, rule by rule."""

    rules: tuple[RuleJudgement, ...]

    @property
    def verdict(self) -> RuleOutcome:
        return _worst(rule.verdict for rule in self.rules)


def _worst(outcomes: Iterable[RuleOutcome]) -> RuleOutcome:
    severity = [RuleOutcome.HOLDS, RuleOutcome.NOT_JUDGED, RuleOutcome.VIOLATED]
    return max(outcomes, key=severity.index, default=RuleOutcome.HOLDS)


class _Missing(Exception):
    """A missing fact, without which the rule cannot be judged; the message names it."""


def judge(policy: Policy, result: ReplayResult) -> Judgement:
    if result.damaged_files:  # A number without a record may be a rebalance in a file that was left out.
        groups = (replace(each, rebalances=each.rebalances + each.skipped_numbers) for each in result.groups)
        result = replace(result, groups=tuple(groups))
    return Judgement(tuple(_judged(rule, policy, result) for rule in policy.rule))


def _judged(rule: PolicyRule, policy: Policy, result: ReplayResult) -> RuleJudgement:
    if policy.require_truth and not result.truth.holds:
        reason = "the accuracy check fails: the replay does not repeat the recorded assignments"
        return RuleJudgement(rule, (), reason)
    verdicts = {(each.group, each.strategy): each for each in result.verdicts if each.mode is rule.mode}
    about = [each for each in result.groups if each.rebalances and _is_about(rule, each.group)]
    groups = tuple(_in_group(rule, each, verdicts, policy.max_not_replayed) for each in about)
    names = [each.group for each in result.groups]
    inclusive = [each for each in rule.groups if not each.startswith("!")]
    if unmatched := [each for each in inclusive if not any(fnmatchcase(name, each) for name in names)]:
        return RuleJudgement(rule, groups, f"no group matches {', '.join(map(repr, unmatched))}")
    return RuleJudgement(rule, groups, None if groups else "no group is left that has rebalances")


def _is_about(rule: PolicyRule, group: str) -> bool:
    last = next((each for each in reversed(rule.groups) if fnmatchcase(group, each.removeprefix("!"))), "!")
    return not last.startswith("!")


def _in_group(
    rule: PolicyRule, group: GroupSummary, verdicts: Mapping[tuple[str, str], Verdict], allowed: float
) -> GroupJudgement:
    def figure(strategy: str, key: str) -> float:
        verdict = verdicts.get((group.group, strategy))
        if verdict is not None and verdict.failed and key != "failed":
            raise _Missing(f"{strategy} failed in {verdict.failed} of its rebalances, which no figure covers")
        if verdict is None or (value := getattr(verdict, key)) is None:
            raise _Missing(f"{key} of {strategy} is unknown")
        return float(value)

    factor = 1.0
    try:
        if not group.replayed_rebalances:
            raise _Missing(": ".join(["nothing of it was replayed", *[*group.not_replayed][:1]]))
        missing = 1 - group.replayed_rebalances / group.rebalances
        if missing > allowed + _ROUNDING:
            limit = f"max_not_replayed allows {allowed:.0%}"
            raise _Missing(f"{missing:.0%} of its rebalances were not replayed, and {limit}")
        value = figure(rule.strategy, rule.metric)
        if rule.relative_to == LEAST:
            factor = figure(rule.strategy, LEAST_OF[rule.metric])
        elif rule.relative_to is not None:
            factor = figure(rule.relative_to, rule.metric)
    except _Missing as missing_fact:
        return GroupJudgement(group.group, RuleOutcome.NOT_JUDGED, reason=str(missing_fact))
    low, high = (None if bound is None else bound * factor for bound in (rule.min, rule.max))
    too_low = low is not None and value < low - _ROUNDING * max(1.0, abs(low))
    too_high = high is not None and value > high + _ROUNDING * max(1.0, abs(high))
    outcome = RuleOutcome.VIOLATED if too_low or too_high else RuleOutcome.HOLDS
    return GroupJudgement(group.group, outcome, value, low, high)
