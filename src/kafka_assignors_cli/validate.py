"""`kafka-assignors validate`: checks a replay against a policy, as a gate of CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafka_assignors_cli.console import CannotRun, ExitCode, note
from kafka_assignors_cli.files import parse_toml, read_document, read_file, require_writable, write_file
from kafka_assignors_cli.options import (
    EngineName,
    GroupIds,
    JsonFile,
    Master,
    PauseParameters,
    StrategyTimeout,
    StrictDecoding,
    add_current_directory,
    parse_parameters,
    split_names,
)
from kafka_assignors_cli.replay import run_replay_with_progress

if TYPE_CHECKING:
    from kafka_assignors_spark.policy import Policy, ReplayReport

__all__ = ["EPILOG", "validate"]

EPILOG = """Examples:

kafka-assignors validate history/ --policy policy.toml

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
    str,
    typer.Argument(
        metavar="HISTORY|REPORT.json",
        help="A history to replay (see replay --help), or a file that replay --json wrote.",
    ),
]
PolicyFile = Annotated[Path, typer.Option("--policy", "-p", metavar="FILE", help="The policy, in TOML.")]


def validate(
    *,
    history: HistoryOrReport,
    policy: PolicyFile,
    group: GroupIds = None,
    strict: StrictDecoding = False,
    pause: PauseParameters = None,
    json_file: JsonFile = None,
    master: Master = None,
    engine: EngineName = None,
    strategy_timeout: StrategyTimeout = 60.0,
) -> int:
    """Check the replay of a history against a policy: may this strategy go to production?"""
    # The modules of the replay are imported on demand: other commands start faster without them.
    from kafka_assignors_cli.policy_tables import judgement_to_json, print_judgement
    from kafka_assignors_spark.options import ReplayOptions
    from kafka_assignors_spark.policy import RuleOutcome, judge, read_report
    from kafka_assignors_spark.result import to_json

    rules = _policy(policy)
    if json_file is not None:
        require_writable(json_file)
    if history.endswith(".json"):
        given = (("--group", group), ("--strict", strict), ("--pause", pause))
        if meaningless := [name for name, value in given if value]:
            raise CannotRun(
                f"{', '.join(meaningless)} cannot change {history}, which was replayed already: "
                "give the history"
            )
        report = _written_report(Path(history))
    else:
        options = ReplayOptions(
            path=history,
            # A replay needs a strategy, also if all rules are about the recorded assignments.
            strategies=rules.strategies or ("cooperative-sticky",),
            modes=rules.modes,
            groups=split_names(group) if group else None,
            strict=strict,
            master=master,
            pauses=parse_parameters("--pause", pause, ReplayOptions().pauses),
            strategy_timeout_s=strategy_timeout,
        )
        report = read_report(to_json(run_replay_with_progress(options, "validate", engine)))
    judgement = judge(rules, report)
    print_judgement(judgement, report)
    if json_file is not None:
        text = json.dumps(judgement_to_json(judgement, report, str(policy)), indent=1)
        write_file(json_file, text + "\n")
        note(f"wrote {json_file}")
    return {
        RuleOutcome.HOLDS: ExitCode.OK,
        RuleOutcome.VIOLATED: ExitCode.VERDICT_FAILED,
        RuleOutcome.NOT_JUDGED: ExitCode.CANNOT_RUN,
    }[judgement.outcome]


def _policy(path: Path) -> Policy:
    from kafka_assignors_spark.policy import PolicyError, read_policy

    table = parse_toml(path, read_file(path))
    add_current_directory()
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
