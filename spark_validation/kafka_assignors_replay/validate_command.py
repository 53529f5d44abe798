"""`kafka-assignors validate`: checks a replay against a policy, as a gate of CI."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import RenderableType
from rich.text import Text

from kafka_assignors.arguments import UserError
from kafka_assignors_cli import options
from kafka_assignors_cli.console import Column, ColumnKind, ExitCode, FittedTable, printable
from kafka_assignors_cli.files import parse_toml, read_file
from kafka_assignors_cli.output_files import CiCase, CiFormats, CiOutcome, is_stdout
from kafka_assignors_replay import replay_command as shared
from kafka_assignors_replay.replay_command import run_replay_with_progress

if TYPE_CHECKING:
    from kafka_assignors_replay.policy import GroupJudgement, Judgement, PolicyRule, RuleJudgement

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

PolicyFile = Annotated[Path, typer.Option("--policy", "-p", metavar="FILE", help="The policy, in TOML.")]
ReplayJson = Annotated[
    Path | None, options.output_option(metavar="FILE", help="Write the JSON report of the replay.")
]


def validate(
    *,
    context: typer.Context,
    history: shared.History = None,
    policy: PolicyFile,
    bootstrap_server: options.BootstrapServer = None,
    command_config: options.CommandConfig = None,
    timeout: options.Timeout = None,
    group: shared.GroupIds = None,
    strict: shared.StrictDecoding = False,
    pause: shared.PauseParameters = None,
    json_file: options.JsonFile = None,
    junit: options.JunitFile = None,
    github: options.Github = False,
    html: shared.HtmlFile = None,
    replay_json: ReplayJson = None,
    master: shared.Master = None,
    spark_config: shared.SparkConfig = None,
    engine: shared.EngineName = None,
    strategy_timeout: shared.StrategyTimeout = 60.0,
) -> int:
    """Check the replay of a history against a policy: may this strategy go to production?"""
    # The modules of the replay are imported on demand: other commands start faster without them.
    from kafka_assignors_replay.policy import judge, read_policy

    rules = read_policy(parse_toml(policy, read_file(policy)), str(policy))
    ci = CiFormats(junit, github, json_file)
    ci.require()
    if is_stdout(replay_json):
        raise UserError("--replay-json -: stdout is for the verdict: give a file")
    shared.require_reports(html, replay_json)
    # A replay needs a strategy, also if all rules are about the recorded assignments.
    asked = shared.replay_options(context, rules.strategies or ("cooperative-sticky",), rules.modes)
    result = run_replay_with_progress(asked, "validate", engine)
    shared.write_reports(result, html, replay_json)
    judgement, source = judge(rules, result), result.history.source
    document = json.dumps(judgement_to_json(judgement, source, str(policy)), indent=1)
    ci.write_result(
        "validate", judgement_renderables(judgement, source), document, _ci_cases(judgement, str(policy))
    )
    return _SHOWN[judgement.verdict.name].code


# ---- the judgement, as a table, for CI and in JSON

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


class _Shown(NamedTuple):
    """How the outcome of a rule or of the policy is shown."""

    style: str
    policy: str
    in_ci: CiOutcome
    code: ExitCode


_SHOWN = {
    "HOLDS": _Shown("", "The policy holds", CiOutcome.PASSED, ExitCode.OK),
    "VIOLATED": _Shown("bold red", "The policy is violated", CiOutcome.FAILED, ExitCode.VERDICT_FAILED),
    "NOT_JUDGED": _Shown(
        "bold yellow", "The policy could not be judged", CiOutcome.NOT_JUDGED, ExitCode.CANNOT_RUN
    ),
}
"""By the name of the outcome (`RuleOutcome`)."""


def judgement_renderables(judgement: Judgement, source: str) -> list[RenderableType]:
    table = FittedTable(_COLUMNS, "Rules")
    lines: list[Text] = []
    for each in judgement.rules:
        table.add(
            [
                printable(each.rule.name),
                printable(_words(each.rule)),
                str(len(each.groups)),
                Text(each.verdict.value, style=_SHOWN[each.verdict.name].style),
            ]
        )
        lines += _lines(each)
    return [table, *lines, Text(_verdict_line(judgement, source), style="bold")]


def _lines(judged: RuleJudgement) -> Iterator[Text]:
    name = printable(judged.rule.name)
    if judged.reason is not None:
        yield Text(f"{name}: not judged: {printable(judged.reason)}")
    not_holding = [each for each in judged.groups if each.verdict.name != "HOLDS"]
    # Violations first.
    not_holding.sort(key=lambda each: each.verdict.name == "NOT_JUDGED")
    for each in not_holding[:_SHOWN_GROUPS]:
        yield Text(f"{name}: {printable(each.group)}: {printable(_found(each))}")
    if len(not_holding) > _SHOWN_GROUPS:
        yield Text(f"{name}: and {len(not_holding) - _SHOWN_GROUPS} more groups")


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
    counts = Counter(rule.verdict for rule in judgement.rules)
    holds, *others = type(judgement.verdict)
    words = [f"{counts[holds]} of {len(judgement.rules)} rules hold"]
    words += [f"{counts[each]} {each.value}" for each in others if counts[each]]
    return f"{_SHOWN[judgement.verdict.name].policy} on {printable(source)}: {', '.join(words)}."


def _ci_cases(judgement: Judgement, policy: str) -> list[CiCase]:
    """A verdict on each group of each rule; on the rule itself if it has no groups or a reason of its own."""
    found = []
    for each in judgement.rules:
        name = each.rule.name
        if each.reason is not None or not each.groups:
            found.append(CiCase(policy, name, _SHOWN[each.verdict.name].in_ci, each.reason or "", policy))
        found += [
            CiCase(name, group.group, _SHOWN[group.verdict.name].in_ci, _found(group), policy)
            for group in each.groups
        ]
    return found


def judgement_to_json(judgement: Judgement, source: str, policy: str) -> dict[str, Any]:
    """The verdict as a JSON object; `policy` names the file of the policy."""
    from kafka_assignors_replay.result import to_json

    rules = [
        {
            "name": each.rule.name,
            "verdict": each.verdict,
            "reason": each.reason,
            **{key: getattr(each.rule, key) for key in _OF_A_RULE},
            "groups": each.groups,
        }
        for each in judgement.rules
    ]
    verdict = judgement.verdict
    made = {"format": _FORMAT, "verdict": verdict, "policy": policy, "source": source, "rules": rules}
    form: dict[str, Any] = to_json(made)
    return form


_OF_A_RULE = ("metric", "strategy", "mode", "min", "max", "relative_to")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(validate)
