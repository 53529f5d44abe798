"""Policies: error messages for invalid ones, and rules that hold, are violated, or are not judged."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors.arguments import UserError
from kafka_assignors_replay import policy
from kafka_assignors_replay.result import Mode, ReplayResult, Verdict
from spark_validation.tests.report_sample import GROUPS, LINKING, sample

ROOT = Path(__file__).parents[2]
HOLDS, VIOLATED, NOT_JUDGED = policy.RuleOutcome

RULE: dict[str, Any] = {"metric": "moved", "strategy": "cooperative-sticky", "max": 12}


def replayed(**figures: Any) -> ReplayResult:
    """`sample()`, with these figures in every verdict of cooperative-sticky on `payments`."""
    result = sample()
    changed = "payments", "cooperative-sticky"
    verdicts = (
        replace(each, **figures) if (each.group, each.strategy) == changed else each
        for each in result.verdicts
    )
    return replace(result, verdicts=tuple(verdicts))


def judged(rule: Mapping[str, Any], made: ReplayResult | None = None, **top: Any) -> policy.RuleJudgement:
    whole = {"groups": ["payments"], **RULE, **rule}
    if "min" in rule and "max" not in rule:
        del whole["max"]
    read = policy.read_policy({"rule": [whole], **top})
    [found] = policy.judge(read, made or sample()).rules
    return found


def only_group(made: ReplayResult | None = None, **rule: Any) -> policy.GroupJudgement:
    [group] = judged(rule, made).groups
    return group


LEAST, PRODUCTION, RANGE = ({"relative_to": name} for name in ("least", "recorded", "range"))
FAILED = {"groups": [LINKING.replace("[", "[[]")], "strategy": "range"}
UNMATCHED = {"groups": ["payments", "orders-*"]}
PAUSED = {"metric": "paused_s", "max": 0.3}

# cooperative-sticky moves 12 partitions in the sample, which is the least, and the recorded verdict 40.
BOUNDS: dict[str, tuple[dict[str, Any], dict[str, Any], policy.RuleOutcome]] = {
    "at most": ({}, {"max": 12}, HOLDS),
    "too many": ({}, {"max": 11.9}, VIOLATED),
    "at least": ({}, {"min": 12}, HOLDS),
    "too few": ({}, {"min": 12.1}, VIOLATED),
    "both": ({}, {"min": 12, "max": 12}, HOLDS),
    "the least": ({}, {"max": 1.0, **LEAST}, HOLDS),
    "less than the least": ({}, {"max": 0.99, **LEAST}, VIOLATED),
    "of the recorded": ({}, {"max": 0.3, **PRODUCTION}, HOLDS),
    "at most of another strategy": ({}, {"max": 0.29, **RANGE}, VIOLATED),
    "at least of another strategy": ({}, {"min": 0.31, **RANGE}, VIOLATED),
    "of nothing no multiple is allowed": ({"least_moved": 0}, {"max": 5, **LEAST}, VIOLATED),
    "and nothing is": ({"least_moved": 0, "moved": 0}, {"max": 1, **LEAST}, HOLDS),
    "sums that differ in their last digits are the same": ({"paused_s": 0.1 + 0.2}, PAUSED, HOLDS),
    "and others are not": ({"paused_s": 0.3 + 1e-6}, PAUSED, VIOLATED),
    "failures are judged where no other figure is": ({}, {**FAILED, "metric": "failed", "max": 0}, VIOLATED),
    "a violation stays one beside unknown values": ({}, {**UNMATCHED, "max": 1}, VIOLATED),
}


@pytest.mark.parametrize(("figures", "rule", "outcome"), BOUNDS.values(), ids=BOUNDS)
def test_bounds(figures: dict[str, Any], rule: dict[str, Any], outcome: policy.RuleOutcome) -> None:
    assert judged(rule, replayed(**figures)).verdict is outcome


def test_a_bound_in_figures_is_told() -> None:
    assert only_group(max=0.3, **PRODUCTION).at_most == pytest.approx(12)


@pytest.mark.parametrize("metric", policy.METRICS)
def test_every_metric_is_a_figure_of_a_verdict_and_can_be_judged(metric: str) -> None:
    names = {field.name for field in dataclasses.fields(Verdict)}
    assert {metric, policy.LEAST_OF.get(metric, metric)} <= names
    made = replayed(rack_misses=3, paused_cooperative_s=2.0)
    assert only_group(made, metric=metric, max=1e9).verdict is HOLDS


# What is not judged


def without_verdicts() -> ReplayResult:
    result = sample()
    others = tuple(each for each in result.verdicts if each.strategy != "cooperative-sticky")
    return replace(result, verdicts=others)


def nothing_replayed(**figures: int) -> ReplayResult:
    result = sample()
    first = replace(result.groups[0], replayed_rebalances=0, **figures)
    return replace(result, groups=(first, *result.groups[1:]))


def unexplained() -> ReplayResult:
    """A replay that does not repeat what was recorded."""
    result = sample()
    clients = (replace(result.truth.clients[0], must_match=True, unexplained=1),)
    return replace(result, truth=replace(result.truth, clients=clients))


UNJUDGED: dict[str, tuple[ReplayResult, dict[str, Any], dict[str, Any], str]] = {
    "an unknown figure": (replayed(rack_misses=None), {"metric": "rack_misses"}, {}, "is unknown"),
    "an unknown least": (replayed(least_moved=None), LEAST, {}, "is unknown"),
    "no verdict": (without_verdicts(), {}, {}, "moved of cooperative-sticky is unknown"),
    "failures": (
        sample(),
        {**FAILED, "max": 100},
        {},
        "range failed in 1 of its rebalances, which no figure",
    ),
    # The sample lacks one of eleven rebalances.
    "too little": (
        sample(),
        {},
        {"max_not_replayed": 0.05},
        "9% of its rebalances were not replayed, and max",
    ),
    "nothing, under any limit": (
        nothing_replayed(),
        {},
        {"max_not_replayed": 1},
        f"nothing of it was replayed: {next(iter(sample().groups[0].not_replayed))}",
    ),
    "a group without rebalances": (nothing_replayed(rebalances=0), {}, {}, "no group is left"),
    "an unexplained difference": (unexplained(), {}, {}, "accuracy check"),
    "a strategy": (sample(), {"strategy": "sticky"}, {}, "moved of sticky is unknown"),
    "what it is relative to": (sample(), {"relative_to": "sticky"}, {}, "moved of sticky is unknown"),
    "a mode": (sample(modes=(Mode.ONE_STEP,)), {}, {}, "moved of cooperative-sticky is unknown"),
    "no group for a pattern": (sample(), UNMATCHED, {}, "no group matches 'orders-*'"),
    "no group": (sample(), {"groups": ["*", "!*"]}, {}, "no group is left"),
}


@pytest.mark.parametrize(("made", "rule", "top", "reason"), UNJUDGED.values(), ids=UNJUDGED)
def test_what_is_not_judged(
    made: ReplayResult, rule: dict[str, Any], top: dict[str, Any], reason: str
) -> None:
    found = judged(rule, made, **top)
    assert found.verdict is NOT_JUDGED
    assert reason in (found.reason or found.groups[0].reason or "")
    assert all(each.value is None for each in found.groups if each.verdict is NOT_JUDGED)


def test_beside_a_group_without_rebalances_the_others_are_judged() -> None:
    found = judged({"groups": ["*"]}, nothing_replayed(rebalances=0))
    assert {each.group for each in found.groups} == set(GROUPS) - {"payments"}


def test_without_the_check_of_accuracy_all_is_judged() -> None:
    assert judged({}, unexplained(), require_truth=False).verdict is HOLDS


def test_the_last_pattern_that_matches_decides() -> None:
    def groups(*patterns: str) -> set[str]:
        return {each.group for each in judged({"groups": list(patterns)}).groups}

    assert groups("*") == set(GROUPS)
    assert groups("*", "!<*") == {"payments"}
    assert groups("!payments", "*") == set(GROUPS)
    assert groups("*", "!*", "pay*") == {"payments"}


def test_the_policy_is_violated_if_a_rule_is_and_not_judged_before_it_holds() -> None:
    def of(*maxima: tuple[float, str]) -> policy.RuleOutcome:
        rules = [{**RULE, "max": most, "groups": [group]} for most, group in maxima]
        return policy.judge(policy.read_policy({"rule": rules}), sample()).verdict

    assert of((12, "payments")) is HOLDS
    assert of((12, "payments"), (12, "missing")) is NOT_JUDGED
    assert of((12, "missing"), (11, "payments")) is VIOLATED


# What a policy requires


def test_a_rule_is_about_the_steady_state_of_all_groups_and_has_a_number_for_a_name() -> None:
    [rule] = policy.read_policy({"rule": [RULE]}).rule
    assert (rule.name, rule.mode, rule.groups) == ("rule 1", Mode.STEADY_STATE, ("*",))


# Invalid policies


def refused(table: Mapping[str, Any]) -> str:
    with pytest.raises(UserError) as caught:
        policy.read_policy(table, "p.toml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metric": "movd"}, "rule 1: metric has to be one of moved, stickiness, "),
        ({"metric": None}, "failed, and is missing"),
        ({"metric": ["moved"]}, "failed, found ['moved']"),
        ({"strategy": "rang"}, "strategy: "),
        ({"strategy": "least"}, "strategy: "),
        ({"max": None}, "give min, max or both"),
        ({"max": True}, "max has to be a number from -1e+15 to 1e+15, found True"),
        ({"max": math.nan}, "max has to be a number from -1e+15 to 1e+15, found nan"),
        ({"min": -math.inf}, "min has to be a number from -1e+15 to 1e+15, found -inf"),
        ({"max": 1.7e308}, "max has to be a number from -1e+15 to 1e+15, found 1.7e+308"),
        ({"min": 13}, "min 13 is greater than max 12"),
        ({"mode": "steady_state"}, "mode has to be one of one-step, steady-state, found 'steady_state'"),
        ({"groups": []}, "groups has to be a list of group ids or patterns such as 'payments-*'"),
        ({"groups": ["!a"]}, "patterns such as 'payments-*', not all with '!', found ['!a']"),
        ({"groups": "payments"}, "groups has to be a list of group ids or patterns"),
        ({"groups": [""]}, "groups has to be a list of group ids or patterns"),
        ({"relative_to": "leest"}, "relative_to: "),
        ({"relative_to": "cooperative-sticky"}, "relative_to is 'cooperative-sticky' itself"),
        (
            {"metric": "load_stddev", "relative_to": "least"},
            "relative_to: no least is known of 'load_stddev', only of moved, rack_misses",
        ),
        ({"max_not_replayed": 0.1}, "there is no key 'max_not_replayed'"),
        ({"maximum": 3}, "there is no key 'maximum': did you mean 'max'?"),
        ({"name": ""}, "name has to be a text, found ''"),
    ],
)
def test_a_wrong_rule_is_refused_with_its_number_and_key(change: dict[str, Any], words: str) -> None:
    rule = {key: value for key, value in {**RULE, **change}.items() if value is not None}
    message = refused({"rule": [rule]})
    assert message.startswith("p.toml: rule 1")
    assert words in message


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ({}, "and is missing"),
        ({"rule": []}, "found []"),
        ({"rule": {}}, "found {}"),
        ({"rule": [3]}, "found [3]"),
        ({"rule": 10**400}, "found 1000000"),
    ],
)
def test_a_policy_without_rules_is_none(table: dict[str, Any], found: str) -> None:
    assert refused(table).startswith(f"p.toml: rule has to be tables that begin with [[rule]], {found}")


def test_other_tables_and_two_rules_of_one_name_are_refused() -> None:
    named = {"rule": [RULE, {**RULE, "name": "calm", "max": "x"}]}
    assert refused(named).startswith(
        "p.toml: rule 2 ('calm'): max has to be a number from -1e+15 to 1e+15, found 'x'"
    )
    assert refused({"rules": [RULE]}) == "p.toml: there is no key 'rules': did you mean 'rule'?"
    assert "two rules are called 'a'" in refused({"rule": [{**RULE, "name": "a"}] * 2})
    assert "require_truth has to be true or false, found 1" in refused({"rule": [RULE], "require_truth": 1})
    share = "max_not_replayed has to be a number from 0 to 1, found 10"
    assert share in refused({"rule": [RULE], "max_not_replayed": 10})


# The page


def test_the_page_has_both_policies_and_every_metric() -> None:
    page = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")
    for name in ("policy.toml", "strict-policy.toml"):
        assert f"```toml\n{(ROOT / 'examples' / name).read_text(encoding='utf-8')}```" in page
    for metric in policy.METRICS:
        assert f"`{metric}`" in page.partition("Metrics are")[2]
