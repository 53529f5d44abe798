"""`kafka-assignors validate`: checks a replay against a policy, as a gate of CI.

The judgement is shown as tables, and written as an object in JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from kafka_assignors_cli.ci_formats import CiFormats, Outcome, Verdict
from kafka_assignors_cli.console import (
    CannotRun,
    Column,
    ColumnKind,
    ExitCode,
    FittedTable,
    emit_renderable,
    printable,
)
from kafka_assignors_cli.files import parse_toml, read_document, read_file
from kafka_assignors_cli.json_output import is_stdout, require_json_file, write_document
from kafka_assignors_cli.options import (
    BootstrapServer,
    Checkpoint,
    ClusterOptions,
    CommandConfig,
    EngineName,
    Github,
    GroupIds,
    JsonFile,
    JunitFile,
    Master,
    PauseParameters,
    ReplayInput,
    SkipCorrupt,
    SparkConfig,
    StrategyTimeout,
    StrictDecoding,
    Timeout,
)
from kafka_assignors_cli.replay import note_damage, run_replay_with_progress
from kafka_assignors_spark.policy import (
    GroupJudgement,
    Judgement,
    PolicyRule,
    ReplayReport,
    RuleJudgement,
    RuleOutcome,
)

if TYPE_CHECKING:
    from kafka_assignors_spark.policy import Policy, ReplayReport

EPILOG = """Examples:

kafka-assignors validate history/ --policy policy.toml

kafka-assignors validate history/ --policy policy.toml --junit verdicts.xml     (in CI)

kafka-assignors replay history/ --json report.json && kafka-assignors validate report.json --policy \
policy.toml     (judged again without Spark)

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

_MOST_REPORT_BYTES = 2**30
"""The limit for a report. A replay of thousands of groups under all strategies writes some 400 MB."""


HistoryOrReport = Annotated[
    str | None,
    typer.Argument(
        metavar="HISTORY|REPORT.json",
        help="A history to replay (see replay --help), or a file that replay --json wrote; without it, give "
        "--bootstrap-server.",
        show_default=False,
    ),
]
PolicyFile = Annotated[Path, typer.Option("--policy", "-p", metavar="FILE", help="The policy, in TOML.")]


def validate(
    *,
    context: typer.Context,
    history: HistoryOrReport = None,
    policy: PolicyFile,
    bootstrap_server: BootstrapServer = None,
    command_config: CommandConfig = None,
    timeout: Timeout = None,
    group: GroupIds = None,
    strict: StrictDecoding = False,
    skip_corrupt: SkipCorrupt = False,
    pause: PauseParameters = None,
    json_file: JsonFile = None,
    junit: JunitFile = None,
    github: Github = False,
    master: Master = None,
    spark_config: SparkConfig = None,
    checkpoint: Checkpoint = None,
    engine: EngineName = None,
    strategy_timeout: StrategyTimeout = 60.0,
) -> int:
    """Check the replay of a history against a policy: may this strategy go to production?"""
    # The modules of the replay are imported on demand: other commands start faster without them.
    from kafka_assignors_cli.validate import judgement_to_json, print_judgement, verdicts
    from kafka_assignors_spark.policy import judge, read_report
    from kafka_assignors_spark.result import to_json

    rules = _policy(policy)
    ci = CiFormats(junit, github, json_file)
    require_json_file(json_file)
    ci.require()
    if history is not None and history.endswith(".json"):
        _refuse_options_of_a_replay(context, history)
        report = _written_report(Path(history))
    else:
        asked = ReplayInput(
            history,
            ClusterOptions(bootstrap_server, command_config, timeout),
            group,
            strict,
            skip_corrupt,
            pause,
            master,
            spark_config,
            checkpoint,
            strategy_timeout,
        )
        # A replay needs a strategy, also if all rules are about the recorded assignments.
        options = asked.options("validate", rules.strategies or ("cooperative-sticky",), rules.modes)
        result = run_replay_with_progress(options, "validate", engine)
        note_damage(result)
        report = read_report(to_json(result))
    judgement = judge(rules, report)
    if not is_stdout(json_file):
        with ci.text():
            print_judgement(judgement, report)
    write_document(json_file, json.dumps(judgement_to_json(judgement, report, str(policy)), indent=1))
    if ci.asked:
        ci.write("validate", verdicts(judgement, str(policy)))
    return _EXIT_CODES[judgement.outcome.name]


_EXIT_CODES = {
    "HOLDS": ExitCode.OK,
    "VIOLATED": ExitCode.VERDICT_FAILED,
    "NOT_JUDGED": ExitCode.CANNOT_RUN,
}
"""The exit codes by the outcome of a policy (`RuleOutcome`)."""

_OF_EVERY_INPUT = {"history", "policy", "json_file", "junit", "github"}
"""The parameters that also make sense with a written report."""


def _refuse_options_of_a_replay(context: typer.Context, report: str) -> None:
    given = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name is not None
        and parameter.name not in _OF_EVERY_INPUT
        # typer may contain a copy of click, so the enumeration has no module to import it from.
        and getattr(context.get_parameter_source(parameter.name), "name", "") == "COMMANDLINE"
    ]
    if given:
        raise CannotRun(
            f"{', '.join(given)} cannot change {report}, which was replayed already: give the history"
        )


def _policy(path: Path) -> Policy:
    from kafka_assignors_spark.policy import PolicyError, read_policy

    table = parse_toml(path, read_file(path))
    try:
        return read_policy(table, str(path))
    except PolicyError as error:
        raise CannotRun(str(error)) from None


def _written_report(path: Path) -> ReplayReport:
    from kafka_assignors_spark.policy import ReportError, read_report

    document = read_document("report", read_file(path, _MOST_REPORT_BYTES), str(path))
    try:
        return read_report(document, str(path))
    except ReportError as error:
        raise CannotRun(str(error)) from None


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
