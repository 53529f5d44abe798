"""`kafka-assignors validate`: checks a replay against a policy, as a gate of CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_assignors_cli.ci_formats import CiFormats
from kafka_assignors_cli.console import CannotRun, ExitCode
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

if TYPE_CHECKING:
    from kafka_assignors_spark.policy import Policy
    from kafka_assignors_spark.report.as_json import ReplayReport

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
    from kafka_assignors_cli.policy_tables import judgement_to_json, print_judgement, verdicts
    from kafka_assignors_spark.policy import judge
    from kafka_assignors_spark.report.as_json import read_report
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
    from kafka_assignors_spark.report.as_json import ReportError, read_report

    document = read_document("report", read_file(path, _MOST_REPORT_BYTES), str(path))
    try:
        return read_report(document, str(path))
    except ReportError as error:
        raise CannotRun(str(error)) from None
