"""Policies: error messages for invalid ones, and rules that hold, are violated, or are not judged."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_assignors_replay.policy import (
    LEAST_OF,
    METRICS,
    GroupJudgement,
    PolicyError,
    RuleJudgement,
    RuleOutcome,
    judge,
    read_policy,
)
from kafka_assignors_replay.result import Mode, ReplayResult, Verdict
from spark_validation.tests.report_sample import GROUPS, LINKING, sample

ROOT = Path(__file__).parents[2]
HOLDS, VIOLATED, NOT_JUDGED = RuleOutcome

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


def judged(rule: Mapping[str, Any], made: ReplayResult | None = None, **top: Any) -> RuleJudgement:
    whole = {"groups": ["payments"], **RULE, **rule}
    if "min" in rule and "max" not in rule:
        del whole["max"]
    policy = read_policy({"rule": [whole], **top})
    [found] = judge(policy, made or sample()).rules
    return found


def outcome(made: ReplayResult | None = None, **rule: Any) -> RuleOutcome:
    return judged(rule, made).verdict


def only_group(made: ReplayResult | None = None, **rule: Any) -> GroupJudgement:
    [group] = judged(rule, made).groups
    return group


# Bounds


def test_bounds_are_inclusive_on_both_sides() -> None:
    assert outcome(max=12) is outcome(min=12) is outcome(min=12, max=12) is HOLDS
    assert outcome(max=11.9) is outcome(min=12.1) is VIOLATED


def test_a_multiple_of_the_least_of_recorded_and_of_another_strategy() -> None:
    assert outcome(max=1.0, relative_to="least") is HOLDS
    assert outcome(max=0.99, relative_to="least") is VIOLATED
    # The recorded verdict moved 40.
    assert only_group(max=0.3, relative_to="recorded").at_most == pytest.approx(12)
    assert outcome(max=0.3, relative_to="recorded") is HOLDS
    assert outcome(max=0.29, relative_to="range") is VIOLATED
    assert outcome(min=0.31, relative_to="range") is VIOLATED


def test_of_nothing_no_multiple_is_allowed_and_nothing_is() -> None:
    assert outcome(replayed(least_moved=0), max=5, relative_to="least") is VIOLATED
    assert outcome(replayed(least_moved=0, moved=0), max=1, relative_to="least") is HOLDS


def test_sums_that_differ_in_their_last_digits_are_the_same() -> None:
    assert outcome(replayed(paused_s=0.1 + 0.2), metric="paused_s", max=0.3) is HOLDS
    assert outcome(replayed(paused_s=0.3 + 1e-6), metric="paused_s", max=0.3) is VIOLATED


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_a_figure_of_a_verdict_and_can_be_judged(metric: str) -> None:
    names = {field.name for field in dataclasses.fields(Verdict)}
    assert metric in names
    assert LEAST_OF.get(metric, metric) in names
    made = replayed(rack_misses=3, paused_cooperative_s=2.0)
    assert only_group(made, metric=metric, max=1e9).verdict is HOLDS


# What is not judged


@pytest.mark.parametrize(
    ("figures", "rule"),
    [
        ({"rack_misses": None}, {"metric": "rack_misses"}),
        ({"least_moved": None}, {"relative_to": "least"}),
    ],
)
def test_a_figure_that_is_unknown_is_not_judged(figures: dict[str, Any], rule: dict[str, Any]) -> None:
    group = only_group(replayed(**figures), **rule)
    assert group.verdict is NOT_JUDGED
    assert group.value is None
    assert "is unknown" in (group.reason or "")


def test_a_verdict_that_is_missing_is_not_judged() -> None:
    result = sample()
    others = tuple(each for each in result.verdicts if each.strategy != "cooperative-sticky")
    made = replace(result, verdicts=others)
    assert only_group(made).reason == "there are no figures of cooperative-sticky"


def test_a_strategy_that_failed_is_judged_by_its_failures_alone() -> None:
    group = only_group(groups=[LINKING.replace("[", "[[]")], strategy="range", max=100)
    reason = "range failed in 1 of its rebalances, which no figure covers"
    assert (group.verdict, group.reason) == (NOT_JUDGED, reason)
    failed = only_group(groups=["<a*"], strategy="range", metric="failed", max=0)
    assert (failed.verdict, failed.value) == (VIOLATED, 1)


def test_a_pattern_that_matches_no_group_is_not_judged_even_if_others_do() -> None:
    found = judged({"groups": ["payments", "orders-*"]})
    assert (found.verdict, found.reason) == (NOT_JUDGED, "no group matches 'orders-*'")
    assert [each.verdict for each in found.groups] == [HOLDS]


def test_a_violation_stays_a_violation_beside_unknown_values() -> None:
    assert judged({"groups": ["payments", "orders-*"], "max": 1}).verdict is VIOLATED


def test_the_last_pattern_that_matches_decides() -> None:
    def groups(*patterns: str) -> set[str]:
        return {each.group for each in judged({"groups": list(patterns)}).groups}

    assert groups("*") == set(GROUPS)
    assert groups("*", "!<*") == {"payments"}
    assert groups("!payments", "*") == set(GROUPS)
    assert groups("*", "!*", "pay*") == {"payments"}


def test_a_group_of_which_too_little_was_replayed_is_not_judged() -> None:
    # The sample lacks one of eleven rebalances.
    assert outcome() is HOLDS
    [group] = judged({}, max_not_replayed=0.05).groups
    assert group.verdict is NOT_JUDGED
    assert group.reason == "9% of its rebalances were not replayed, and max_not_replayed allows 5%"


def test_a_group_without_replayed_rebalances_is_not_judged_under_any_limit() -> None:
    result = sample()
    nothing = replace(result.groups[0], replayed_rebalances=0)
    made = replace(result, groups=(nothing, *result.groups[1:]))
    [group] = judged({}, made, max_not_replayed=1).groups
    assert group.reason == "nothing of it was replayed"


def test_nothing_is_judged_by_a_replay_that_does_not_repeat_what_was_recorded() -> None:
    result = sample()
    clients = (replace(result.truth.clients[0], must_match=True, unexplained=1),)
    made = replace(result, truth=replace(result.truth, clients=clients))
    assert judged({}, made).verdict is NOT_JUDGED
    assert "accuracy check" in (judged({}, made).reason or "")
    assert judged({}, made, require_truth=False).verdict is HOLDS


def test_a_strategy_or_mode_that_was_not_replayed_is_not_judged() -> None:
    assert judged({"strategy": "sticky"}).reason == "sticky was not replayed"
    assert judged({"relative_to": "sticky", "max": 1}).reason == "sticky was not replayed"
    made = sample(modes=(Mode.ONE_STEP,))
    assert judged({}, made).reason == "no steady-state replay was asked for"


def test_the_policy_is_violated_if_a_rule_is_and_not_judged_before_it_holds() -> None:
    def of(*maxima: tuple[float, str]) -> RuleOutcome:
        rules = [{**RULE, "max": most, "groups": [group]} for most, group in maxima]
        return judge(read_policy({"rule": rules}), sample()).verdict

    assert of((12, "payments")) is HOLDS
    assert of((12, "payments"), (12, "missing")) is NOT_JUDGED
    assert of((12, "missing"), (11, "payments")) is VIOLATED


# What a policy requires


def test_a_rule_is_about_the_steady_state_of_all_groups_and_has_a_number_for_a_name() -> None:
    [rule] = read_policy({"rule": [RULE]}).rules
    assert (rule.name, rule.mode, rule.groups) == ("rule 1", Mode.STEADY_STATE, ("*",))


# Invalid policies


def refused(table: Mapping[str, Any]) -> str:
    with pytest.raises(PolicyError) as caught:
        read_policy(table, "p.toml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metric": "movd"}, "rule 1: metric has to be one of moved, stickiness, "),
        ({"metric": 3}, "failed, found 3"),
        ({"metric": None}, "failed, and is missing"),
        ({"metric": ["moved"]}, "failed, found ['moved']"),
        ({"strategy": "rang"}, "strategy: "),
        ({"strategy": "least"}, "strategy: "),
        ({"max": None}, "give min, max or both"),
        ({"max": True}, "max has to be a finite number, found True"),
        ({"max": "12"}, "max has to be a finite number, found '12'"),
        ({"max": math.nan}, "max has to be a finite number, found nan"),
        ({"min": -math.inf}, "min has to be a finite number, found -inf"),
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


def test_a_rule_with_a_name_is_refused_with_it() -> None:
    assert refused({"rule": [RULE, {**RULE, "name": "calm", "max": "x"}]}).startswith(
        "p.toml: rule 2 ('calm'): max "
    )


@pytest.mark.parametrize("table", [{}, {"rule": []}, {"rule": {}}, {"rule": [3]}, {"rule": 10**400}])
def test_a_policy_without_rules_is_none(table: dict[str, Any]) -> None:
    assert refused(table) == "p.toml: a policy has rules, each a table that begins with [[rule]]"


def test_other_tables_and_two_rules_of_one_name_are_refused() -> None:
    assert refused({"rules": [RULE]}) == "p.toml: there is no key 'rules': did you mean 'rule'?"
    assert "two rules are called 'a'" in refused({"rule": [{**RULE, "name": "a"}] * 2})
    assert "require_truth has to be true or false, found 1" in refused({"rule": [RULE], "require_truth": 1})
    share = "max_not_replayed has to be a share between 0 and 1, found 10"
    assert share in refused({"rule": [RULE], "max_not_replayed": 10})


# The page


def test_the_page_has_both_policies_and_every_metric() -> None:
    page = (ROOT / "docs" / "validate.md").read_text(encoding="utf-8")
    for name in ("policy.toml", "strict-policy.toml"):
        assert f"```toml\n{(ROOT / 'examples' / name).read_text(encoding='utf-8')}```" in page
    for metric in METRICS:
        assert f"`{metric}`" in page.partition("Metrics are")[2]
