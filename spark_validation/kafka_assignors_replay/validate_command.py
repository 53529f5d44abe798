"""`kafka-assignors validate`: checks a replay against a policy, as a gate of CI."""

from __future__ import annotations

import contextlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from kafka_assignors_cli import options
from kafka_assignors_cli.console import Column, ColumnKind, ExitCode, FittedTable, printable
from kafka_assignors_cli.files import parse_toml, read_file
from kafka_assignors_cli.output_files import CiCase, CiFormats, CiOutcome
from kafka_assignors_replay import policy as policies
from kafka_assignors_replay import replay_command as shared
from kafka_assignors_replay.policy import GroupJudgement, Judgement, PolicyRule, RuleJudgement, RuleOutcome
from kafka_assignors_replay.result import Mode, to_json

EPILOG = """Examples:

kafka-assignors validate history/ --policy policy.toml

kafka-assignors validate history/ --policy policy.toml --junit verdicts.xml     (in CI)

A policy: max, min or both of a metric of a strategy, in groups, as a number or a multiple of something:

\\[\\[rule]]\n
name = "moves little more than it has to"\n
metric = "moved"\n
strategy = "cooperative-sticky"\n
groups = ["payments-*", "!payments-test"]\n
max = 1.1\n
relative_to = "least"

Exit codes: 0 all rules hold; 1 one is violated; 2 none is violated, but one could not be judged, or the \
policy cannot be read.
"""


def validate(
    *,
    context: typer.Context,
    history: shared.History = None,
    policy: Annotated[Path, typer.Option("--policy", "-p", metavar="FILE", help="The policy, in TOML.")],
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    group: shared.GroupIds = None,
    strict: shared.StrictDecoding = False,
    skip_corrupt: shared.SkipCorrupt = False,
    pause: shared.PauseParameters = None,
    json_file: options.JsonFile = None,
    junit: options.JunitFile = None,
    github: options.Github = False,
    html: shared.HtmlFile = None,
    spark_config: shared.SparkConfig = None,
    engine: shared.EngineName = None,
    strategy_timeout: shared.StrategyTimeout = 60.0,
) -> int:
    """Check the replay of a history against a policy: may this strategy go to production?"""
    with contextlib.redirect_stdout(sys.stderr):  # What a strategy prints is no data.
        read = policies.read_policy(parse_toml(policy, read_file(policy)), str(policy))
    ci = CiFormats(junit, github, json_file)
    ci.require()
    shared.require_reports(html, json_file, junit)
    # A replay needs a strategy, also if all rules are about the recorded assignments.
    modes = [mode for mode in Mode if any(rule.mode is mode for rule in read.rule)]
    asked = shared.replay_options(context, read.strategies or ("cooperative-sticky",), modes)
    result = shared.run_replay_with_progress(asked, "validate", engine)
    shared.write_reports(result, html, None)
    judgement, source = policies.judge(read, result), result.history.source
    document = _json(judgement, source, str(policy))
    cases = list(_ci_cases(judgement, str(policy)))
    ci.write_result("validate", judgement_renderables(judgement, source), document, cases)
    return _CODES[judgement.verdict]


# ---- the judgement, as a table, for CI and in JSON

_FORMAT = 1
"""The version of the JSON form, which docs/validate.md describes; a new key leaves it as it is."""

_SHOWN_GROUPS = 5

_COLUMNS = (
    Column("rule", ColumnKind.WORDS),
    Column("what has to hold", ColumnKind.WORDS),
    Column("groups"),
    Column("verdict", ColumnKind.TOKEN),
)

# By the outcome of a rule or of the policy.
_WORDS = dict(zip(RuleOutcome, ("holds", "is violated", "could not be judged"), strict=True))
_STYLES = dict(zip(RuleOutcome, ("", "bold red", "bold yellow"), strict=True))
_IN_CI = dict(zip(RuleOutcome, (CiOutcome.PASSED, CiOutcome.FAILED, CiOutcome.NOT_JUDGED), strict=True))
_CODES = dict(zip(RuleOutcome, (ExitCode.OK, ExitCode.VERDICT_FAILED, ExitCode.CANNOT_RUN), strict=True))


def judgement_renderables(judgement: Judgement, source: str) -> list[RenderableType]:
    table = FittedTable(_COLUMNS, "Rules")
    for each in judgement.rules:
        verdict = Text(each.verdict.value, style=_STYLES[each.verdict])
        table.add([printable(each.rule.name), printable(_words(each.rule)), f"{len(each.groups)}", verdict])
    lines = (Text(printable(line)) for each in judgement.rules for line in _lines(each))
    return [table, *lines, Text(printable(_verdict_line(judgement, source)), style="bold")]


def _lines(judged: RuleJudgement) -> Iterator[str]:
    name = judged.rule.name
    if judged.reason is not None:
        yield f"{name}: not judged: {judged.reason}"
    others = [each for each in judged.groups if each.verdict is not RuleOutcome.HOLDS]
    others.sort(key=lambda each: each.verdict is RuleOutcome.NOT_JUDGED)
    for each in others[:_SHOWN_GROUPS]:
        yield f"{name}: {each.group}: {_found(each)}"
    if len(others) > _SHOWN_GROUPS:
        yield f"{name}: and {len(others) - _SHOWN_GROUPS} more groups"


def _found(judged: GroupJudgement) -> str:
    if judged.value is None:
        return f"not judged: {judged.reason}"
    bounds = _bounds({"at least": judged.at_least, "at most": judged.at_most})
    return f"{_number(judged.value)}, and has to be {bounds}"


def _words(rule: PolicyRule) -> str:
    bounds = _bounds({"≥": rule.min, "≤": rule.max})
    times = {None: "", "least": " × the least possible"}.get(rule.relative_to, f" × {rule.relative_to}")
    return f"{rule.metric} of {rule.strategy} {bounds}{times} ({rule.mode.value})"


def _bounds(bounds: Mapping[str, float | None]) -> str:
    return " and ".join(f"{word} {_number(value)}" for word, value in bounds.items() if value is not None)


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _verdict_line(judgement: Judgement, source: str) -> str:
    counts = Counter(each.verdict for each in judgement.rules)
    holds, *others = RuleOutcome
    words = [f"{counts[holds]} of {len(judgement.rules)} rules hold"]
    words += [f"{counts[each]} {each.value}" for each in others if counts[each]]
    return f"The policy {_WORDS[judgement.verdict]} on {source}: {', '.join(words)}."


def _ci_cases(judgement: Judgement, policy: str) -> Iterator[CiCase]:
    """A verdict on each group of each rule, and on the rule itself if it has a reason of its own."""
    for each in judgement.rules:
        name = each.rule.name
        if each.reason is not None:
            yield CiCase(policy, name, _IN_CI[each.verdict], each.reason, policy)
        for group in each.groups:
            yield CiCase(name, group.group, _IN_CI[group.verdict], _found(group), policy)


def _json(judgement: Judgement, source: str, policy: str) -> str:
    """The verdict as a JSON object; `policy` names the file of the policy."""
    made = {"format": _FORMAT, "verdict": judgement.verdict, "policy": policy, "source": source}
    rules = [
        {**to_json(each.rule), "verdict": each.verdict, "reason": each.reason, "groups": each.groups}
        for each in judgement.rules
    ]
    return json.dumps(to_json({**made, "rules": rules}), indent=1)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(validate)
